#!/usr/bin/env python3
"""Record what PyTorch allocates for the programs of tests/unit/*.def, and write it into them.

    record.py tests/unit/ops-views.def...

Needs PyTorch (2.15 for the numbers that are checked in) and a CUDA device: an a100-80, for reductions depend on the GPU.
Each row is ROW("program", "forward", "backward", "output"); the program stays, the rest is replaced. With --show, programs are
read from standard input, one a line, and the rows printed. The programs' language is described in program.h.
"""
import re
import sys

import torch
import torch.nn.functional as F

CLEAR = {} if torch.__version__.startswith('2.6.') else {'clear_history': True}  # 2.6 forgets when it stops
DTYPES = {name: getattr(torch, name)
          for name in 'bool uint8 int32 int64 float16 bfloat16 float32 float64'.split()}
INPLACE = {'add': 'add_', 'sub': 'sub_', 'mul': 'mul_', 'div': 'div_'}


def integral(value):
    return int(value) if value == int(value) else value


def binary(name):
    def call(ins, a):
        second = ins[1] if len(ins) > 1 else integral(a['value'])
        return getattr(ins[0], INPLACE[name])(second) if a.get('inplace') else getattr(torch, name)(ins[0], second)
    return call


def reduction(name):
    def call(ins, a):
        keys = {k: a[k] for k in ('keepdim', 'dtype') if k in a}
        if 'keepdim' in keys:
            keys['keepdim'] = bool(keys['keepdim'])
        if 'dim' in a:
            return getattr(torch, name)(ins[0], tuple(a['dim']), **keys)
        return getattr(torch, name)(ins[0], **keys)
    return call


def unary(name):
    return lambda ins, a: getattr(torch, name)(ins[0])


def activation(name):
    return lambda ins, a: getattr(F, name)(ins[0], **({'inplace': True} if a.get('inplace') else {}))


def first(value):
    return value[0] if len(value) == 1 else value


def slice_(ins, a):
    index = [slice(None)] * ins[0].dim()
    index[a['dim']] = slice(a.get('start', 0), a.get('end'), a.get('step', 1))
    return ins[0][tuple(index)]


def stochastic_depth(ins, a):
    from torchvision import ops
    return ops.stochastic_depth(ins[0], a['p'], 'row', STATE['training'])


def interpolate(ins, a):
    keys = {'size': a.get('size'), 'scale_factor': a.get('scale'), 'mode': a.get('mode', 'nearest')}
    if 'align_corners' in a:
        keys['align_corners'] = bool(a['align_corners'])
    return F.interpolate(ins[0], **{k: v for k, v in keys.items() if v is not None})


OPS = {
    'view': lambda i, a: i[0].view(a['shape']),
    'reshape': lambda i, a: i[0].reshape(a['shape']),
    'flatten': lambda i, a: i[0].flatten(a.get('start_dim', 0), a.get('end_dim', -1)),
    'permute': lambda i, a: i[0].permute(a['dims']),
    'transpose': lambda i, a: i[0].transpose(a['dim0'], a['dim1']),
    'contiguous': lambda i, a: i[0].contiguous(),
    'clone': lambda i, a: i[0].clone(),
    'detach': lambda i, a: i[0].detach(),
    'expand': lambda i, a: i[0].expand(a['shape']),
    'squeeze': lambda i, a: i[0].squeeze(a['dim']),
    'unsqueeze': lambda i, a: i[0].unsqueeze(a['dim']),
    'repeat': lambda i, a: i[0].repeat(a['repeats']),
    'cat': lambda i, a: torch.cat(i, a.get('dim', 0)),
    'stack': lambda i, a: torch.stack(i, a.get('dim', 0)),
    'split': lambda i, a: i[0].split(first(a['size']), a.get('dim', 0)),
    'chunk': lambda i, a: i[0].chunk(a['chunks'], a.get('dim', 0)),
    'unbind': lambda i, a: i[0].unbind(a.get('dim', 0)),
    'slice': slice_,
    'select': lambda i, a: i[0].select(a['dim'], a['index']),
    'index_select': lambda i, a: i[0].index_select(a['dim'], i[1]),
    'index': lambda i, a: i[0][i[1]],
    'gather': lambda i, a: i[0].gather(a['dim'], i[1]),
    'to': lambda i, a: i[0].to(a['dtype']),
    'alias': lambda i, a: i[0],
    'roll': lambda i, a: i[0].roll(tuple(a['shifts']), tuple(a['dims'])),
    'pad': lambda i, a: F.pad(i[0], a['pad'], value=a.get('value', 0.0)),
    'tril': lambda i, a: i[0].tril(a.get('diagonal', 0)),
    'triu': lambda i, a: i[0].triu(a.get('diagonal', 0)),
    'where': lambda i, a: torch.where(*i),
    'minimum': lambda i, a: torch.minimum(*i),
    'masked_fill': lambda i, a: i[0].masked_fill(i[1], integral(a.get('value', 0))),
    'gelu': lambda i, a: F.gelu(i[0], approximate=a.get('approximate', 'none')),
    'softmax': lambda i, a: F.softmax(i[0], a.get('dim', -1), dtype=a.get('dtype')),
    'log_softmax': lambda i, a: F.log_softmax(i[0], a.get('dim', -1), dtype=a.get('dtype')),
    'dropout': lambda i, a: F.dropout(i[0], a.get('p', 0.5), STATE['training'], bool(a.get('inplace'))),
    'stochastic_depth': stochastic_depth,
    'pow': lambda i, a: torch.pow(i[0], i[1] if len(i) > 1 else integral(a['value'])),
    'clamp': lambda i, a: torch.clamp(i[0], *(i[1:] or (integral(a[k]) if k in a else None for k in ('start', 'end')))),
    'isinf': unary('isinf'),
    'cumsum': lambda i, a: torch.cumsum(i[0], a['dim'], dtype=a.get('dtype')),
    'logical_not': unary('logical_not'),
    'logical_and': lambda i, a: torch.logical_and(*i),
    'logical_or': lambda i, a: torch.logical_or(*i),
    'arange': lambda i, a: torch.arange(a.get('start', 0), a['end'], a.get('step', 1),
                                        dtype=a.get('dtype', torch.int64), device='cuda'),
    'full': lambda i, a: torch.full(a['shape'], a.get('value', 0), dtype=a.get('dtype', torch.float32), device='cuda'),
    'new_zeros': lambda i, a: i[0].new_zeros(a['shape']),
    'topk': lambda i, a: tuple(torch.topk(i[0], a['k'], dim=-1)),
    'sort': lambda i, a: tuple(torch.sort(i[0])),
    'histc': lambda i, a: torch.histc(i[0], bins=a['bins'], min=0, max=a['bins'] - 1),
    'floor_divide': lambda i, a: i[0] // integral(a['value']),
    'grouped_mm': lambda i, a: F.grouped_mm(i[0], i[1], offs=i[2]),
    'matmul': lambda i, a: torch.matmul(*i),
    'linear_with': lambda i, a: F.linear(*i),
    'bmm': lambda i, a: torch.bmm(*i),
    'addmm': lambda i, a: torch.addmm(*i),
    'baddbmm': lambda i, a: torch.baddbmm(*i),
    'scaled_dot_product_attention': lambda i, a: F.scaled_dot_product_attention(
        i[0], i[1], i[2], i[3] if len(i) > 3 else None, dropout_p=a.get('p', 0.0) if STATE['training'] else 0.0,
        is_causal=bool(a.get('is_causal')), scale=a.get('scale'), enable_gqa=bool(a.get('enable_gqa'))),
    'max_pool2d': lambda i, a: F.max_pool2d(i[0], first(a['kernel']), first(a['stride']) if 'stride' in a else None,
                                            first(a.get('padding', [0])), first(a.get('dilation', [1])),
                                            bool(a.get('ceil_mode'))),
    'avg_pool2d': lambda i, a: F.avg_pool2d(i[0], first(a['kernel']), first(a['stride']) if 'stride' in a else None,
                                            first(a.get('padding', [0])), bool(a.get('ceil_mode')),
                                            bool(a.get('count_include_pad', 1))),
    'adaptive_avg_pool2d': lambda i, a: F.adaptive_avg_pool2d(i[0], first(a['output'])),
    'adaptive_max_pool2d': lambda i, a: F.adaptive_max_pool2d(i[0], first(a['output'])),
    'interpolate': interpolate,
    'cross_entropy': lambda i, a: F.cross_entropy(*i, ignore_index=a.get('ignore_index', -100),
                                                  label_smoothing=a.get('label_smoothing', 0.0),
                                                  reduction=a.get('reduction', 'mean')),
    'nll_loss': lambda i, a: F.nll_loss(*i, ignore_index=a.get('ignore_index', -100), reduction=a.get('reduction', 'mean')),
    'mse_loss': lambda i, a: F.mse_loss(*i, reduction=a.get('reduction', 'mean')),
    'bce_with_logits': lambda i, a: F.binary_cross_entropy_with_logits(*i, reduction=a.get('reduction', 'mean')),
}


def own(name, *shape, dtype=None, buffer=False):
    """A parameter of the step that runs; made in the first, unrecorded run."""
    key = (STATE['step'], name)
    if key not in STATE['owned']:
        x = torch.zeros(shape, dtype=dtype or STATE['own'], device='cuda')
        if STATE['own_channels_last'] and x.dim() in (4, 5):
            x = x.to(memory_format=torch.channels_last if x.dim() == 4 else torch.channels_last_3d)
        STATE['owned'][key] = x if buffer or STATE['frozen'] else x.requires_grad_()
    return STATE['owned'][key]


def affine(a, *shape):
    if not a.get('affine', 1):
        return None, None
    return own('weight', *shape), own('bias', *shape) if a.get('bias', 1) else None


def layer_norm(i, a):
    shape = i[0].shape[-a.get('dims', 1):]
    return F.layer_norm(i[0], shape, *affine(a, *shape))


def rms_norm(i, a):
    shape = i[0].shape[-a.get('dims', 1):]
    return F.rms_norm(i[0], shape, affine(dict(a, bias=0), *shape)[0])


def batch_norm(i, a):
    c, mean, var = i[0].shape[1], None, None
    if a.get('track_running_stats', 1):
        mean, var = own('running_mean', c, buffer=True), own('running_var', c, buffer=True)
    weight, bias = affine(a, c)
    return F.batch_norm(i[0], mean, var, weight, bias, STATE['training'] or mean is None)


def conv(function, spatial):
    def call(i, a):
        c, out, groups = i[0].shape[-spatial - 1], a['channels'], a.get('groups', 1)
        kernel = a['kernel'] * (spatial if len(a['kernel']) == 1 else 1)
        sizes = (c, out // groups) if 'transpose' in function.__name__ else (out, c // groups)
        weight = own('weight', *sizes, *kernel)
        bias = own('bias', out) if a.get('bias', 1) else None
        keys = {k: first(a[k]) for k in ('stride', 'padding', 'dilation', 'output_padding') if k in a}
        return function(i[0], weight, bias, groups=groups, **keys)
    return call


OPS.update({
    'embedding': lambda i, a: F.embedding(i[0], own('weight', a['num'], a['features'])),
    'layer_norm': layer_norm,
    'rms_norm': rms_norm,
    'batch_norm': batch_norm,
    'batch_norm2d': batch_norm,
    'group_norm': lambda i, a: F.group_norm(i[0], a['groups'], *affine(a, i[0].shape[1])),
    'conv1d': conv(F.conv1d, 1),
    'conv2d': conv(F.conv2d, 2),
    'conv3d': conv(F.conv3d, 3),
    'conv_transpose2d': conv(F.conv_transpose2d, 2),
})
OPS.update({name: binary(name) for name in 'add sub mul div eq ne lt le gt ge'.split()})
OPS.update({name: unary(name) for name in 'neg abs exp log sin cos sqrt rsqrt sigmoid tanh'.split()})
OPS.update({name: activation(name) for name in 'relu relu6 leaky_relu silu hardswish hardsigmoid'.split()})
OPS.update({name: reduction(name) for name in 'mean sum amax all any'.split()})
LISTS = ('shape dims repeats size shifts pad kernel stride padding dilation output output_padding').split()
REALS = ('value p scale label_smoothing').split()
WORDS = ('mode approximate reduction').split()
STATE = {}
OWNERS = ('embedding layer_norm rms_norm batch_norm batch_norm2d group_norm '
          'conv1d conv2d conv3d conv_transpose2d').split()


def attribute(op, key, text):
    if key == 'dtype':
        return DTYPES[text]
    if key in WORDS:
        return text
    if key == 'dims' and op in ('layer_norm', 'rms_norm'):
        return int(text)
    if key in LISTS or (key == 'dim' and op in ('mean', 'sum', 'amax', 'all', 'any')):
        return [] if text == '[]' else [int(x) for x in text.split(',')]
    if key in REALS or (op == 'clamp' and key in ('start', 'end')):
        return int(text) if op == 'interpolate' and key == 'scale' else float(text)
    return int(text)


def make(leaf, dtype, sizes, layout=None):
    shape = [] if sizes == 'scalar' else [int(x) for x in sizes.split(',')]
    x = torch.zeros(shape, dtype=DTYPES[dtype], device='cuda')
    if layout == 'channels_last':
        x = x.to(memory_format=torch.channels_last if len(shape) == 4 else torch.channels_last_3d)
    return x.requires_grad_() if leaf else x


def events():
    trace = torch.cuda.memory._snapshot()['device_traces'][0]
    return [('+' if e['action'] == 'alloc' else '-') + str(e['size'])
            for e in trace if e['action'] in ('alloc', 'free_completed')]


def ordered(words):
    out, run = [], []
    for word in words + ['+']:
        if word[0] == '-':
            run.append(int(word))
            continue
        out += [str(n) for n in sorted(run)]
        run = []
        out.append(word)
    return ' '.join(out[:-1])


def step(text, values, inputs):
    words = text.split()
    names, op = words[0].rstrip(':').split(','), words[1]
    if op in ('leaf', 'tensor'):
        values[names[0]] = make(op == 'leaf', *words[2:])
        inputs.add(names[0])
        return None
    ins = [None if w == 'none' else values[w] for w in words[2:] if '=' not in w]
    attrs = {k: attribute(op, k, v) for k, v in (w.split('=') for w in words[2:] if '=' in w)}
    STATE['step'] = text
    results = OPS[op](ins, attrs)
    del ins
    if torch.is_tensor(results):
        results = [results]
    if len(results) != len(names):
        raise ValueError('%d results' % len(results))
    for name, value in zip(names, results):
        if name not in inputs:
            values[name] = value
    return results[0]


def execute(steps, values, inputs):
    """All steps; what is not an input dies on return, except the first result of the last step."""
    result = None
    for text in steps:
        made = step(text, values, inputs)
        result = result if made is None else made
        del made
    for name in [n for n in values if n not in inputs]:
        del values[name]
    return result


def run(program):
    STATE.update(training=True, grad=True, permuted=False, autocast=None, gradient=None, own=torch.float32, owned={},
                 frozen=False, own_channels_last=False, framework='pytorch-2.15', device='a100')
    steps = [s.strip() for s in program.split(';') if s.strip()]
    for text in [s for s in steps if s.startswith('set ')]:
        for word in text.split()[1:]:
            key, value = word.split('=')
            STATE[key] = (DTYPES[value] if key in ('autocast', 'own') else
                          value if key in ('gradient', 'framework', 'device') else bool(int(value)))
    name = torch.cuda.get_device_name().lower().replace(' ', '')
    if not ('pytorch-' + torch.__version__).startswith(STATE['framework']) or STATE['device'] not in name:
        return None
    steps = [s for s in steps if not s.startswith('set ')]
    makes = [s for s in steps if s.split()[1] in ('leaf', 'tensor')]
    values, inputs = {}, set()
    for text in makes:
        step(text, values, inputs)
    try:
        if any(s.split()[1] in OWNERS for s in steps if s not in makes):
            with torch.autocast('cuda', STATE['autocast'] or torch.float16, enabled=bool(STATE['autocast'])):
                execute([s for s in steps if s not in makes], values, inputs)
        torch.cuda.memory._record_memory_history(enabled='all', context=None, **CLEAR)
        with torch.set_grad_enabled(STATE['grad']):
            if STATE['autocast']:
                with torch.autocast('cuda', STATE['autocast']):
                    y = execute([s for s in steps if s not in makes], values, inputs)
            else:
                y = execute([s for s in steps if s not in makes], values, inputs)
        forward = ordered(events())
        output = '%s %s %s' % (str(y.dtype)[6:], list(y.shape), list(y.stride()))
        if not y.requires_grad:
            return forward, 'none', output
        shape = list(y.shape)
        if STATE['gradient'] == 'expanded':
            grad = torch.empty((), dtype=y.dtype, device='cuda').expand(shape)
        elif STATE['gradient'] == 'channels_last':
            grad = torch.empty(shape, dtype=y.dtype, device='cuda', memory_format=torch.channels_last)
        elif STATE['permuted'] and y.dim() > 1:
            base = torch.empty(shape[::-1], dtype=y.dtype, device='cuda')
            grad = base.permute(list(range(y.dim()))[::-1])
            del base
        else:
            grad = torch.empty(shape, dtype=y.dtype, device='cuda')
        before = len(events())
        y.backward(grad)
        return forward, ordered(events()[before:]), output
    except Exception as error:  # whatever PyTorch refuses, the ghost must refuse
        print('%s: %s: %s' % (program, type(error).__name__, str(error).split('\n')[0][:150]), file=sys.stderr)
        return 'error', 'none', 'none'
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)


def row(program, old=None):
    recorded = run(program)
    if recorded is None and old:  # of another version or device: leave it as it is
        return old
    texts = [program] + list(recorded or ('other', 'other', 'other'))
    return 'ROW(' + ',\n    '.join('"%s"' % t for t in texts) + ')'


def rewrite(path):
    with open(path, encoding='utf-8') as file:
        text = file.read()
    programs = r'ROW\("([^"]*)"(?:,\s*"[^"]*")*\)'
    text = re.sub(programs, lambda m: row(m.group(1), m.group(0)), text)
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)


if __name__ == '__main__':
    if sys.argv[1:] == ['--show']:
        for line in sys.stdin:
            if line.strip():
                print(row(line.strip()), flush=True)
    else:
        for name in sys.argv[1:]:
            rewrite(name)
