#!/usr/bin/env python3
"""layout.py PLIMSOLL [SEED]: whatever is asked, text for people stays within 80 columns, and no two columns touch"""
import os
import random
import re
import subprocess
import sys

PLIMSOLL = sys.argv[1]
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 20
COMMANDS = "estimate plan compare timeline verify watch calibrate models devices ops dump check".split()
MODELS = [
    ["gpt2", "--set", "layers=2"],
    ["llama-3.1-8b", "--set", "layers=2"],
    ["mlp"],
    ["resnet18"],
    ["t5", "--set", "layers=1"],
    ["mixtral", "--set", "layers=1", "--set", "experts=4"],
]
BATCHES = [1, 3, 64, 1000, 123456, 10**9]
STRATEGIES = [
    [],
    ["--precision", "amp-fp16", "--clip-grad-norm", "1"],
    ["--checkpoint", "full", "--accumulate", "3"],
    ["--gpus", "4", "--fsdp", "4"],
    ["--gpus", "16", "--hsdp", "2x8", "--reshard-after-forward", "false"],
    ["--gpus", "4", "--pp", "4", "--schedule", "zero-bubble", "--microbatches", "12"],
    ["--gpus", "8", "--zero", "3", "--zero-offload", "optimizer"],
    ["--gpus", "2", "--tp", "2"],
    ["--ddp", "1024"],
    ["--eval"],
    ["--optimizer", "adamw-8bit", "--zero-grad-at", "before-backward"],
]
PLACES = [[], ["--device", "t4"], ["--device", "h100-pcie"], ["--capacity", "1023MiB"], ["--capacity", "1000TiB"]]
VARIED = [
    "precision=fp32,amp-bf16",
    "checkpoint=none,full,blocks=0",
    "optimizer=adamw-fused,adafactor",
    "zero-grad-at=before-backward,end",
    "batch=1,1000000",
    "accumulate=1,1000000000",
    "device=t4,h100-pcie",
    "allocator=max_split_size_mb:128,expandable_segments:True",
]

# what stands at the end of a column, and something right behind it
TOUCHING = re.compile(r"(?:[KMGTPE]iB| %)[\w-]|(?:backward|forward|optimizer|memory)(?:worst|peak)|\d[KMGTPE]iB")


def choices(rng):
    """commands that print text for people"""
    yield from ([name, "--help"] for name in COMMANDS)
    yield from (["--help"], ["devices"], ["models"], ["ops"])
    yield from (["models", model[0]] for model in MODELS)
    for _ in range(14):
        yield ["estimate", *rng.choice(MODELS), "--batch", str(rng.choice(BATCHES)), *rng.choice(STRATEGIES), *rng.choice(PLACES)]
    for _ in range(6):
        search = rng.choice([[], ["--global-batch", str(rng.choice([64, 10**9]))], ["--max-batch", "77"], ["--reserve", "1GiB"]])
        yield ["plan", *rng.choice(MODELS), *rng.choice(STRATEGIES), *rng.choice(PLACES[1:]), *search]
    for _ in range(6):
        vary = [word for axis in rng.sample(VARIED, rng.choice([1, 2, 3])) for word in ("--vary", axis)]
        extra = rng.choice([[], ["--diff", "1", "2"], ["--sort", "device"], ["--largest-batch", "--capacity", "1000TiB"]])
        yield ["compare", *rng.choice(MODELS[:4]), *vary, *extra]
    # the widest numbers that there are
    yield ["plan", "mlp", "--set", "layers=1", "--set", "input=1", "--set", "width=1", "--precision", "bf16", "--capacity", "1000TiB"]
    yield ["plan", "mlp", "--capacity", "1000TiB", "--global-batch", str(2**62)]


def faults(text):
    for line in text.splitlines():
        if len(line) > 80:
            yield f"{len(line)} columns: {line}"
        if TOUCHING.search(line):
            yield f"columns touch: {line}"


def main():
    print(f"# seed {SEED}")
    failed = answered = 0
    environment = {**os.environ, "PLIMSOLL_CUDNN": "off"}
    for command in choices(random.Random(SEED)):
        run = subprocess.run([PLIMSOLL, *command], capture_output=True, text=True, timeout=60, check=False, env=environment)
        answered += run.returncode in (0, 1)
        for fault in faults(run.stdout):
            print(f"plimsoll {' '.join(command)}\n    {fault}")
            failed += 1
    print(f"{answered} answers, {failed} faults")
    return 1 if failed or answered < 40 else 0


sys.exit(main())
