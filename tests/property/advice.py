#!/usr/bin/env python3
"""advice.py PLIMSOLL: where an estimate advises to checkpoint, that lowers the peak; where it could and is not advised, by little"""
import json
import os
import subprocess
import sys

PLIMSOLL = sys.argv[1]
RUNS = [
    "mlp --batch 65536",
    "gpt2 --set layers=3 --batch 4",
    "llama --seq 2048 --set layers=3 --batch 4 --precision bf16",
    "albert --batch 16 --set layers=4",
    "t5 --batch 16 --set layers=2",
    "resnet50 --batch 64",
    "vgg16 --batch 64",
    "vit-b16 --batch 64 --set layers=3",
    "swin-t --batch 32 --precision amp-bf16",
    "densenet121 --batch 32",
    "unet --batch 4",
    "gpt2 --set layers=1 --batch 4",
]
NOTEWORTHY = 0.2  # of the peak


def estimate(words):
    environment = {**os.environ, "PLIMSOLL_CUDNN": "off"}
    run = subprocess.run([PLIMSOLL, "estimate", *words, "--json"], capture_output=True, text=True, check=True, env=environment)
    answer = json.loads(run.stdout)
    return answer["peak"]["allocated_bytes"], answer["advice"]


def main():
    failed = advised = 0
    for words in map(str.split, RUNS):
        without, advice = estimate(words)
        with_them, _ = estimate([*words, "--checkpoint", "full"])
        saved = 1 - with_them / without
        named = "--checkpoint full" in advice
        advised += named
        wrong = saved <= 0 if named else saved > NOTEWORTHY
        failed += wrong
        print(f"{'not ok' if wrong else 'ok'} - {' '.join(words)}: saves {100 * saved:.1f} %, {'advised' if named else 'not advised'}")
    return 1 if failed or not 0 < advised < len(RUNS) else 0


sys.exit(main())
