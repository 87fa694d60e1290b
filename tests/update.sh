#!/bin/sh
# tests/update.sh PLIMSOLL: store anew whatever the program prints now (ninja -C build update); then read `git diff`
set -eu
plimsoll=$(realpath "$1")
cd "$(dirname "$0")/.."

for case in tests/golden/*/args; do
    python3 tests/golden/run.py --plimsoll "$plimsoll" --update "$(dirname "$case")" >/dev/null
done
python3 tests/docs/examples.py --plimsoll "$plimsoll" --update . >/dev/null || true
python3 tests/reference/check.py --plimsoll "$plimsoll" --update
python3 tests/reference/check.py --plimsoll "$plimsoll" --cudnn --update || [ $? = 77 ]
python3 tests/reference/accuracy.py . --update
python3 tests/reference/published.py . --plimsoll "$plimsoll" --update
git --no-pager diff --stat
