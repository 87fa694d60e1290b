/*
 * train/optimizer_adam.c - Adam and AdamW: foreach, one parameter at a time, fused, and with 8-bit states
 *
 * Mirrors torch/optim/adam.py (2.15); AdamW is Adam with decoupled weight decay, which is applied in place. State 0 is
 * exp_avg, state 1 exp_avg_sq. `step` is a number on the host except when fused.
 */
#include "base/num.h"
#include "train/optimizer.h"

enum { EXP_AVG, EXP_AVG_SQ, ABSMAX1, ABSMAX2 };

/* init_group() - states of every parameter, before any is updated */
static void init_group(struct run *run, bool step_on_device)
{
    struct ghost *g = &run->ghost;

    for (size_t i = 0; i < run->trained_count; i++) {
        struct leaf *leaf = run->trained[i];
        struct tensor *p = leaf->param->tensor;

        if (!optimizer_grad(run, i))
            continue;
        if (step_on_device && !leaf->step) {
            g->category = CATEGORY_STATE;
            leaf->step = tensor_new_scalar(g, DTYPE_FLOAT32);
            g->category = CATEGORY_TEMPORARY;
        }
        optimizer_state(run, &leaf->state[EXP_AVG], p, p->dtype);
        optimizer_state(run, &leaf->state[EXP_AVG_SQ], p, p->dtype);
    }
}

void adam_step(struct run *run)
{
    struct list exp_avg_sq_sqrt = { 0 };

    init_group(run, false);
    foreach_like_state(run, &exp_avg_sq_sqrt, EXP_AVG_SQ);
    list_drop(run, &exp_avg_sq_sqrt);
}

/* denom = (exp_avg_sq.sqrt() / bias_correction2_sqrt).add_(eps): the last one lives until the name is bound again */
void adam_loop_step(struct run *run)
{
    struct tensor *denom = NULL;

    init_group(run, false);
    for (size_t i = 0; i < run->trained_count; i++) {
        struct tensor *exp_avg_sq = run->trained[i]->state[EXP_AVG_SQ];

        if (!optimizer_grad(run, i) || !exp_avg_sq)
            continue;
        struct tensor *root = tensor_like(&run->ghost, exp_avg_sq, exp_avg_sq->dtype);
        struct tensor *quotient = tensor_like(&run->ghost, exp_avg_sq, exp_avg_sq->dtype);

        tensor_drop(root);
        tensor_drop(denom);
        denom = quotient;
    }
    tensor_drop(denom);
}

void adam_fused_step(struct run *run)
{
    init_group(run, true);
}

/*
 * bitsandbytes: 8-bit states for parameters of at least 4096 elements, with a scale per block of 256, and 32-bit ones
 * for the others; two tables of 256 values, made with the first 8-bit state. The update is in place.
 */
enum { LEAST_8BIT = 4096, BLOCK_8BIT = 256, TABLE_8BIT = 256 };

static void absmax(struct run *run, struct tensor **state, const struct tensor *p)
{
    uint64_t blocks = num_ceil_div((uint64_t)tensor_numel(p), BLOCK_8BIT);
    struct ghost *g = &run->ghost;

    g->category = CATEGORY_STATE;
    *state = tensor_new_sizes(g, DTYPE_FLOAT32, (int64_t)blocks);
    g->category = CATEGORY_TEMPORARY;
}

static void make_tables(struct run *run)
{
    for (unsigned i = 0; i < 2; i++) {
        run->ghost.category = CATEGORY_STATE;
        run->tables[i] = tensor_new_sizes(&run->ghost, DTYPE_FLOAT32, TABLE_8BIT);
        run->ghost.category = CATEGORY_TEMPORARY;
    }
}

void adam_8bit_step(struct run *run)
{
    for (size_t i = 0; i < run->trained_count; i++) {
        struct leaf *leaf = run->trained[i];
        struct tensor *p = leaf->param->tensor;

        if (!optimizer_grad(run, i) || leaf->state[EXP_AVG])
            continue;
        bool small = tensor_numel(p) < LEAST_8BIT;

        if (!small && !run->tables[0])
            make_tables(run);
        optimizer_state(run, &leaf->state[EXP_AVG], p, small ? DTYPE_FLOAT32 : DTYPE_UINT8);
        optimizer_state(run, &leaf->state[EXP_AVG_SQ], p, small ? DTYPE_FLOAT32 : DTYPE_UINT8);
        if (small)
            continue;
        absmax(run, &leaf->state[ABSMAX1], p);
        absmax(run, &leaf->state[ABSMAX2], p);
    }
}
