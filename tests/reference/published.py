#!/usr/bin/env python3
"""published.py ROOT --plimsoll PATH [--update]: what others measured on real GPUs and published, and how far Plimsoll is from it.

Each row of published.csv has the public source, the figure, the arguments that express its configuration, and whether the source
states all that decides the figure (`specified`). Nothing is fitted to these figures. Without --update the table must be the one in
docs/accuracy.md.

`metric`: allocated is max_memory_allocated over the steps, after what is allocated when a step has ended, reserved
max_memory_reserved over the steps, device what NVML shows of the whole device, reserved memory and a context, loaded the same
when the model is on the device.
"""
import argparse
import concurrent.futures
import csv
import difflib
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
BEGIN, END = '<!-- written by tests/reference/published.py -->\n', '<!-- published to here -->\n'


def figure(row, exe):
    arguments = shlex.split(row['arguments'])
    if arguments[0].endswith('.yaml'):
        arguments[0] = str(HERE / arguments[0])
    argv = [exe, 'estimate', *arguments, '--steps', '3', '--json']
    # no libcudnn is asked: what is stored is the same on every machine
    answer = subprocess.run(argv, capture_output=True, text=True, env={**os.environ, 'PLIMSOLL_CUDNN': 'off'})
    if answer.returncode > 1:
        return None, answer.stderr.strip().splitlines()[-1]
    report = json.loads(answer.stdout)
    if row['metric'] == 'after':
        return [p for p in report['phases'] if p['step'] == 2][-1]['allocated_end_bytes'], None
    if report['failure']:
        return None, 'out of memory'
    if row['metric'] == 'loaded':
        return report['phases'][0]['reserved_end_bytes'] + report['context_bytes'], None
    if row['metric'] == 'device':
        return max(s['reserved_bytes'] for s in report['steps']) + report['context_bytes'], None
    return max(s[row['metric'] + '_bytes'] for s in report['steps']), None


def summary(name, errors):
    sizes = [abs(e) for e in errors]
    return (f'| {name} | {len(sizes)} | {100 * statistics.median(sizes):.3f} % | {sum(e <= .02 for e in sizes)} | '
            f'{sum(e <= .05 for e in sizes)} | {100 * min(errors):+.2f} / {100 * max(errors):+.2f} % |')


def table(rows, exe):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        figures = list(pool.map(lambda r: figure(r, exe), rows))
    out = ['| row | source | metric | published | Plimsoll | error | configuration | about |', '|---|---|---|---|---|---|---|---|']
    errors = {'yes': [], 'no': []}
    for row, (mine, failure) in zip(rows, figures):
        true = int(row['bytes'])
        if failure:
            out.append(f'| {row["id"]} | {row["source"]} | {row["metric"]} | {true:,} | – | – | {failure} | {row["about"]} |')
            continue
        error = mine / true - 1
        errors[row['specified']].append(error)
        about = row['about'] if row['specified'] == 'yes' else f'not fully specified: {row["about"]}'
        out.append(f'| {row["id"]} | {row["source"]} | {row["metric"]} | {true:,} | {mine:,} | {100 * error:+.3f} % '
                   f'| `{row["arguments"]}` | {about} |')
    head = ['| figures | number | median of the errors\' sizes | within 2 % | within 5 % | worst |', '|---|---|---|---|---|---|',
            summary('fully specified', errors['yes']), summary('not fully specified', errors['no']), '']
    return ''.join(line + '\n' for line in head + out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('root', type=pathlib.Path)
    parser.add_argument('--plimsoll', required=True)
    parser.add_argument('--update', action='store_true')
    args = parser.parse_args()

    path = args.root / 'docs' / 'accuracy.md'
    text = path.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    new = before + BEGIN + '\n' + table(list(csv.DictReader(open(HERE / 'published.csv'))), args.plimsoll) + '\n' + END + after
    if args.update:
        path.write_text(new)
        return 0
    if new == text:
        return 0
    sys.stdout.writelines(difflib.unified_diff(text.splitlines(True), new.splitlines(True), 'docs/accuracy.md', 'now'))
    print('When the change is right: tests/reference/published.py . --plimsoll build/plimsoll --update')
    return 1


if __name__ == '__main__':
    sys.exit(main())
