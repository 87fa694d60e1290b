#!/usr/bin/env python3
"""listed.py ROOT: every source file and every test is in a meson.build, so that nothing is left out silently."""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
bad, count = [], 0
for path in sorted([*root.glob('src/*/*.c'), *root.glob('tests/*/*.c'), *root.glob('tests/lint/*.py'),
                    *root.glob('tests/replay/traces/*.trace')]):
    name = path.relative_to(root)
    if name.as_posix() == 'tests/install/answer.c':
        continue  # .ci/run compiles it against what was installed
    count += 1
    places = (path.parent / 'meson.build', path.parent.parent / 'meson.build', root / 'tests/meson.build', root / 'meson.build')
    lists = [p.read_text() for p in places if p.exists()]
    test = re.match(r'(?:test|fuzz|property)-(.*)$', path.stem)
    wanted = [f"'{path.name}'", f"'{name.as_posix()}'", f"'{path.parent.name}/{path.name}'", f"'{path.stem}'"] + ([f"'{test[1]}'"] if test else [])
    if not any(w in text for w in wanted for text in lists):
        bad.append(f'{name}: in no meson.build')
print('\n'.join(bad) or f'{count} files are listed')
sys.exit(1 if bad else 0)
