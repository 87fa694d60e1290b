#!/usr/bin/env python3
"""headers.py ROOT COMPILER…: every header compiles alone."""
import concurrent.futures
import pathlib
import subprocess
import sys

root, compiler = pathlib.Path(sys.argv[1]), sys.argv[2:]
headers = sorted([*root.glob('src/*/*.h'), *root.glob('include/plimsoll/*.h')])


def alone(path):
    base = root / ('include' if path.is_relative_to(root / 'include') else 'src')
    run = subprocess.run(
        [*compiler, '-std=gnu17', '-fsyntax-only', '-Wall', '-Wextra', '-Wno-unused-parameter', '-Werror',
         f'-I{root}/src', f'-I{root}/include', '-xc', '-'],
        input=f'#include "{path.relative_to(base)}"\n', text=True, capture_output=True)
    return None if run.returncode == 0 else f'{path.relative_to(root)}:\n{run.stderr}'


with concurrent.futures.ThreadPoolExecutor(2) as pool:
    bad = [text for text in pool.map(alone, headers) if text]
print('\n'.join(bad) or f'{len(headers)} headers compile alone')
sys.exit(1 if bad or not headers else 0)
