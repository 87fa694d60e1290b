/* report/words.c - the words for the strategy's choices; a missing one is an empty string in a test */
#include "report/words.h"
#include "plimsoll/plimsoll.h"

#define WORDS(name, ...)                                                                           \
    static const char *const name##_items[] = { __VA_ARGS__ };                                     \
    const struct words name = { name##_items, sizeof name##_items / sizeof *name##_items }

/* clang-format off */
WORDS(words_precision,
      [PLM_PRECISION_FP32] = "fp32",
      [PLM_PRECISION_BF16] = "bf16",
      [PLM_PRECISION_FP16] = "fp16",
      [PLM_PRECISION_AMP_BF16] = "amp-bf16",
      [PLM_PRECISION_AMP_FP16] = "amp-fp16");

WORDS(words_optimizer,
      [PLM_OPTIMIZER_ADAMW] = "adamw",
      [PLM_OPTIMIZER_NONE] = "none",
      [PLM_OPTIMIZER_SGD] = "sgd",
      [PLM_OPTIMIZER_SGD_MOMENTUM] = "sgd-momentum",
      [PLM_OPTIMIZER_ADAM] = "adam",
      [PLM_OPTIMIZER_ADAM_FUSED] = "adam-fused",
      [PLM_OPTIMIZER_ADAMW_FUSED] = "adamw-fused",
      [PLM_OPTIMIZER_ADAMW_LOOP] = "adamw-loop",
      [PLM_OPTIMIZER_ADAFACTOR] = "adafactor",
      [PLM_OPTIMIZER_RMSPROP] = "rmsprop",
      [PLM_OPTIMIZER_ADAGRAD] = "adagrad",
      [PLM_OPTIMIZER_LION] = "lion",
      [PLM_OPTIMIZER_ADAMW_8BIT] = "adamw-8bit");

/* '=' at the end: a value follows */
WORDS(words_checkpoint,
      [PLM_CHECKPOINT_NONE] = "none",
      [PLM_CHECKPOINT_FULL] = "full",
      [PLM_CHECKPOINT_EVERY] = "every=",
      [PLM_CHECKPOINT_GROUP] = "group=",
      [PLM_CHECKPOINT_SQRT] = "sqrt",
      [PLM_CHECKPOINT_BLOCKS] = "blocks=",
      [PLM_CHECKPOINT_AUTO] = "auto");

WORDS(words_zero_grad,
      [PLM_ZERO_GRAD_SET_TO_NONE] = "set-to-none",
      [PLM_ZERO_GRAD_ZERO] = "zero");

WORDS(words_zero_grad_at,
      [PLM_ZERO_GRAD_AT_END] = "end",
      [PLM_ZERO_GRAD_AT_BEGIN] = "begin",
      [PLM_ZERO_GRAD_AT_BEFORE_BACKWARD] = "before-backward");

WORDS(words_schedule,
      [PLM_SCHEDULE_1F1B] = "1f1b",
      [PLM_SCHEDULE_GPIPE] = "gpipe",
      [PLM_SCHEDULE_INTERLEAVED] = "interleaved:",
      [PLM_SCHEDULE_ZERO_BUBBLE] = "zero-bubble");

WORDS(words_switch,
      [PLM_SWITCH_DEFAULT] = "default",
      [PLM_SWITCH_TRUE] = "true",
      [PLM_SWITCH_FALSE] = "false");
WORDS(words_offload,
      [PLM_OFFLOAD_NONE] = "none",
      [PLM_OFFLOAD_OPTIMIZER] = "optimizer",
      [PLM_OFFLOAD_ALL] = "all");
WORDS(words_reduced,
      [PLM_REDUCED_DEFAULT] = "default",
      [PLM_REDUCED_FP32] = "fp32",
      [PLM_REDUCED_BF16] = "bf16",
      [PLM_REDUCED_FP16] = "fp16");

WORDS(words_load,
      [PLM_LOAD_DEVICE] = "device",
      [PLM_LOAD_HOST] = "host",
      [PLM_LOAD_META] = "meta");

WORDS(words_rotate,
      [PLM_ROTATE_ALLGATHER] = "allgather",
      [PLM_ROTATE_ALLTOALL] = "alltoall");

WORDS(words_reshard,
      [PLM_RESHARD_DEFAULT] = "default",
      [PLM_RESHARD_TRUE] = "true",
      [PLM_RESHARD_FALSE] = "false",
      [PLM_RESHARD_BUT_LAST] = "but-last");

WORDS(words_recompute,
      [PLM_RECOMPUTE_NONE] = "none",
      [PLM_RECOMPUTE_SELECTIVE] = "selective",
      [PLM_RECOMPUTE_FULL] = "full");

WORDS(words_recompute_method,
      [PLM_RECOMPUTE_UNIFORM] = "uniform",
      [PLM_RECOMPUTE_BLOCK] = "block");

WORDS(words_workspace,
      [PLM_WORKSPACE_AUTO] = "auto",
      [PLM_WORKSPACE_NONE] = "none");
