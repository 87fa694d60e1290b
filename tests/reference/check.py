#!/usr/bin/env python3
"""check.py --plimsoll PATH [--cudnn] [--update]: hold each reference case's exact signed errors against errors.csv.

Errors are in bytes, Plimsoll less PyTorch. Any change, better or worse, is a failure until `--update` stores it and
someone has looked at the difference.

With --cudnn it is errors-cudnn.csv, and the cases in which cuDNN decides, with workspaces that a libcudnn gives: those that PLIMSOLL_TEST_CUDNN
lists (separated by colons; one of each framework's version). Without that variable nothing is checked (status 77). Otherwise no libcudnn is
asked, so that errors.csv is the same on every machine.
"""
import argparse
import concurrent.futures
import csv
import io
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import compare  # noqa: E402

FILES = ['one.jsonl', 'older.jsonl', 'many.jsonl', 'capacity.jsonl', 'more.jsonl',
         'parallel.jsonl', 'deepspeed.jsonl', 'megatron.jsonl', 'pipeline.jsonl']
COLUMNS = ['file', 'id', 'workload', 'group', 'verdict', 'parameters', 'requested', 'allocated', 'reserved', 'steps',
           'minimum_capacity', 'edge', 'failure']


def step_errors(case, answer):
    """'exact', or allocated:reserved of each step, Plimsoll less PyTorch."""
    true = [s for s in case['per_step'] if s['step'].isdigit()]
    mine = answer.get('steps') or []
    if len(true) != len(mine):
        return f'{len(mine)} steps, not {len(true)}'
    pairs = [(m['allocated_bytes'] - t['max_allocated'], m['reserved_bytes'] - t['max_reserved'])
             for m, t in zip(mine, true)]
    return 'exact' if not any(map(any, pairs)) else ' '.join(f'{a}:{r}' for a, r in pairs)


def measure(file, case, exe):
    row = dict.fromkeys(COLUMNS, '')
    row.update(file=file, id=case['id'], workload=case['workload'],
               group='cudnn' if compare.cudnn_decides(case) else 'plain')
    answer, error = compare.ask(compare.command(case, exe))
    if error:
        row['failure'] = error.replace(os.path.dirname(os.path.dirname(HERE)) + os.sep, '')
        return row
    row['verdict'] = 'right' if (not answer['fits']) == bool(case['oom']) else 'wrong'
    if row['verdict'] == 'right' and not case['oom']:
        row['parameters'] = 'right' if answer.get('parameters') == case['parameters'] else 'wrong'
        for name in ('requested', 'allocated', 'reserved'):
            if case.get(name):
                row[name] = answer['peak'][name + '_bytes'] - case[name]
        row['steps'] = step_errors(case, answer)
    if 'minimum_capacity' in case:
        true, mine = case['minimum_capacity'], answer['peak'].get('minimum_capacity_bytes')
        row['minimum_capacity'] = '' if mine is None else mine - true
        at = compare.ask(compare.command(case, exe, true))[0]
        below = compare.ask(compare.command(case, exe, true - 2 * compare.MiB))[0]
        row['edge'] = ('fits' if at and at['fits'] else 'fails') + '/' + ('fits' if below and below['fits'] else 'fails')
    return row


def as_text(rows):
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator='\n')
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def describe(row):
    return ', '.join(f'{k} {row[k]}' for k in COLUMNS[4:] if row[k] != '')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--plimsoll', required=True)
    parser.add_argument('--cudnn', action='store_true')
    parser.add_argument('--update', action='store_true')
    parser.add_argument('--jobs', type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()

    libraries = os.environ.get('PLIMSOLL_TEST_CUDNN')
    if args.cudnn and not libraries:
        print('PLIMSOLL_TEST_CUDNN names no libcudnn')
        return 77
    os.environ['PLIMSOLL_CUDNN'] = libraries if args.cudnn else 'off'
    file = 'errors-cudnn.csv' if args.cudnn else 'errors.csv'
    stored_path = os.path.join(HERE, file)
    cases = [(f, json.loads(line)) for f in FILES for line in open(os.path.join(HERE, f))]
    if args.cudnn:
        cases = [(f, c) for f, c in cases if compare.cudnn_decides(c)]
    cache = tempfile.TemporaryDirectory()
    os.environ['XDG_CACHE_HOME'] = cache.name
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        rows = list(pool.map(lambda c: measure(*c, args.plimsoll), cases))
    text = as_text(rows)
    if args.update:
        with open(stored_path, 'w') as f:
            f.write(text)
        print(f'{len(rows)} cases stored')
        return 0
    now = {(r['file'], r['id']): r for r in csv.DictReader(io.StringIO(text))}
    stored = {(r['file'], r['id']): r for r in csv.DictReader(open(stored_path))} if os.path.exists(stored_path) else {}
    changed = [k for k in sorted(now.keys() | stored.keys()) if now.get(k) != stored.get(k)]
    for k in changed:
        print(f'{k[0]} {k[1]}')
        print('  stored:', describe(stored[k]) if k in stored else 'nothing')
        print('  now:   ', describe(now[k]) if k in now else 'no such case')
    print(f'{len(rows)} cases, {len(changed)} differ from {file}')
    if changed:
        print('Look at each; when the change is right: tests/reference/check.py --plimsoll build/plimsoll' + (' --cudnn' if args.cudnn else '') + ' --update')
    return 1 if changed else 0


if __name__ == '__main__':
    sys.exit(main())
