#!/usr/bin/env python3
"""operators.py ROOT: every operator has help, and a model or a test uses it."""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
rows = re.findall(r'^OP\((\w+), (\w+),(.*?)\)$', (root / 'src/opdef/ops.def').read_text(), re.M | re.S)
models = '\n'.join(p.read_text() for p in root.glob('models/*.yaml'))
models += '\n'.join(p.read_text(errors='replace') for p in root.glob('tests/**/*.yaml') if 'errors' not in p.parts)
used = set(re.findall(r'\bop:\s*(\w+)', models))
tests = '\n'.join(p.read_text() for p in root.glob('tests/**/*.c'))
used_in_tests = set(re.findall(r'\bOP_(\w+)', tests))
# rows of recorded programs: "x: leaf float32 4,6; y: relu x"
rows_of_tests = '\n'.join(p.read_text() for p in root.glob('tests/unit/*.def'))
used |= set(re.findall(r'\w: (\w+)', rows_of_tests))
bad = []
for ident, name, rest in rows:
    texts = re.findall(r'"((?:[^"\\]|\\.)*)"', rest)
    if not texts or not texts[-1].strip():
        bad.append(f'{name}: no help')
    if name not in used and ident not in used_in_tests:
        bad.append(f'{name}: in no model and no test')
print('\n'.join(bad) or f'{len(rows)} operators are described and used')
sys.exit(1 if bad or not rows else 0)
