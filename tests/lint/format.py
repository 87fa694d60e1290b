#!/usr/bin/env python3
"""format.py ROOT CLANG-FORMAT: the C files are as clang-format 14 leaves them (other versions differ: skipped)."""
import pathlib
import re
import subprocess
import sys

root, tool = pathlib.Path(sys.argv[1]), sys.argv[2]
version = subprocess.run([tool, '--version'], capture_output=True, text=True).stdout
if not re.search(r'version 14\.', version):
    print(f'{tool} is not version 14: {version.strip()}')
    sys.exit(77)
files = sorted(str(p.relative_to(root)) for folder in ('src', 'include', 'tests') for p in (root / folder).rglob('*.[ch]'))
run = subprocess.run([tool, '--dry-run', '-Werror', *files], cwd=root, capture_output=True, text=True)
bad = sorted(set(re.findall(r'^(\S+?):\d+:\d+: error', run.stderr, re.M)))
print('\n'.join(f'{name}: run clang-format -i' for name in bad) or run.stderr or f'{len(files)} files are formatted')
sys.exit(1 if run.returncode else 0)
