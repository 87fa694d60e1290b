#!/usr/bin/env python3
"""advice.py PLIMSOLL: what an estimate advises lowers the peak; where it could advise to checkpoint and does not, that saves little"""
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
# what is run, what is advised, and the run that follows it
FOLLOWED = [
    ("gpt2 --batch 1 --seq 64 --optimizer adamw-fused --ddp 8", "--fsdp in place of DistributedDataParallel", "gpt2 --batch 1 --seq 64 --optimizer adamw-fused --fsdp 8"),
    ("llama --batch 1 --seq 4096 --set layers=2 --precision bf16 --checkpoint full", "a shorter --seq",
     "llama --batch 1 --seq 2048 --set layers=2 --precision bf16 --checkpoint full"),
    ("llama --batch 2 --seq 4096 --set layers=2 --precision bf16 --checkpoint full", "a smaller batch with --accumulate",
     "llama --batch 1 --seq 4096 --set layers=2 --precision bf16 --checkpoint full --accumulate 2"),
    ("llama --batch 4 --seq 2048 --set layers=2 --checkpoint full --fsdp 2", "--precision bf16",
     "llama --batch 4 --seq 2048 --set layers=2 --checkpoint full --fsdp 2 --precision bf16"),
]
# what is run, and what is not advised: there is no batch below 1; FSDP computes in bf16 already
NOT_ADVISED = [
    ("llama --batch 1 --seq 4096 --set layers=2 --precision bf16", "smaller batch"),
    ("llama --batch 1 --seq 4096 --set layers=2 --precision bf16 --pp 2", "smaller batch"),
    ("llama --batch 4 --seq 2048 --set layers=2 --checkpoint full --fsdp 2 --fsdp-param-dtype bf16", "--precision"),
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
    for before, advised_words, after in FOLLOWED:
        without, advice = estimate(before.split())
        saved = 1 - estimate(after.split())[0] / without
        wrong = advised_words not in advice or saved <= 0
        failed += wrong
        print(f"{'not ok' if wrong else 'ok'} - {before}: '{advised_words}' saves {100 * saved:.1f} %: {advice}")
    for words, not_advised in NOT_ADVISED:
        _, advice = estimate(words.split())
        wrong = "lower it by" not in advice or not_advised in advice
        failed += wrong
        print(f"{'not ok' if wrong else 'ok'} - {words}: no '{not_advised}': {advice}")
    return 1 if failed or not 0 < advised < len(RUNS) else 0


sys.exit(main())
