/*
 * train/optimizer_adafactor.c - torch.optim.Adafactor, which loops over parameters unless told to use foreach
 *
 * Mirrors torch/optim/_adafactor.py (2.15), _single_tensor_adafactor. State 0 and 1 are row_var and col_var of a tensor
 * with several dimensions, state 2 is the variance of any other. The loop's names live until they are bound again, so
 * that the last parameter's tensors overlap with the next one's.
 */
#include "ghost/kernels.h"
#include "train/optimizer.h"

enum { ROW_VAR, COL_VAR, VARIANCE };

/* struct locals - of the loop; @update and var_estimate are one tensor once the estimate is overwritten */
struct locals {
    struct tensor *row_mean, *col_mean, *grad_squared, *update;
};

static void assign(struct tensor **name, struct tensor *x)
{
    struct tensor *old = *name;

    *name = x;
    tensor_drop(old);
}

/* without() - new_zeros of @x's sizes with dimension @dim as 1 */
static void state_without(struct run *run, struct tensor **state, struct tensor *x, unsigned dim)
{
    int64_t sizes[TENSOR_DIMS];
    struct ghost *g = &run->ghost;

    if (*state)
        return;
    for (unsigned i = 0; i < x->dims; i++)
        sizes[i] = i == dim ? 1 : x->sizes[i];
    g->category = CATEGORY_STATE;
    *state = tensor_new(g, x->dtype, x->dims, sizes);
    g->category = CATEGORY_TEMPORARY;
}

static void init_group(struct run *run)
{
    for (size_t i = 0; i < run->trained_count; i++) {
        struct leaf *leaf = run->trained[i];
        struct tensor *grad = optimizer_grad(run, i);

        if (!grad)
            continue;
        if (grad->dims > 1) {
            state_without(run, &leaf->state[ROW_VAR], grad, grad->dims - 1);
            state_without(run, &leaf->state[COL_VAR], grad, grad->dims - 2);
        } else {
            optimizer_state(run, &leaf->state[VARIANCE], grad, grad->dtype);
        }
    }
}

/* norm() - x.norm(2).item() */
static void norm(struct tensor *x)
{
    tensor_drop(kernel_reduce(x, (1u << x->dims) - 1, false, x->dtype));
}

/* product() - row_var @ col_var */
static struct tensor *product(struct run *run, const struct leaf *leaf)
{
    struct tensor *in[] = { leaf->state[ROW_VAR], leaf->state[COL_VAR] };

    return op_apply(&run->ghost, OP_MATMUL, in, 2, NULL, 0);
}

static void factored(struct run *run,
                     struct locals *l,
                     const struct leaf *leaf,
                     struct tensor *grad)
{
    unsigned last = grad->dims - 1, next = grad->dims - 2;

    assign(&l->row_mean, kernel_reduce(grad, 1u << last, true, grad->dtype));
    assign(&l->col_mean, kernel_reduce(grad, 1u << next, true, grad->dtype));
    struct tensor *var_estimate = product(run, leaf);

    tensor_drop(kernel_reduce(leaf->state[ROW_VAR], 1u << next, true, grad->dtype));
    assign(&l->update, var_estimate);
}

static void update(struct run *run, struct locals *l, const struct leaf *leaf, struct tensor *grad)
{
    norm(leaf->param->tensor);
    if (grad->dims > 1) {
        factored(run, l, leaf, grad);
    } else {
        assign(&l->grad_squared, tensor_like(&run->ghost, grad, grad->dtype));
        assign(&l->update, kernel_clone(leaf->state[VARIANCE]));
    }
    if (l->update)
        norm(l->update);
}

void adafactor_step(struct run *run)
{
    struct locals l = { 0 };

    init_group(run);
    for (size_t i = 0; i < run->trained_count && !run->ghost.halt; i++) {
        struct tensor *grad = optimizer_grad(run, i);

        if (grad)
            update(run, &l, run->trained[i], grad);
    }
    tensor_drop(l.row_mean);
    tensor_drop(l.col_mean);
    tensor_drop(l.grad_squared);
    tensor_drop(l.update);
}
