#!/usr/bin/env python3
"""manual.py MANDOC PAGE…: the manual pages are clean."""
import subprocess
import sys

mandoc, pages = sys.argv[1], sys.argv[2:]
run = subprocess.run([mandoc, '-T', 'lint', '-W', 'error', *pages], capture_output=True, text=True)
print(run.stdout + run.stderr or f'{len(pages)} pages')
sys.exit(1 if run.returncode or not pages else 0)
