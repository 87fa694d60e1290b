#!/usr/bin/env python3
# The cases beside this file are recorded runs of real PyTorch, see README.md. This program was written before Plimsoll
# and judges it from outside: it reads cases, runs the binary, and prints the errors.
"""compare.py [options] CASES.jsonl...: run Plimsoll on reference cases and print how far it is from real PyTorch.

  --plimsoll PATH     the binary (default build/plimsoll, then plimsoll)
  --filter REGEX      only cases whose id or workload matches
  --print-command     print the command of each case and stop
  --csv FILE          every case with its signed errors in bytes
  --worst N           how many of the worst to list (default 15)
A case that does not run, or whose verdict is wrong, counts as inexact. A case with `minimum_capacity` is also run at that capacity, where it must fit, and 2 MiB below, where it must not.
Exit status 0 when every case ran (whatever the errors), 1 when one did not."""
import argparse, concurrent.futures, csv, hashlib, json, os, re, shlex, shutil, subprocess, sys, tempfile, threading
MiB = 1 << 20
CONTEXT = 480*MiB          # what the ghost GPU takes for the context
MODELS = {  # workload of the reference -> (zoo model, its dims and options)
 'mlp': ('mlp', {}), 'unet': ('unet', {}), 'gpt2-small': ('nanogpt', {}),
 'hf-gpt2': ('gpt2', {}), 'hf-gpt2-medium': ('gpt2', dict(layers=24, heads=16, width=1024)), 'hf-gpt2-tiny': ('gpt2', dict(layers=4, heads=4, width=256)), 'hf-gpt2-odd': ('gpt2', dict(layers=5, heads=6, width=390)),
 'hf-bert-base-mlm': ('bert-mlm', {}), 'hf-bert-base-cls': ('bert-cls', {}), 'hf-bert-large-mlm': ('bert-mlm', dict(layers=24, heads=16, width=1024)), 'hf-bert-large-cls': ('bert-cls', dict(layers=24, heads=16, width=1024)), 'hf-bert-small-cls': ('bert-cls', dict(layers=6, heads=8, width=512)),
 'hf-llama-160m': ('llama', dict(layers=12, heads=12, kv_heads=12, width=768, ffn=3072, vocab=32000, tied='false')), 'hf-llama-tiny': ('llama', dict(layers=4, heads=8, kv_heads=4, width=512, ffn=1408, vocab=32000, tied='true')),
 'hf-llama-odd': ('llama', dict(layers=7, heads=6, kv_heads=2, width=384, ffn=1000, vocab=32003, tied='false')), 'hf-llama-1b': ('llama', dict(layers=16, heads=32, kv_heads=8, width=2048, ffn=8192, vocab=128256, tied='true')),
 'hf-llama-7b': ('llama', dict(layers=32, heads=32, kv_heads=32, width=4096, ffn=11008, vocab=32000, tied='false')), 'hf-llama-8b': ('llama', dict(layers=32, heads=32, kv_heads=8, width=4096, ffn=14336, vocab=128256, tied='false')),
 'vit-b16': ('vit-b16', {}), 'vit-l16': ('vit-l16', {}), 'hf-vit-b16': ('hf-vit-b16', {}), 'resnet18': ('resnet18', {}), 'resnet50': ('resnet50', {}), 'resnet101': ('resnet101', {}), 'resnet152': ('resnet152', {}),
 'vgg16': ('vgg16', {}), 'convnext-t': ('convnext-t', {}), 'swin-t': ('swin-t', {}), 'efficientnet-b0': ('efficientnet-b0', {}), 'mobilenet-v3': ('mobilenet-v3-large', {}), 'densenet121': ('densenet121', {}),
 'hf-t5-small': ('t5', {}), 'hf-albert-base': ('albert', {}), 'hf-qwen3-0.6b': ('qwen3', {}), 'hf-mixtral-small': ('mixtral', dict(layers=8, heads=16, kv_heads=4, width=1024, ffn=3584, vocab=32000, experts=8, top_k=2)),
 'megatron-gpt': ('megatron-gpt', {}),
}
CACHED = {'gpt2', 'llama', 'qwen3', 'mixtral'}   # Hugging Face models that return past_key_values unless use_cache is off, as the workloads set it under checkpointing
CONV = {'unet', 'resnet18', 'resnet50', 'resnet101', 'resnet152', 'vgg16', 'convnext-t', 'efficientnet-b0', 'mobilenet-v3', 'densenet121', 'vit-b16', 'vit-l16', 'hf-vit-b16', 'swin-t'}
def cudnn_decides(case):
    "does cuDNN choose workspaces here: a convolution, or 16-bit attention where PyTorch prefers cuDNN's (compute capability 9 and 10)"
    if case['workload'] in CONV and case['cudnn'] == 'real': return True
    return case['gpu'] in ('h100', 'h200', 'b200') and case['config']['dtype'] != 'fp32' and case['config'].get('attn') != 'eager' and case['workload'] not in CONV | {'mlp', 'megatron-gpt'}
def command(case, exe, usable=None):
    c, (model, dims) = case['config'], MODELS[case['workload']]
    total = case['total_memory'] if usable is None else usable + CONTEXT
    a = [exe, 'estimate', model, '--json', '--steps', str(case['steps']), '--device', case['gpu'], '--capacity', str(total), '--context', '480MiB', '--framework', case['framework'], '--assume', 'ghostgpu']
    if usable is None and 'minimum_capacity' in case: a += ['--minimum-capacity']
    dims = dict(dims)
    if 'image' in c: dims['image'] = c['image']
    if 'attn' in c: dims['attention'] = c['attn']
    if 'dropout' in c: dims['dropout'] = c['dropout']
    if c.get('ckpt') and model in CACHED: dims['use_cache'] = 'false'
    dims.update(c.get('set', {}))
    for k, v in dims.items(): a += ['--set', f'{k}={v}']
    for key, flag in dict(batch='--batch', seq='--seq', dtype='--precision', opt='--optimizer', accum='--accumulate', clip='--clip-grad-norm', zero_grad_at='--zero-grad-at', freeze='--frozen', ddp='--ddp', fsdp='--fsdp', tp='--tp', fsdp_mp='--fsdp-param-dtype', reshard='--reshard-after-forward', cp='--cp', cp_rotate='--cp-rotate', ep='--ep', moe_imbalance='--moe-imbalance', moe_capacity='--moe-capacity-factor', hsdp='--hsdp', load='--load', fsdp1='--fsdp1', rank='--rank').items():
        if key in c: a += [flag, str(c[key])]
    if 'cp' in c: a += ['--rank', str(c.get('cp_rank', 0) * c.get('tp', 1))]
    if 'fsdp_mp' in c: a += ['--fsdp-reduce-dtype', 'fp32']
    for key, flag in dict(keep_out='--keep-outputs', eval='--eval', channels_last='--channels-last', gradient_as_bucket_view='--gradient-as-bucket-view', static_graph='--static-graph').items():
        if c.get(key): a += [flag]
    if c.get('ckpt'): a += ['--checkpoint', 'full']
    if c.get('set_to_none') is False: a += ['--zero-grad', 'zero']
    a += c.get('arguments', [])
    if 'deepspeed' in c: a += ['--deepspeed', written(c['deepspeed'])]
    if case['alloc_conf']: a += ['--allocator', case['alloc_conf']]
    if case.get('cudnn') == 'none': a += ['--cudnn-workspace', 'none']
    return a
def written(config):
    "a file with this DeepSpeed configuration, the same name for the same one"
    text = json.dumps(config); path = os.path.join(tempfile.gettempdir(), f'plimsoll-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json')
    if not os.path.exists(path):
        with open(f'{path}.{threading.get_ident()}', 'w') as f: f.write(text)
        os.replace(f.name, path)
    return path
def ask(argv):
    "-> (answer, error)"
    try: p = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired: return None, 'no answer in 120 s'
    if p.returncode not in (0, 1): return None, (p.stderr.strip().splitlines() or [f'exit status {p.returncode}'])[-1][:160]
    try: r = json.loads(p.stdout); r['peak']['allocated_bytes'], r['peak']['reserved_bytes'], r['fits']; return r, None
    except (ValueError, KeyError, TypeError) as e: return None, f'output: {type(e).__name__} {e}'
def run(case, exe):
    r, error = ask(command(case, exe)); out = dict(case=case)
    if error: return dict(out, error=error)
    out['verdict'] = (not r['fits']) == bool(case['oom'])
    if out['verdict'] and not case['oom']:
        out.update(da=r['peak']['allocated_bytes'] - case['allocated'], dr=r['peak']['reserved_bytes'] - case['reserved'])
        out.update(ea=out['da']/case['allocated'], er=out['dr']/case['reserved'])
        if case.get('requested') and 'requested_bytes' in r['peak']: out['dq'] = r['peak']['requested_bytes'] - case['requested']
        out['parameters'] = r.get('parameters') == case['parameters']
        true = [s for s in case['per_step'] if s['step'].isdigit()]; mine = r.get('steps') or []
        out['steps'] = len(mine) == len(true) and all(m.get('allocated_bytes') == s['max_allocated'] and m.get('reserved_bytes') == s['max_reserved'] for m, s in zip(mine, true))
    if 'minimum_capacity' in case:
        m = case['minimum_capacity']; got = r['peak'].get('minimum_capacity_bytes'); out['minimum'] = None if got is None else got - m
        at, below = ask(command(case, exe, m))[0], ask(command(case, exe, m - 2*MiB))[0]
        out['edge'] = bool(at and at['fits']), bool(below and not below['fits'])
    return out
def share(n, of): return f'{n:4d} of {of:4d} ({100*n/max(of, 1):5.1f} %)'
def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('cases', nargs='+'); p.add_argument('--plimsoll'); p.add_argument('--filter', default=''); p.add_argument('--print-command', action='store_true'); p.add_argument('--csv'); p.add_argument('--worst', type=int, default=15); p.add_argument('--jobs', type=int, default=2)
    o = p.parse_args(); exe = o.plimsoll or ('build/plimsoll' if os.path.exists('build/plimsoll') else shutil.which('plimsoll') or 'plimsoll')
    cases = [c for f in o.cases for c in map(json.loads, open(f)) if re.search(o.filter, c['id'] + ' ' + c['workload'])]
    if o.print_command:
        for c in cases: print(c['id'], shlex.join(command(c, exe)))
        return 0
    with concurrent.futures.ThreadPoolExecutor(o.jobs) as ex: res = list(ex.map(lambda c: run(c, exe), cases))
    bad = [r for r in res if 'error' in r]; num = [r for r in res if 'ea' in r]
    if o.csv:
        with open(o.csv, 'w', newline='') as f:
            w = csv.writer(f); w.writerow(['id', 'workload', 'group', 'config', 'allocated', 'allocated_error', 'reserved', 'reserved_error', 'verdict', 'failure', 'steps', 'parameters'])
            for r in res: c = r['case']; w.writerow([c['id'], c['workload'], 'cudnn' if cudnn_decides(c) else 'plain', json.dumps(c['config']), c['allocated'], r.get('da', ''), c['reserved'], r.get('dr', ''), r.get('verdict', ''), r.get('error', ''), r.get('steps', ''), r.get('parameters', '')])
    oom = [r for r in res if r['case']['oom']]
    print(f'cases {len(cases)}, not run {len(bad)}, wrong verdict {sum(r.get("verdict") is False for r in res)} (out of memory in {len(oom)}), wrong parameter count {sum(r.get("parameters") is False for r in res)}')
    for group, pick in (('plain', False), ('cuDNN decides workspaces', True)):
        every = [r for r in res if cudnn_decides(r['case']) == pick and not r['case']['oom']]; some = [r for r in every if 'ea' in r]; n = len(every)
        if every: print(f'{group}: {n} cases, {n - len(some)} without a number; peaks of every step exact {share(sum(r["steps"] for r in some), n)}')
        for name, d, e, lim in (('allocated', 'da', 'ea', .005), ('reserved', 'dr', 'er', .02)):
            if not some: break
            s = sorted(abs(r[e]) for r in some)
            print(f'  {name:9s} exact {share(sum(r[d] == 0 for r in some), n)}  within {100*lim:.1f} % {share(sum(abs(r[e]) <= lim for r in some), n)}  low by more than 0.5 % {share(sum(r[e] < -.005 for r in some), n)}  median {100*s[len(s)//2]:.4f} %  p90 {100*s[int(len(s)*.9)]:.4f} %  worst {100*s[-1]:.3f} %')
    mins = [r for r in res if 'edge' in r]
    if mins:
        known = [r for r in mins if r['minimum'] is not None]
        print(f'smallest capacity that works: within 2 MiB {share(sum(abs(r["minimum"]) <= 2*MiB for r in known), len(mins))}  within 1 % {share(sum(abs(r["minimum"]) <= .01*r["case"]["minimum_capacity"] for r in known), len(mins))}  too low by more than 2 MiB {share(sum(r["minimum"] < -2*MiB for r in known), len(mins))}')
        print(f'  fits at it {share(sum(r["edge"][0] for r in mins), len(mins))}  fails 2 MiB below {share(sum(r["edge"][1] for r in mins), len(mins))}')
        for r in sorted(mins, key=lambda r: -abs(r['minimum'] if r['minimum'] is not None else 1 << 60))[:o.worst]: print(f'  {r["case"]["id"]:14s} {r["case"]["workload"]:18s} {r["minimum"] if r["minimum"] is not None else "not reported":>14}')
    by = {}
    for r in num: by.setdefault(r['case']['workload'], []).append(r)
    for k, v in sorted(by.items()): print(f'  {k:20s} n {len(v):3d}  allocated exact {sum(r["da"] == 0 for r in v):3d} worst {100*max(abs(r["ea"]) for r in v):7.3f} %   reserved exact {sum(r["dr"] == 0 for r in v):3d} worst {100*max(abs(r["er"]) for r in v):7.3f} %')
    for r in sorted(num, key=lambda r: -max(abs(r['ea']), abs(r['er'])/4))[:o.worst]:
        c = r['case']; print(f'  {c["id"]:14s} {c["workload"]:18s} allocated {r["da"]:+14,d} ({100*r["ea"]:+.3f} %) reserved {r["dr"]:+14,d} ({100*r["er"]:+.3f} %)  {json.dumps(c["config"])} {c["alloc_conf"]} {c["gpu"]}')
    for r in bad[:o.worst]: print('  not run', r['case']['id'], r['case']['workload'], r['error'])
    return 1 if bad else 0
if __name__ == '__main__':
    try: sys.exit(main())
    except BrokenPipeError: os._exit(1)
