/*
 * train/scaler.c - torch.amp.GradScaler: a few scalars, in order
 *
 * Mirrors torch/amp/grad_scaler.py (2.15). Gradients are unscaled in place. No gradient is ever found to be infinite.
 */
#include "train/internal.h"

static struct tensor *scalar(struct run *run, enum dtype dtype, enum category category)
{
    struct ghost *g = &run->ghost;
    enum category outer = g->category;

    g->category = category;
    struct tensor *x = tensor_new_scalar(g, dtype);

    g->category = outer;
    return x;
}

struct tensor *scaler_scale(struct run *run, struct tensor *loss)
{
    struct scaler *s = &run->scaler;

    if (!s->scale) { /* _lazy_init_scale_growth_tracker() */
        s->scale = scalar(run, DTYPE_FLOAT32, CATEGORY_STATE);
        s->growth_tracker = scalar(run, DTYPE_INT32, CATEGORY_STATE);
    }
    const struct attr in_place = { .key = KEY_INPLACE, .type = ATTR_BOOL };

    return op_apply(&run->ghost, OP_MUL, (struct tensor *[]){ loss, s->scale }, 2, &in_place, 1);
}

/*
 * unscale_grads() - _unscale_grads_(): found_inf and inv_scale are copied; the first copy is kept until update()
 *
 * Of gradients that are shards of DTensors, what all ranks found is kept in its place.
 */
static void unscale_grads(struct run *run)
{
    struct scaler *s = &run->scaler;
    struct tensor *found_inf = scalar(run, DTYPE_FLOAT32, CATEGORY_TEMPORARY);
    struct tensor *inv_scale = scalar(run, DTYPE_FLOAT32, CATEGORY_TEMPORARY);

    struct list earlier = { 0 };

    for (unsigned i = 0; i < run->partial_norms; i++) {
        list_push(run, &earlier, found_inf);
        found_inf = scalar(run, DTYPE_FLOAT32, CATEGORY_TEMPORARY);
    }
    list_drop(run, &earlier);
    tensor_drop(inv_scale);
    s->found_inf = found_inf;
}

void scaler_unscale(struct run *run)
{
    /* inv_scale = _scale.double().reciprocal().float() */
    struct tensor *wide = scalar(run, DTYPE_FLOAT64, CATEGORY_TEMPORARY);
    struct tensor *reciprocal = scalar(run, DTYPE_FLOAT64, CATEGORY_TEMPORARY);

    tensor_drop(wide);
    struct tensor *inv_scale = scalar(run, DTYPE_FLOAT32, CATEGORY_TEMPORARY);

    tensor_drop(reciprocal);
    struct tensor *found_inf = scalar(run, DTYPE_FLOAT32, CATEGORY_TEMPORARY);

    unscale_grads(run);
    tensor_drop(found_inf);
    tensor_drop(inv_scale);
}

/* check_inf() - _check_inf_per_device(): unscaling by 1 */
static void check_inf(struct run *run)
{
    struct tensor *inv_scale = scalar(run, DTYPE_FLOAT32, CATEGORY_TEMPORARY);
    struct tensor *found_inf = scalar(run, DTYPE_FLOAT32, CATEGORY_TEMPORARY);

    unscale_grads(run);
    tensor_drop(found_inf);
    tensor_drop(inv_scale);
}

/* step_scaled() - an optimizer that unscales by itself is told found_inf and, unless it was done, grad_scale */
static void step_scaled(struct run *run, bool unscaled)
{
    if (!unscaled)
        check_inf(run);
    struct tensor *found_inf = scalar(run, DTYPE_FLOAT32, CATEGORY_TEMPORARY); /* sum([…]) */
    struct tensor *grad_scale = NULL;

    if (!unscaled)
        grad_scale = scalar(run, DTYPE_FLOAT32, CATEGORY_TEMPORARY); /* scaler * 1 */
    optimizer_step(run);
    tensor_drop(grad_scale);
    tensor_drop(found_inf);
}

void scaler_step(struct run *run)
{
    struct scaler *s = &run->scaler;
    bool unscaled = s->found_inf;

    if (optimizer_takes_scale(run)) {
        step_scaled(run, unscaled);
    } else {
        if (!unscaled)
            scaler_unscale(run);
        optimizer_step(run);
    }
    /* update() */
    tensor_drop(s->found_inf);
    s->found_inf = NULL;
}
