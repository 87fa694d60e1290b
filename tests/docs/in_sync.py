#!/usr/bin/env python3
"""in_sync.py --plimsoll PATH ROOT: what the documents say of the program and of each other is true."""
import argparse
import os
import pathlib
import re
import subprocess
import sys

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument('--plimsoll', required=True, type=os.path.abspath)
parser.add_argument('root', type=pathlib.Path)
args = parser.parse_args()
root, bad = args.root, []


def read(name):
    path = root / name
    if not path.exists():
        bad.append(f'{name}: missing')
        return ''
    return path.read_text()


def printed(what):
    return subprocess.run([args.plimsoll, f'--print-docs={what}'], text=True, capture_output=True, check=True).stdout


# Each command has a page whose OPTIONS come from the table.
commands = re.findall(r'^COMMAND\(\w+, (\w+)\)', read('src/cli/commands.def'), re.M)
for command in commands:
    if f'@scd:{command}@' not in read(f'man/plimsoll-{command}.1.scd').splitlines():
        bad.append(f'man/plimsoll-{command}.1.scd: no line @scd:{command}@')
    for shell in ('bash', 'zsh', 'fish'):
        if command not in printed(shell):
            bad.append(f'{shell} completion: no {command}')
options = re.findall(r'^OPTION\(\w+, "([\w-]+)"', read('src/cli/options.def'), re.M)
sections = ''.join(printed(f'scd:{command}') for command in commands)
bad += [f'--{option}: in no page' for option in options if f'*--{option}*' not in sections]
if '@scd:operators@' not in read('man/plimsoll-model.5.scd').splitlines():
    bad.append('man/plimsoll-model.5.scd: no line @scd:operators@')
# The keys of a device profile are written by hand in the manual.
keys = re.findall(r'(?:FIELD\(|\.key = ")(\w+)', read('src/device/device.c').split('device_fields[] = {')[1].split('};')[0])
page = read('man/plimsoll-device.5.scd').replace('\\_', '_')
bad += [f'man/plimsoll-device.5.scd: no {key}' for key in keys if f'*{key}*' not in page]
# The keys of a model file's nodes and the element types, too.
page = read('man/plimsoll-model.5.scd').replace('\\_', '_')
keys = re.findall(r'^KEY\([^"]*"(\w+)"', read('src/model/node_keys.def'), re.M)
nodes = page.split('## Nodes')[1].split('\n## ')[0]
bad += [f'man/plimsoll-model.5.scd: no {key} under Nodes' for key in keys if f'*{key}*' not in nodes]
types = re.findall(r'^DTYPE\(\w+, (\w+)', read('src/opdef/dtypes.def'), re.M)
named = page.split('## Types')[1].split('\n## ')[0]
bad += [f'man/plimsoll-model.5.scd: no {name} under Types' for name in types if not re.search(rf'\b{name}\b', named)]
if not keys or not types:
    bad.append('node_keys.def, dtypes.def: nothing was found in them')
# The README's two commands; the second is what .ci/run calls.
readme = read('README.md')
if len(readme.splitlines()) > 150:
    bad.append('README.md: more than 150 lines')
test = re.search(r'tools/setup --tests && .*', readme)
if not test or test[0] not in read('.ci/run'):
    bad.append('README.md: .ci/run does not call its test command')
# Every file of ours that a document names is there.
documents = [*root.glob('*.md'), *root.glob('docs/**/*.md'), *root.glob('tests/**/*.md')]
for path in documents:
    for name in re.findall(r'`((?:src|tests|docs|man|models|calib|tools|include|completions)/[\w./-]*\w/?)`', path.read_text()):
        if 'NAME' not in name and not (root / name).exists():
            bad.append(f'{path.relative_to(root)}: {name} is not there')
    for link in re.findall(r'\]\(([\w./-]+)(?:#[\w-]*)?\)', path.read_text()):
        if not (path.parent / link).exists():
            bad.append(f'{path.relative_to(root)}: link to {link} leads nowhere')
long = [p.name for p in root.glob('docs/decisions/*.md') if len(p.read_text().splitlines()) > 40]
bad += [f'docs/decisions/{name}: more than 40 lines' for name in long]
print('\n'.join(bad) or f'{len(commands)} commands, {len(options)} options, {len(keys)} keys, {len(documents)} documents')
sys.exit(1 if bad or not commands or not options or not keys else 0)
