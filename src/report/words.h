/*
 * report/words.h - the words for the strategy's choices, as the command line takes and the reports print them
 *
 * Each list is indexed by its enum: words_precision.items[PLM_PRECISION_BF16] is "bf16".
 */
#ifndef PLM_REPORT_WORDS_H
#define PLM_REPORT_WORDS_H

#include <stddef.h>

struct words {
    const char *const *items;
    size_t count;
};

extern const struct words words_precision, words_optimizer, words_checkpoint, words_zero_grad,
    words_zero_grad_at, words_workspace, words_schedule, words_switch, words_offload, words_reduced,
    words_reshard, words_recompute, words_recompute_method, words_rotate, words_load;

#endif
