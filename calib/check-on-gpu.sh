#!/bin/sh
# check-on-gpu.sh [FOLDER]: everything that needs a real GPU, in under 8 minutes; writes FOLDER/report.txt and FOLDER/report.json
#
# Builds the program, calibrates the GPU, verifies three plans, and, where PyTorch is installed, trains GPT-2, BERT and ResNet-50 for three
# steps and compares its peaks with the estimates. FOLDER is gpu-check by default; the profile is left there too.
#
# Status: 0 all that could be done holds; 1 a plan or an estimate does not; 3 there is no usable GPU, or the build or the calibration failed.
# What was left out, because something is missing or the time is up, is said in the report and is no failure.
#
# PLIMSOLL     a program that was built already: nothing is built then
# PYTHON       the Python whose PyTorch is used; default python3
# DEVICE       the GPU's number; default 0
# SECONDS_MAX  of all of it; default 470
#
# So far this script has run against the double of CUDA's libraries only (tests/calibrate/test_script.py): on a real GPU it is untested.
set -u

here=$(cd "$(dirname "$0")" && pwd) || exit 3
source=$(dirname "$here")
out=${1:-gpu-check}
python=${PYTHON:-python3}
device=${DEVICE:-0}
end=$(($(date +%s) + ${SECONDS_MAX:-470}))
mkdir -p "$out" || exit 3
out=$(cd "$out" && pwd) || exit 3
rm -rf "$out"/*.json "$out"/*.log "$out"/report.txt "$out"/profile.yaml "$out/config"
XDG_CONFIG_HOME=$out/config # where the profile is kept, and found by verify
export XDG_CONFIG_HOME
report=$out/report.txt
failed=0

say() { printf '%s\n' "$*" | tee -a "$report"; }
left() { echo $((end - $(date +%s))); }

# within SECONDS COMMAND…: ended when it takes longer, or when the whole time is up; 124 then
within() {
    most=$1
    shift
    rest=$(left)
    [ "$rest" -gt 5 ] || return 124
    [ "$rest" -lt "$most" ] && most=$rest
    timeout -k 5 "$most" "$@"
}

# json FILE: its text, or null
json() { if [ -s "$1" ]; then cat "$1"; else echo null; fi; }

# list FILE…: those that are there, as a JSON array
list() {
    comma=
    printf '['
    for file in "$@"; do
        [ -s "$file" ] || continue
        printf '%s' "$comma"
        cat "$file"
        comma=,
    done
    printf ']'
}

# finish STATUS: write the JSON and end
finish() {
    {
        printf '{"date": "%s", "status": %s, "seconds_left": %s,\n"calibrate": ' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$1" "$(left)"
        json "$out/calibrate.json"
        printf ',\n"verify": '
        list "$out"/verify-*.json
        printf ',\n"torch": '
        list "$out"/torch-*.json
        printf '}\n'
    } >"$out/report.json"
    [ -z "${profile:-}" ] || cp "$profile" "$out/profile.yaml"
    say ""
    say "Report: $report and $out/report.json"
    exit "$1"
}

# ------------------------------------------------------------------ build

say "Plimsoll on a real GPU, $(date -u +%Y-%m-%dT%H:%M:%SZ)"
say ""
if [ -n "${PLIMSOLL:-}" ]; then
    plimsoll=$PLIMSOLL
    say "build: $plimsoll was given"
else
    build=$out/build
    plimsoll=$build/plimsoll
    { [ -f "$build/build.ninja" ] || within 60 meson setup "$build" "$source" --buildtype=release -Dtests=disabled -Dman=disabled; } >"$out/build.log" 2>&1 &&
        within 240 ninja -C "$build" plimsoll >>"$out/build.log" 2>&1
    status=$?
    if [ $status -ne 0 ]; then
        say "build: FAILED with status $status; see $out/build.log"
        finish 3
    fi
    say "build: $plimsoll"
fi

# ------------------------------------------------------------------ calibrate

begun=$(date +%s)
torch=
within 60 "$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' >"$out/torch.log" 2>&1 && torch=yes
within 120 "$plimsoll" calibrate --device "$device" ${torch:+--python "$python"} --json >"$out/calibrate.json" 2>"$out/calibrate.log"
status=$?
if [ $status -ne 0 ]; then
    say "calibrate: FAILED with status $status: $(tail -n 1 "$out/calibrate.log")"
    rm -f "$out/calibrate.json"
    finish 3
fi
field() { sed -n "s/^ *\"$2\": \"\\{0,1\\}\\([^\",]*\\)\"\\{0,1\\},\\{0,1\\}\$/\\1/p" "$1" | head -n 1; }
profile=$(field "$out/calibrate.json" profile)
say "calibrate: $(field "$out/calibrate.json" title), driver $(field "$out/calibrate.json" driver), in $(($(date +%s) - begun)) s"
say "    context $(field "$out/calibrate.json" context_bytes) bytes, libraries $(field "$out/calibrate.json" libraries_bytes), margin $(field "$out/calibrate.json" margin_bytes)"
sed -n '/"skipped"/,/\]/s/^ *"\(.*\)",\{0,1\}$/    left out: \1/p' "$out/calibrate.json" | grep -v '"skipped"' | tee -a "$report"

# ------------------------------------------------------------------ verify

say ""
for plan in "gpt2 --seq 512" "bert-mlm --seq 256" "resnet50 --batch 64"; do
    model=${plan%% *}
    # shellcheck disable=SC2086 # a plan is words
    within 60 "$plimsoll" verify $plan --precision amp-fp16 --device "local:$device" --max-fill 100% --json \
        >"$out/verify-$model.json" 2>"$out/verify-$model.log"
    status=$?
    case $status in
    0) say "verify $model: holds, $(field "$out/verify-$model.json" left_bytes) bytes left at the peak of batch $(field "$out/verify-$model.json" batch)" ;;
    1)
        failed=1
        say "verify $model: DOES NOT HOLD; see $out/verify-$model.json"
        ;;
    124) say "verify $model: left out, it was not done in time" ;;
    *)
        failed=1
        say "verify $model: FAILED with status $status: $(tail -n 1 "$out/verify-$model.log")"
        ;;
    esac
    [ $status -le 1 ] || rm -f "$out/verify-$model.json"
done

[ ! -s "$out/verify-resnet50.json" ] || say "margin of plans now: $(field "$out/verify-resnet50.json" margin_bytes) bytes"

# ------------------------------------------------------------------ PyTorch

say ""
if [ -z "$torch" ]; then
    say "PyTorch: not compared; $python has none that sees a GPU"
    finish $failed
fi
for run in "gpt2 4 512" "bert-mlm 8 256" "resnet50 32 0"; do
    model=${run%% *}
    # shellcheck disable=SC2086 # a run is words
    within 90 "$python" "$here/torch_peaks.py" --plimsoll "$plimsoll" --profile "$profile" --calibration "$out/calibrate.json" \
        --device "$device" $run >"$out/torch-$model.json" 2>"$out/torch-$model.log"
    status=$?
    case $status in
    0 | 1)
        [ $status -eq 0 ] || failed=1
        grep '^# ' "$out/torch-$model.log" | sed 's/^# //' | tee -a "$report"
        ;;
    124) say "PyTorch $model: left out, it was not done in time" ;;
    *) say "PyTorch $model: left out: $(tail -n 1 "$out/torch-$model.log")" ;;
    esac
    [ $status -le 1 ] || rm -f "$out/torch-$model.json"
done
finish $failed
