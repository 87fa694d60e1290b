#!/usr/bin/env python3
"""accuracy.py ROOT [--update]: the tables of docs/accuracy.md and README.md, from the reference cases, errors.csv and causes.json.

causes.json is a list of {"match": REGEX, "cause": TEXT}; the first whose regular expression is found in
"FILE ID WORKLOAD GROUP GPU ALLOCATOR CONFIG" is the cause of a case that is not exact. Without --update the tables
must be those in the documents.
"""
import argparse
import csv
import difflib
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
BEGIN, END = '<!-- written by tests/reference/accuracy.py -->\n', '<!-- to here -->\n'
FILES = ('one.jsonl', 'older.jsonl', 'many.jsonl', 'capacity.jsonl', 'more.jsonl',
         'parallel.jsonl', 'deepspeed.jsonl', 'megatron.jsonl', 'pipeline.jsonl')


def share(part, whole):
    return f'{part} of {whole} ({100 * part / whole:.1f} %)' if whole else '–'


def percent(error, true):
    return f'{100 * error / true:+.4f} %'


def worst(rows, name):
    low = min((r['error'][name] / r['case'][name] for r in rows), default=0)
    high = max((r['error'][name] / r['case'][name] for r in rows), default=0)
    return f'{100 * min(low, 0):+.3f} / {100 * max(high, 0):+.3f} %'


def load(name='errors.csv'):
    rows = []
    cases = {f: {c['id']: c for c in map(json.loads, open(HERE / f))} for f in FILES}
    for row in csv.DictReader(open(HERE / name)):
        row['case'] = cases[row['file']][row['id']]
        row['error'] = {k: int(row[k]) for k in ('requested', 'allocated', 'reserved') if row[k] != ''}
        rows.append(row)
    return rows


def summary(rows, groups=None):
    out = ['| cases | n | allocated exact | within 0.5 % | worst low / high | reserved exact | within 1 % | worst low / high '
           '| every step exact |', '|---|---|---|---|---|---|---|---|---|']
    files = {'one.jsonl': 'PyTorch 2.15', 'older.jsonl': 'PyTorch 2.11', 'many.jsonl': 'several GPUs, more models',
             'more.jsonl': 'rarer configurations, PyTorch 2.15 to 2.6',
             'parallel.jsonl': 'a rank of DDP with a static graph, of context or of expert parallelism, or of a model that is split off the device',
             'deepspeed.jsonl': "a rank under DeepSpeed's ZeRO", 'megatron.jsonl': 'a rank of Megatron',
             'pipeline.jsonl': "a rank of PyTorch's pipelines, alone and with DDP, FSDP2, TP, CP and EP"}
    groups = groups or {'plain': 'plain', 'cudnn': 'cuDNN decides'}
    titles = {(f, g): f'{files[f]}, {groups[g]}' for g in groups for f in files}
    for (file, group), title in titles.items():
        some = [r for r in rows if (r['file'], r['group']) == (file, group) and not r['case']['oom']]
        known = [r for r in some if r['error']]
        if not some:
            continue
        cells = [title, str(len(some))]
        for name, limit in (('allocated', .005), ('reserved', .01)):
            cells += [share(sum(r['error'][name] == 0 for r in known), len(some)),
                      share(sum(abs(r['error'][name]) <= limit * r['case'][name] for r in known), len(some)),
                      worst(known, name)]
        cells.append(share(sum(r['steps'] == 'exact' for r in some), len(some)))
        out.append('| ' + ' | '.join(cells) + ' |')
    judged = [r for r in rows if r['file'] != 'capacity.jsonl']
    out += ['', f'Verdicts (does it fit) right: {share(sum(r["verdict"] == "right" for r in judged), len(judged))}; '
            f'{sum(bool(r["case"]["oom"]) for r in judged)} of these runs ran out of memory. Parameter counts right: '
            f'{share(sum(r["parameters"] == "right" for r in judged), sum(not r["case"]["oom"] for r in judged))}. '
            f'Cases that did not run: {sum(r["failure"] != "" for r in judged)}.']
    return out


def short(rows, asked):
    out = ['| cases | runs | allocated exact | within 0.5 % | reserved exact | within 1 % |', '|---|---|---|---|---|---|']
    for title, group, those in (('no library decides how much it takes', 'plain', rows),
                                ('cuDNN decides (convolutions, Hopper attention), and a libcudnn is asked', 'cudnn', asked),
                                ('cuDNN decides, and there is no libcudnn', 'cudnn', rows)):
        some = [r for r in those if r['file'] != 'capacity.jsonl' and r['group'] == group and not r['case']['oom']]
        cells = [title, str(len(some))]
        for name, limit in (('allocated', .005), ('reserved', .01)):
            known = [r for r in some if r['error']]
            for bound in (0, limit):
                n = sum(abs(r['error'][name]) <= bound * r['case'][name] for r in known)
                cells.append(f'{100 * n / len(some):.1f} %')
        out.append('| ' + ' | '.join(cells) + ' |')
    return out


def workloads(rows):
    out = ['| workload | cases | allocated exact | worst low / high | reserved exact | worst low / high |', '|---|---|---|---|---|---|']
    by = {}
    for r in rows:
        if r['file'] != 'capacity.jsonl' and r['error']:
            by.setdefault((r['workload'], r['group']), []).append(r)
    for (name, group), some in sorted(by.items()):
        cells = [name + (' (cuDNN decides)' if group == 'cudnn' else ''), str(len(some))]
        for what in ('allocated', 'reserved'):
            cells += [str(sum(r['error'][what] == 0 for r in some)), worst(some, what)]
        out.append('| ' + ' | '.join(cells) + ' |')
    return out


def capacity(rows):
    some = [r for r in rows if r['file'] == 'capacity.jsonl']
    out = ['| cases | n | exact | within 2 MiB | worst low / high |', '|---|---|---|---|---|']
    for title, pick in (('no cuDNN fallback', lambda r: r['case']['minimum_run']['ooms'] == 0),
                        ('with cuDNN fallbacks', lambda r: r['case']['minimum_run']['ooms'] > 0)):
        group = [r for r in some if pick(r)]
        known = [int(r['minimum_capacity']) for r in group if r['minimum_capacity'] != '']
        relative = [int(r['minimum_capacity']) / r['case']['minimum_capacity'] for r in group if r['minimum_capacity'] != '']
        if group:
            out.append(f'| {title} | {len(group)} | {sum(e == 0 for e in known)} | '
                       f'{share(sum(abs(e) <= 2 << 20 for e in known), len(group))} | '
                       f'{100 * min(relative + [0]):+.3f} / {100 * max(relative + [0]):+.3f} % |')
    return out


def inexact(rows, causes):
    out = ['| case | workload | configuration | requested | allocated | reserved | steps | cause |', '|---|---|---|---|---|---|---|---|']
    for r in rows:
        c = r['case']
        wrong_minimum = r['minimum_capacity'] not in ('', '0')
        if r['verdict'] == 'right' and not any(r['error'].values()) and r['steps'] in ('', 'exact') and not wrong_minimum:
            continue
        key = f'{r["file"]} {r["id"]} {r["workload"]} {r["group"]} {c["gpu"]} {c["alloc_conf"]} {json.dumps(c["config"])}'
        cause = next((x['cause'] for x in causes if re.search(x['match'], key)), 'not found yet')
        config = ' '.join(f'{k}={v}' for k, v in c['config'].items()) + f' {c["gpu"]}' + (f' {c["alloc_conf"]}' if c['alloc_conf'] else '')
        if r['failure'] or r['verdict'] == 'wrong':
            cells = [r['failure'] or 'wrong verdict', '', '']
        else:
            cells = [f'{r["error"][k]:+,d} ({percent(r["error"][k], c[k])})' if r['error'].get(k) else '0' if k in r['error'] else ''
                     for k in ('requested', 'allocated', 'reserved')]
        steps = 'exact' if r['steps'] == 'exact' else 'off' if r['steps'] else ''
        if wrong_minimum:
            steps += f' minimum {int(r["minimum_capacity"]):+,d}'
        out.append('| ' + ' | '.join([f'{r["file"].split(".")[0]} {r["id"]}', r['workload'], config, *cells, steps.strip(), cause]) + ' |')
    return out if len(out) > 2 else ['Every case is exact.']


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('root', type=pathlib.Path)
    parser.add_argument('--update', action='store_true')
    args = parser.parse_args()
    rows, asked, causes = load(), load('errors-cudnn.csv'), json.load(open(HERE / 'causes.json'))
    tables = ['', '## Together', '', *short(rows, asked), '', '## Summary', '', *summary(rows), '', '## cuDNN asked', '', *summary(asked, {'cudnn': 'cuDNN asked'}), '', '## By workload', '', *workloads(rows), '',
              '## Smallest capacity that works', '', *capacity(rows), '', '## Cases that are not exact', '', *inexact(rows, causes), '', '## Cases that are not exact although cuDNN was asked', '',
              *inexact(asked, [c for c in causes if c['match'] != ' cudnn ']), '', '']
    good = True
    for name, lines in (('docs/accuracy.md', tables), ('README.md', ['', *short(rows, asked), '', ''])):
        path = args.root / name
        text = path.read_text()
        head, rest = text.split(BEGIN)
        now = head + BEGIN + '\n'.join(lines) + END + rest.split(END)[1]
        if args.update:
            path.write_text(now)
        elif text != now:
            sys.stdout.writelines(difflib.unified_diff(text.splitlines(True), now.splitlines(True), name, 'now'))
            print('tests/reference/accuracy.py . --update')
            good = False
    return 0 if good else 1


if __name__ == '__main__':
    sys.exit(main())
