#!/usr/bin/env python3
"""examples.py --plimsoll PATH ROOT: run what README.md and the manual show.

README.md: in a ```console block a line "$ build/plimsoll …" is run, and the lines below it must be what it prints.
Manual pages: every line of the EXAMPLES section that begins with "plimsoll " is run in an empty directory; it must end
with status 0 or 1 (does not fit), or with 3 and say that there is no usable GPU; programs of the reader's own are stood in for.
`--update` writes the README's outputs anew.
"""
import argparse
import difflib
import os
import pathlib
import re
import subprocess
import sys
import tempfile


def shell(command, folder, environment):
    return subprocess.run(['sh', '-c', command], cwd=folder, env=environment, text=True, capture_output=True,
                          stdin=subprocess.DEVNULL)


def check_readme(path, exe, environment, update):
    text, count = path.read_text(), 0

    def anew(block):
        nonlocal count
        out = []
        for part in re.split(r'^(?=\$ )', block[1], flags=re.M):
            command = part.split('\n', 1)[0]
            if command.startswith('$ build/plimsoll '):
                count += 1
                part = command + '\n' + shell(command[2:].replace('build/plimsoll', exe, 1), path.parent, environment).stdout
            out.append(part)
        return '```console\n' + ''.join(out) + '```'

    now = re.sub(r'```console\n(.*?)```', anew, text, flags=re.S)
    if update and now != text:
        path.write_text(now)
        text = now
    sys.stdout.writelines(difflib.unified_diff(text.splitlines(True), now.splitlines(True), path.name, 'now'))
    print(f'{path.name}: {count} runs')
    return text == now and count > 0


def check_page(path, environment):
    section = re.search(r'^# EXAMPLES\n(.*?)(?=^# |\Z)', path.read_text(), re.M | re.S)
    if not section:
        return True
    joined = re.sub(r'\\\n\s*', '', section[1])
    commands = [c.strip() for c in re.findall(r'^\s*(?:\$ )?(plimsoll .*)$', joined, re.M)]
    good = bool(commands)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as programs:
        for name in ('python', 'torchrun'):
            os.symlink('/bin/true', os.path.join(programs, name))
        environment = dict(environment, PATH=programs + os.pathsep + environment['PATH'])
        for command in commands:
            done = shell(command, folder, environment)
            if done.returncode not in (0, 1) and not (done.returncode == 3 and 'no usable ' in done.stderr):
                print(f'{path.name}: {command}\n  status {done.returncode}: {done.stderr.strip()}')
                good = False
    print(f'{path.name}: {len(commands)} examples')
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--plimsoll', required=True, type=os.path.abspath)
    parser.add_argument('--update', action='store_true')
    parser.add_argument('root', type=pathlib.Path)
    args = parser.parse_args()
    environment = dict(os.environ, LC_ALL='C.UTF-8', NO_COLOR='1', PLIMSOLL_CUDNN='off',
                       PATH=os.path.dirname(args.plimsoll) + os.pathsep + os.environ['PATH'])
    good = [check_readme(args.root / 'README.md', args.plimsoll, environment, args.update)]
    good += [check_page(path, environment) for path in sorted((args.root / 'man').glob('*.scd*'))]
    return 0 if all(good) else 1


if __name__ == '__main__':
    sys.exit(main())
