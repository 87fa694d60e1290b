#!/usr/bin/env python3
"""torch_peaks.py --plimsoll P --profile F --calibration F MODEL BATCH SEQ: train three steps with PyTorch, compare its peaks with the estimate.

Standard output: one JSON object. Standard error: lines for people, beginning with "# ". Status 0 when allocated is within 0.5 % and
reserved within 1 % (ResNet-50's, where cuDNN decides, within 5 %), 1 when not; 2 and a message when it cannot be run. check-on-gpu.sh calls it.
"""
import argparse
import json
import subprocess
import sys

LIMITS = {'allocated': 0.005, 'reserved': 0.01}
LIMIT_CUDNN = 0.05  # where cuDNN chooses workspaces


def make(model, batch, seq):
    """The model on the GPU, and a function that makes the loss of a fresh micro-batch."""
    import torch
    if model == 'resnet50':
        import torchvision
        net = torchvision.models.resnet50()

        def loss():
            images, labels = torch.randn(batch, 3, 224, 224).cuda(), torch.randint(0, 1000, (batch,)).cuda()
            with torch.autocast('cuda', dtype=torch.float16):
                out = net(images)
                return torch.nn.functional.cross_entropy(out, labels)
    else:
        import transformers
        if model == 'gpt2':
            net, vocab = transformers.GPT2LMHeadModel(transformers.GPT2Config()), 50257
        else:
            net, vocab = transformers.BertForMaskedLM(transformers.BertConfig()), 30522

        def loss():
            tokens = torch.randint(0, vocab, (batch, seq))
            ids, labels = tokens.cuda(), tokens.clone().cuda()
            with torch.autocast('cuda', dtype=torch.float16):
                return net(input_ids=ids, labels=labels).loss
    net.train()
    net.cuda()
    return net, loss


def train(model, batch, seq, steps=3):
    """Peaks of PyTorch's allocator, and what the device counted at the end."""
    import torch
    net, loss = make(model, batch, seq)
    optimizer = torch.optim.AdamW(net.parameters())
    scaler = torch.amp.GradScaler('cuda')
    for _ in range(steps):
        scaler.scale(loss()).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    return {'allocated': torch.cuda.max_memory_allocated(), 'reserved': torch.cuda.max_memory_reserved(),
            'reserved_at_end': torch.cuda.memory_reserved(), 'free_at_end': free, 'total': total}


def framework(plimsoll, version):
    """Plimsoll's rules for this PyTorch: its own version's, or the newest that is not above it."""
    wanted = tuple(int(n) for n in version.split('+')[0].split('.')[:2])
    done = subprocess.run([plimsoll, 'estimate', 'mlp', '--framework', 'x'], text=True, capture_output=True)
    known = [tuple(int(n) for n in word.removeprefix('pytorch-').split('.'))
             for word in done.stderr.replace(',', ' ').split() if word.startswith('pytorch-')]
    best = max([k for k in known if k <= wanted] or [min(known)])
    return 'pytorch-' + '.'.join(map(str, best))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--plimsoll', required=True)
    parser.add_argument('--profile', required=True)
    parser.add_argument('--calibration', required=True)
    parser.add_argument('--device', type=int, default=0)
    parser.add_argument('model', choices=['gpt2', 'bert-mlm', 'resnet50'])
    parser.add_argument('batch', type=int)
    parser.add_argument('seq', type=int)
    args = parser.parse_args()
    try:
        import torch
        torch.cuda.set_device(args.device)
        real = train(args.model, args.batch, args.seq)
    except (ImportError, RuntimeError) as error:
        sys.exit(print(f'{type(error).__name__}: {error}'.splitlines()[0], file=sys.stderr) or 2)
    rules = framework(args.plimsoll, torch.__version__)
    command = [args.plimsoll, 'estimate', args.model, '--batch', str(args.batch), '--precision', 'amp-fp16', '--optimizer', 'adamw',
               '--steps', '3', '--framework', rules, '--device', args.profile, '--json']
    done = subprocess.run(command + (['--seq', str(args.seq)] if args.seq else []), text=True, capture_output=True)
    if done.returncode not in (0, 1):
        sys.exit(print(done.stderr.strip(), file=sys.stderr) or 2)
    peak = json.loads(done.stdout)['peak']
    calibration = json.load(open(args.calibration))
    others = next((f['value'] for f in calibration['figures'] if f['name'] == 'others'), 0)
    # what the process holds beside its allocator's memory: to be held against the profile's context
    context = real['total'] - real['free_at_end'] - real['reserved_at_end'] - others
    framework_bytes = next((f['value'] for f in calibration['figures'] if f['name'] == 'framework'), 0)
    measured = calibration['context_bytes'] + calibration['libraries_bytes'] + framework_bytes
    result = {'model': args.model, 'batch': args.batch, 'seq': args.seq, 'torch': torch.__version__, 'framework': rules, 'real': real,
              'context': context, 'calibrated_context': measured, 'compared': {}}
    good = True
    print(f'# PyTorch {torch.__version__} {args.model}, batch {args.batch}, by the rules of {rules}', file=sys.stderr)
    for name, limit in LIMITS.items():
        limit = max(limit, LIMIT_CUDNN) if args.model == 'resnet50' else limit
        estimate = peak[f'{name}_bytes']
        error = estimate / real[name] - 1
        result['compared'][name] = {'estimate': estimate, 'real': real[name], 'error': error, 'limit': limit}
        good = good and abs(error) <= limit
        print(f'#     {name:10} estimated {estimate:>14,}  real {real[name]:>14,}  {100 * error:+.2f} %'
              f'{"" if abs(error) <= limit else "  MORE THAN ALLOWED"}', file=sys.stderr)
    print(f'#     beside the allocator: {context:,} bytes; the profile\'s context: {measured:,}', file=sys.stderr)
    result['holds'] = good
    print(json.dumps(result))
    return 0 if good else 1


if __name__ == '__main__':
    sys.exit(main())
