#!/usr/bin/env python3
"""run.py --plimsoll PATH [--update] CASE…: hold what the program prints against what is stored.

A case is a directory: `args` holds the arguments (shell words; lines are joined), `expected.txt` what came of it: standard
output, then standard error with "! " before each line, then "exit N". The program runs in the directory, so that
`model.yaml` beside them is just that.

A case that ends in .yaml is a model with a mistake (a directory without `args` stands for those in it): its first line is "# expected: LINE:COLUMN: MESSAGE", and `plimsoll check` must
print exactly that after the file's name, nothing else, and end with status 2.
"""
import argparse
import difflib
import os
import pathlib
import shlex
import subprocess
import sys

# no libcudnn is asked: what is printed is the same on every machine
ENVIRONMENT = {'LC_ALL': 'C', 'PATH': os.environ['PATH'], 'NO_COLOR': '1', 'PLIMSOLL_CUDNN': 'off',
               **{k: v for k, v in os.environ.items() if k.startswith(('ASAN', 'UBSAN'))}}


def run(exe, args, folder):
    done = subprocess.run([exe, *args], cwd=folder, env=ENVIRONMENT, stdin=subprocess.DEVNULL, text=True,
                          capture_output=True)
    return done.returncode, done.stdout, done.stderr


def check_directory(exe, case, update):
    args = shlex.split((case / 'args').read_text(), comments=True)
    status, out, err = run(exe, args, case)
    text = out + ''.join(f'! {line}\n' for line in err.splitlines()) + f'exit {status}\n'
    stored = case / 'expected.txt'
    if update:
        stored.write_text(text)
        return True
    expected = stored.read_text() if stored.exists() else ''
    sys.stdout.writelines(difflib.unified_diff(expected.splitlines(True), text.splitlines(True), str(stored), 'now'))
    return text == expected


def check_error(exe, case):
    first = case.read_text(errors='replace').split('\n', 1)[0]
    status, out, err = run(exe, ['check', case.name], case.parent)
    expected = f'{case.name}:{first.removeprefix("# expected: ")}\n'
    if (status, out, err) == (2, '', expected):
        return True
    print(f'{case}: expected status 2 and\n  {expected}got status {status} and\n  {out}{err}')
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--plimsoll', required=True, type=os.path.abspath)
    parser.add_argument('--update', action='store_true')
    parser.add_argument('cases', nargs='+', type=pathlib.Path)
    args = parser.parse_args()
    cases = []
    for case in args.cases:
        cases += [case] if case.suffix == '.yaml' or (case / 'args').exists() else sorted(case.glob('*.yaml'))
    good = [check_error(args.plimsoll, case) if case.suffix == '.yaml' else
            check_directory(args.plimsoll, case, args.update) for case in cases]
    print(f'{sum(good)} of {len(good)} as stored')
    return 0 if good and all(good) else 1


if __name__ == '__main__':
    sys.exit(main())
