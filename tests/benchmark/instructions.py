#!/usr/bin/env python3
"""instructions.py VALGRIND BENCHMARK MODELS DEVICES: instructions of one estimate, under callgrind."""
import re
import subprocess
import sys
import tempfile

valgrind, benchmark, models, devices = sys.argv[1:]
for model in ('gpt2', 'llama-3.1-8b'):
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run([valgrind, '--tool=callgrind', f'--callgrind-out-file={folder}/out', '--toggle-collect=plm_estimate',
                              benchmark, models, devices, model], text=True, capture_output=True)
    found = re.search(r'Collected : (\d+)', run.stderr)
    if run.returncode or not found:
        sys.exit(run.stderr)
    print(f'{model}: {int(found[1]):,} instructions an estimate')
