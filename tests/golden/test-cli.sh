#!/bin/sh
# test-cli.sh PLIMSOLL: exit statuses, messages and the way to standard output, as a user meets them (TAP)
#
# status N COMMAND…      the command ends with status N
# says TEXT              … and what it wrote to standard error holds TEXT
# says_not TEXT          … and it does not hold TEXT
# prints TEXT            … and what it wrote to standard output holds TEXT
set -u
plimsoll=$1
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
unset PLIMSOLL_MODELS PLIMSOLL_DEVICES PLIMSOLL_CUDNN_TABLES
export PLIMSOLL_CUDNN=off
count=0
failed=0

report() { # 0 or 1, and what was tried
    count=$((count + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $count - $2"
    else
        failed=$((failed + 1))
        echo "not ok $count - $2"
        sed 's/^/# /' "$folder/err" 2>/dev/null | head -5
    fi
}

status() {
    expected=$1
    shift
    (cd "$folder" && "$plimsoll" "$@" >out 2>err </dev/null)
    got=$?
    what="status $expected: plimsoll $*"
    if [ "$got" -eq "$expected" ]; then report 0 "$what"; else report 1 "$what, not $got"; fi
}

holds() { # FILE TEXT WHAT
    if grep -qF -- "$2" "$folder/$1"; then report 0 "$3 $2"; else report 1 "$3 $2"; fi
}
says() { holds err "$1" says; }
says_not() { if grep -qF -- "$1" "$folder/err"; then report 1 "does not say $1"; else report 0 "does not say $1"; fi; }
prints() { holds out "$1" prints; }
silent() { if [ -s "$folder/out" ]; then report 1 "prints nothing"; else report 0 "prints nothing"; fi; }

# ------------------------------------------------------------------ commands

status 2
says "plimsoll: needs a command"
silent
status 2 estmate
says "unknown command 'estmate'; did you mean 'estimate'?"
status 2 d
says "command 'd' is ambiguous: 'devices' or 'dump'"
status 0 --version
prints "plimsoll "
status 0 --help
prints "usage: plimsoll COMMAND"
for command in estimate plan compare timeline verify watch models devices ops dump check; do
    status 0 $command --help
    prints "usage: plimsoll $command"
    status 0 help $command
done
status 2 --versoin
says "did you mean '--version'?"

# ------------------------------------------------------------------ options

status 2 estimate
says "needs a MODEL"
status 2 estimate mlp other
says "unexpected argument 'other'"
status 2 estimate mlp --precision bf15
says "--precision: unknown value 'bf15'; did you mean 'bf16'? accepted: fp32, bf16, fp16, amp-bf16, amp-fp16"
silent
status 2 estimate mlp --batch 0
says "--batch: '0' is not accepted"
status 2 estimate mlp --batch -1
status 2 estimate mlp --batch 1e3
status 2 estimate mlp --batch
says "--batch: needs N"
status 2 estimate mlp --bacth 4
says "did you mean '--batch'?"
status 2 estimate mlp --margin 5%
says "--margin: not an option of estimate; of: plan, compare"
status 2 estimate mlp --overclock 8
says "unknown option '--overclock'"
status 2 estimate mlp --json --csv
status 2 estimate mlp --checkpoint every=0
status 2 estimate mlp --checkpoint auto
says "auto needs a device or a capacity"
status 2 estimate mlp --steps 1000000000000
says "steps: from 1 to 1000"
status 2 estimate mlp --context 18446744073709551615
says "context: no device has more than 1PiB"
status 2 estimate gpt2 --seq 1099511627776
says "needs more memory than there are addresses"
status 0 estimate mlp --accumulate 1000000000
prints "accumulate 1000000000"
status 1 plan mlp --device t4 --multiple-of 1000000000000
prints "the smallest that was tried is 1000000000000"
status 2 plan mlp --device t4 --global-batch 9223372036854775807
says "global-batch: at most 2147483647 samples"
status 2 plan mlp --device t4 --global-batch 2 --pp 4
says "a global batch of 2 leaves 2 for each of 1 data-parallel ranks, which no"
status 0 plan mlp --device t4 --global-batch 2147483647
prints "2147483647"
status 2 plan mlp --device t4 --reserve 9223372036854775808 --margin 9223372036854775808
says "reserve: no device has more than 1PiB"
status 0 plan gpt2 --device t4 --checkpoint auto --frozen "wpe|it's" --multiple-of 4
prints "--checkpoint blocks="
prints "--frozen 'wpe|it'\\''s'"
status 2 estimate mlp --capacity 1GiB --context 2GiB
says "the context of 2.00 GiB leaves nothing of a capacity of 1.00 GiB"
status 1 estimate mlp --capacity 300MiB --minimum-capacity
prints "minimum"
status 2 estimate mlp --hsdp 9223372036854775807x9223372036854775807
says "hsdp: from 1 to 1048576 GPUs"
status 2 plan mlp --device t4 --pp 9223372036854775807
says "pp: from 1 to 1048576 GPUs"
status 2 estimate mlp --gradient-as-bucket-view
says "gradient-as-bucket-view: needs --ddp N"
small="megatron-gpt --set layers=2 --set width=64 --set heads=4 --set vocab=500 -b 1 -s 64 --precision bf16"
status 2 estimate $small --sequence-parallel
says "sequence-parallel: needs --megatron N"
status 2 estimate $small --distributed-optimizer
says "distributed-optimizer: needs --megatron N"
status 2 estimate $small --overlap-grad-reduce
says "overlap-grad-reduce: needs --megatron N"
status 2 estimate $small --recompute full
says "recompute: needs --megatron N"
status 2 estimate $small --megatron 1 --recompute-layers 2
says "recompute-layers: needs --recompute full"
status 2 estimate $small --megatron 1 --recompute selective --recompute-method block
says "recompute-method: needs --recompute full"
status 2 estimate $small --megatron 1 --recompute some
says "accepted: none, selective, full"
status 2 estimate $small --megatron 2 --pp 2 --schedule gpipe
says "schedule: Megatron has 1f1b and interleaved:V, and neither gpipe nor zero-bubble"
status 0 estimate mlp --megatron 1 --precision bf16
status 0 estimate mlp --megatron 1 --precision bf16 --pp 2
status 2 estimate $small --megatron 1 --cp 2
says "Megatron Core's own asserts context_parallel_size == 1"
moe="megatron-gpt --set layers=2 --set width=64 --set heads=4 --set vocab=512 --set experts=4 --set bias=false -b 1 -s 64 --precision bf16"
status 0 estimate $moe --megatron 2 --ep 2 --moe-capacity-factor 1
status 0 estimate $moe --megatron 1 --moe-capacity-factor 1
status 0 estimate $moe --megatron 2 --ep 2 --moe-imbalance 1.5 --json
prints "megatron with a mixture of experts without moe-capacity-factor"
status 2 estimate $moe --megatron 3 --ep 2 --moe-capacity-factor 1
says "ep: 2 must divide the 3 ranks of --megatron"
status 2 estimate $moe --megatron 2 --ep 2 --moe-capacity-factor 1001
says "moe-capacity-factor: above 0, and at most 1000"
status 2 estimate $moe --megatron 2 --tp 2 --ep 2 --moe-capacity-factor 1
says "tp: Megatron trains a mixture of experts with --sequence-parallel only"
status 2 estimate $moe --megatron 1 --cp 2 --set attention=fused
says "cp: with a mixture of experts of Megatron it is not modelled"
status 2 estimate $small --megatron 2 --ep 2
says "ep: the model marks no parameter with 'expert_parallel'"
status 2 estimate $small --megatron 1 --moe-capacity-factor 1
says "moe-capacity-factor: the model has no experts"
status 2 estimate $small --megatron 1 --pp 2 --microbatch-group 2
says "microbatch-group: needs --megatron N and --schedule interleaved:V"
status 2 estimate $small --megatron 1 --microbatch-group x
says "microbatch-group"
status 2 estimate $small --megatron 1 --recompute full --recompute-layers 3
says "chunks of 3 do not divide 2 layers"
status 2 estimate llama --megatron 1 --recompute selective
says "selective is of Megatron's own attention"
status 0 estimate $small --set layers=4 --megatron 1 --pp 2 --schedule interleaved:2 --microbatches 6 --microbatch-group 3 --json
prints '"schedule": "interleaved:2"'
prints '"microbatch_group": 3'
status 2 estimate $small --megatron 1 --tp 3
says "does not divide exactly"
status 2 estimate $small --tp 2
says "say over how many replicas it trains, with --megatron N"
status 2 estimate $small --megatron 2 --fsdp 2
says "--fsdp and --megatron exclude each other"
status 2 estimate $small --megatron 1 --checkpoint full
says "Megatron recomputes with --recompute selective or full"
status 0 estimate $small --megatron 2 --tp 2 --pp 2 --sequence-parallel --distributed-optimizer --recompute full --recompute-method block --json
prints '"megatron": 2'
prints '"sequence_parallel": true'
prints '"distributed_optimizer": true'
prints '"recompute": "full"'
prints '"recompute_method": "block"'
prints '"recompute_layers": 1'
status 0 estimate $small --megatron 2 --optimizer adamw-fused --overlap-grad-reduce --json
prints '"overlap_grad_reduce": true'
prints "mirrors Transformer Engine"
status 0 estimate llama --set layers=2 --set width=256 --set heads=4 --set kv_heads=4 --set ffn=512 --seq 64 --hsdp 2x2 --tp 2 --json
prints "hsdp together with tp"
status 0 estimate llama --set layers=2 --set width=256 --set heads=4 --set kv_heads=4 --set ffn=512 --seq 256 --hsdp 2x2 --cp 2 --pp 2 --json
prints "hsdp together with cp and pp"
status 2 estimate mlp --zero-offload optimizer
says "zero-offload: needs --zero STAGE"
status 2 estimate mlp --zero-bucket 1000
says "zero-bucket: needs --zero STAGE"
status 2 estimate mlp --zero-overlap true
says "zero-overlap: needs --zero STAGE"
status 2 estimate mlp --zero-offload disk --zero 2 --gpus 2
says "accepted: none, optimizer, all"
status 2 estimate mlp --zero 2
says "zero: needs --gpus N, the number of ranks"
status 2 estimate mlp --zero 2 --gpus 100000
says "zero: at most 4096 ranks"
status 2 estimate mlp --zero 2 --gpus 4 --tp 2
says "--zero and --tp are not combined: of a model that is split, --fsdp, --hsdp and --megatron are modelled"
status 2 estimate mlp --zero 2 --gpus 4 --pp 2
says "DeepSpeed cannot wrap"
status 2 estimate mlp --deepspeed no-such.json --gpus 2
says "no-such.json"
status 0 estimate mlp --zero 3 --gpus 4096 --zero-offload all --zero-bucket 1000000 --zero-overlap false
prints "zero-offload all"
printf '{"zero_optimization": {"stage": 2}, "train_batch_size": 48}' >"$folder/zero.json"
status 0 estimate mlp --deepspeed "$folder/zero.json" --gpus 4 --accumulate 2
prints "batch 6,"
printf '{"zero_optimization": {"stage": 2}, "train_batch_size": 50}' >"$folder/zero.json"
status 2 estimate mlp --deepspeed "$folder/zero.json" --gpus 4
says "zero.json:1:57: 'train_batch_size' is 50, which 1 × 4"
printf '{"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": 4}' >"$folder/zero.json"
status 2 plan mlp --deepspeed "$folder/zero.json" --gpus 4 --device t4
says "fixes the batch at 4, and a plan looks for one"
printf '{"zero_optimization": {"stage": 2}, "gradient_accumulation_steps": 4}' >"$folder/zero.json"
status 2 plan mlp --deepspeed "$folder/zero.json" --gpus 4 --device t4 --global-batch 64
says "fixes gradient_accumulation_steps at 4"
printf '{"zero_optimization": {"stage": 2, "sub_group_size": 7}, "train_micro_batch_size_per_gpu": 4, "bf16": {"enabled": true}}' >"$folder/zero.json"
status 2 estimate mlp --deepspeed "$folder/zero.json" --gpus 4 --precision fp32
says "zero.json:1:115: 'enabled' is 'true': another section or --precision says otherwise"
status 0 estimate mlp --deepspeed "$folder/zero.json" --gpus 4 --precision bf16 --json
prints '"zero_sub_group_size": 7'
prints '"zero": 2'
status 0 compare mlp --deepspeed "$folder/zero.json" --gpus 4 --vary batch=,4,8 --vary device=t4,a100-80
says "strategy 5 (batch=8,device=t4) is refused: $folder/zero.json:1:92: 'train_micro_batch_size_per_gpu' is 4; --batch says 8"
status 0 compare mlp --deepspeed "$folder/zero.json" --gpus 4 --vary batch=8,4 --device t4 --largest-batch --csv
prints "4,"
status 2 compare mlp --deepspeed "$folder/zero.json" --gpus 4 --vary batch=8,16
says "zero.json:1:92: 'train_micro_batch_size_per_gpu' is 4; --batch says 8"
status 2 estimate mixtral --seq 16 --set layers=1 --set experts=999999999
says "999999999 products one after another"
printf 'plimsoll: 1\nmodel: m\ninputs: {x: {dtype: float32, shape: [batch, 1, 8, 8]}}\nmain:\n  in: [x]\n  nodes:\n    - {as: y, op: conv2d, in: x, channels: 4, kernel: 3, name: conv}\n    - {as: loss, op: sum, in: y}\n  out: loss\n' >"$folder/tiny.yaml"
status 0 plan "$folder/tiny.yaml" --precision amp-bf16 --device t4
prints "Batch 131072 is safe on t4 (14.57 GiB), and nothing larger was tried"
status 0 estimate "$folder/tiny.yaml" --device t4 --checkpoint auto
says "checkpoint: the model has no place where it may cut"
status 2 estimate mlp --device T4.
says "did you mean 't4'?"
status 2 estimate mlp --set width
status 2 estimate mlp --framework pytorch-1.0
says "pytorch-2.15"
status 2 plan mlp
says "needs --device"
status 2 timeline mlp
says "needs -o FILE"
status 2 timeline mlp -o mlp.png
says ".svg, .html, .json, .pickle"
status 2 dump mlp
says "needs --stage"
status 2 ops liner
says "did you mean 'linear'?"

# ------------------------------------------------------------------ models and devices

status 2 estimate no-such-model
says "no-such-model"
status 2 estimate gpt3
says "did you mean 'gpt2'?"
status 2 estimate ./missing.yaml
says "missing.yaml"
status 2 estimate .
printf 'plimsoll: 1\nmodel: [\n' >"$folder/broken.yaml"
status 2 check broken.yaml
says "broken.yaml:"
: >"$folder/empty.yaml"
status 2 check empty.yaml
silent
status 2 estimate mlp --device rtx4091
says "rtx4090"
status 2 estimate mlp --set no_such_dim=3
says "no_such_dim"
status 2 estimate mlp --batch 1099511627776000000
silent

# ------------------------------------------------------------------ answers

status 0 check mlp
status 0 models
prints "gpt2"
status 0 models mlp
status 0 devices
prints "a100-80"
status 0 devices a100-80 --json
status 0 ops
prints "linear"
status 0 ops linear
prints "features"
status 0 estimate mlp --batch 4
prints "Needs"
status 0 estimate mlp --batch 4 --device a100-80
prints "Fits on a100-80"
status 1 estimate mlp --batch 4 --capacity 3MiB --context 0
prints "Does not fit"
status 1 estimate mlp --batch 4 --capacity 3MiB --context 0 --json
prints '"fits": false'
status 0 est mlp --batch 4 --js
prints '"schema_version": 1'
status 0 estimate mlp --csv
prints "model,parameters"
status 0 plan mlp --device t4 --max-batch 64
prints "Batch 64 is safe on t4 (14.57 GiB), and nothing larger was tried"
status 0 plan resnet18 --device t4
prints "is the largest that is safe"
status 1 plan mlp --capacity 3MiB --context 0 --max-batch 2
prints "No batch"
status 0 estimate --batch 4 -- mlp
status 0 estimate mlp --color=always
prints "$(printf '\033[1m')"
status 0 estimate mlp
if grep -q "$(printf '\033')" "$folder/out"; then report 1 "no colour into a file"; else report 0 "no colour into a file"; fi

# ------------------------------------------------------------------ comparisons

status 0 compare mlp --vary batch=4,8 --vary precision=fp32,bf16
prints "bf16"
prints "mlp: "
status 0 compare mlp --vary batch=4,8 --vary precision=fp32,bf16 --json --jobs 1
cp "$folder/out" "$folder/one.json"
for jobs in 2 5; do
    status 0 compare mlp --vary batch=4,8 --vary precision=fp32,bf16 --json --jobs $jobs
    if cmp -s "$folder/out" "$folder/one.json"; then report 0 "the same with $jobs threads"; else report 1 "the same with $jobs threads"; fi
done
status 0 compare mlp --vary batch=4,8 --vary precision=fp32,bf16 --baseline one.json
prints "same"
status 0 compare mlp --vary batch=4,16 --precision bf16 --baseline one.json --allow 2%
prints "new"
sed 's/"reserved_bytes": [0-9]*/"reserved_bytes": 1048576/' "$folder/one.json" >"$folder/small.json"
status 1 compare mlp --vary batch=4,8 --vary precision=fp32,bf16 --baseline small.json --allow 50%
says "strategy 1 (batch=4,precision=fp32): reserved memory grew by"
says "strategy 4 (batch=8,precision=bf16): reserved memory grew by"
status 0 estimate mlp --batch 4 --json -o one-estimate.json
status 0 compare mlp --batch 4 --baseline one-estimate.json
prints "same"
status 1 compare mlp --batch 4 --baseline one-estimate.json --capacity 300MiB --context 0
says "runs out of memory and did not before"
status 2 compare mlp --batch 5 --baseline one-estimate.json
says "none of these strategies is in 'one-estimate.json': model and options must be the same, and 'batch' is not"
status 2 compare mlp --batch 4 --set width=512 --baseline one-estimate.json
says "and 'set.width' is not"
status 0 estimate mlp --batch 4 --set width=512 --json -o set-estimate.json
status 2 compare mlp --batch 4 --baseline set-estimate.json
says "and 'set.width' is not"
status 2 compare mlp --batch 4 --baseline missing.json

# ------------------------------------------------------------------ what is asked for and is not there

status 0 estimate resnet18 --batch 1 --seq 128
says "warning: seq: the model's inputs are no sequences; the length changes nothing"
status 0 estimate mlp --batch 1
says_not "no sequences"
status 2 estimate meta-llama/Llama-3.1-8B --batch 1
says "'meta-llama/Llama-3.1-8B' is no file here, and nothing is downloaded: give the model's config.json"
mkdir -p "$folder/hub/tiny"
echo '{"architectures": ["GPT2LMHeadModel"], "n_layer": 2}' >"$folder/hub/tiny/config.json"
status 0 check hub/tiny
prints "gpt2: right"
status 0 check ./hub/tiny/
status 2 check ./hub
says "./hub: cannot be read: Is a directory"
status 2 estimate mlp --batch 4 --fsdp 8 --gpus 4
says "leave 4 for data parallelism, and another option says 8"
status 2 compare mlp --batch 4 --baseline empty.yaml
echo '{"schema_version": 2, "model": "mlp"}' >"$folder/later.json"
status 2 compare mlp --batch 4 --baseline later.json
says "later.json:1:20: 'schema_version' is 2, and 1 is understood"
status 0 compare mlp --vary batch=4,8 --diff 1 2
prints "B - A"
status 0 compare mlp --diff precision=fp32 precision=bf16,batch=8 --csv
prints "figure,allocated,"
status 0 compare mlp --vary batch=4,8 -o bars.svg
prints "verdict"
if grep -q "</svg>" "$folder/bars.svg"; then report 0 "bars.svg is a picture"; else report 1 "bars.svg is a picture"; fi
status 0 compare mlp --vary batch=4,8 --vary device=t4,a100-80 --largest-batch --max-batch 16 --sort largest-batch
prints "largest"
status 0 compare mlp --batch 4 --ddp 2 --vary fsdp=,8
prints "refused"
says "strategy 2 (fsdp=8) is refused: "
status 2 compare mlp --batch 4 --ddp 2 --vary fsdp=2,8
says "--ddp and --fsdp"
status 2 compare mlp --vary batch
says "--vary: 'batch' is not accepted"
status 2 compare mlp --vary bacth=1
says "did you mean 'batch'?"
status 2 compare mlp --vary json=true
status 2 compare mlp --vary batch=1,none
says "--batch: 'none' is not accepted"
status 2 compare mlp --vary eval=maybe
says "accepted: true or false"
status 2 compare mlp --vary batch=1 --vary batch=2
says "'batch' varies twice"
status 2 compare mlp --vary "batch=$(seq -s, 101)" --vary "steps=$(seq -s, 100)"
says "at most 10000 are compared"
status 2 compare mlp --diff 1 2
says "there is no strategy 2; --vary makes 1"
status 2 compare mlp --diff 1
says "--diff: needs A B"
status 2 compare mlp --largest-batch
says "--largest-batch needs --device NAME"
status 2 compare mlp --allow 2%
says "--allow: needs --baseline FILE"
status 2 compare mlp --diff 1 1 --baseline one.json
status 2 compare mlp --sort size
status 2 compare mlp --vary batch=4 -o no/such.svg

for ending in svg html json pickle; do
    status 0 timeline mlp --batch 4 -o "mlp.$ending"
    silent
    if [ -s "$folder/mlp.$ending" ]; then report 0 "mlp.$ending is there"; else report 1 "mlp.$ending is there"; fi
done
for stage in document model graph schedule memory; do
    status 0 dump mlp --batch 4 --stage=$stage
done
for what in bash zsh fish models devices scd:estimate scd:operators; do
    status 0 --print-docs=$what
done
status 2 --print-docs=nothing

# ------------------------------------------------------------------ output

status 0 estimate mlp --batch 4 -o -
prints "Needs"
(ulimit -f 1 && cd "$folder" && "$plimsoll" timeline mlp --batch 4 -o large.html) 2>"$folder/err"
report $(($? != 3)) "status 3: a file may not be that large"
says "cannot write to large.html: File too large"
status 2 estimate mlp -o no/such/folder
says "cannot create 'no/such/folder'"
status 2 estimate mlp -o .
"$plimsoll" --version >&- 2>"$folder/err"
report $(($? != 3)) "status 3: standard output is closed"
says "standard output: it is closed"
if (ulimit -v 100000 && "$plimsoll" --version) >/dev/null 2>&1; then # a sanitizer's build needs more
    echo old >"$folder/kept.svg"
    (ulimit -v 100000 && cd "$folder" && "$plimsoll" timeline mlp --set layers=60000 --set width=8 -o kept.svg) 2>"$folder/err"
    report $(($? != 3)) "status 3: out of memory"
    says "out of memory"
    holds kept.svg old "keeps"
fi
if [ -w /dev/full ]; then
    "$plimsoll" estimate mlp --batch 4 >/dev/full 2>"$folder/err"
    report $(($? != 3)) "status 3: the disk is full"
    says "cannot write to standard output"
    status 3 estimate mlp --batch 4 -o /dev/full
    ln -s /dev/full "$folder/full.svg"
    status 3 timeline mlp --batch 4 -o full.svg
fi
if [ "$(id -u)" -ne 0 ]; then
    mkdir "$folder/closed"
    chmod 500 "$folder/closed"
    status 2 estimate mlp -o closed/file
    : >"$folder/secret.yaml"
    chmod 000 "$folder/secret.yaml"
    status 2 check secret.yaml
fi
status 2 estimate mlp --cudnn no/such/library
says "--cudnn: 'no/such/library' does not exist; auto, off, a libcudnn.so.9 or the folder that it is in was expected"
status 2 estimate mlp --cudnn ''
says "--cudnn: needs auto|off|PATH, not nothing"
status 0 estimate resnet18 --batch 3 --steps 1 --cudnn "$plimsoll"
says "cuDNN's workspaces were not asked for: $plimsoll: "
PLIMSOLL_CUDNN="no/such/library:$plimsoll"
status 0 estimate resnet18 --batch 3 --steps 1
says "cuDNN's workspaces were not asked for: no/such/library: "
PLIMSOLL_CUDNN=off
status 0 estimate resnet18 --batch 32 --steps 1 --device a100-80 --cudnn off
prints "cuDNN's workspaces are from the table of cuDNN 9.26 for this device."
status 2 calibrate --cudnn resnet18
says "calibrate --cudnn: needs the tables' folder, -o FOLDER"
status 2 calibrate --cudnn mlp -o "$folder"
says "the model has nothing that cuDNN decides: no convolution, no attention of cuDNN's"
status 3 calibrate --cudnn resnet18 -o "$folder/new/tables"
says "no libcudnn of version 9.8 or later answered; PLIMSOLL_CUDNN names one"
status 2 calibrate --cudnn resnet18 -o "$plimsoll"
status 2 calibrate --cudnn no-such-model -o "$plimsoll"
says "unknown model 'no-such-model'"
mkdir "$folder/no-library"
status 2 estimate mlp --cudnn "$folder/no-library"
says "libcudnn.so.9' does not exist; auto, off, a libcudnn.so.9 or the folder that it is in was expected"
if [ "$(find "$folder" -name '*.[A-Za-z0-9][A-Za-z0-9][A-Za-z0-9][A-Za-z0-9][A-Za-z0-9][A-Za-z0-9]' ! -name '*.pickle' | wc -l)" -eq 0 ]; then
    report 0 "nothing half-written stays"
else
    report 1 "nothing half-written stays"
fi

echo "1..$count"
[ "$failed" -eq 0 ]
