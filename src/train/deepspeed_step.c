/*
 * train/deepspeed_step.c - ZeRO stages 1 and 2: the optimizer's step on this rank's part, then everybody's is gathered
 *
 * Mirrors DeepSpeedZeroOptimizer.step() of deepspeed/runtime/zero/stage_1_and_2.py (0.19.8). The gathering is in place.
 */
#include "ghost/kernels.h"
#include "train/deepspeed.h"

/* flatten_gradients() - the averaged gradients as one fp32 tensor, which becomes the master's .grad */
static void flatten_gradients(struct deepspeed *ds)
{
    struct deepspeed_flat *flat = ds->flat;
    struct ghost *g = &ds->run->ghost;
    struct tensor *whole;

    if (flat->averaged_count == 1) /* one tensor is flattened by a view */
        whole = tensor_view(flat->averaged[0], 1, &flat->partition, &(int64_t){ 1 });
    else
        whole = tensor_new_sizes(g, ds->dtype, flat->partition);
    struct tensor *grad = whole ? kernel_cast(whole, DTYPE_FLOAT32) : NULL;

    tensor_drop(whole);
    if (flat->master_param.tensor)
        flat->master_param.tensor->grad = grad;
    for (size_t i = 0; i < flat->averaged_count; i++)
        tensor_drop(flat->averaged[i]);
    flat->averaged_count = 0;
}

/* step_on_host() - cpu_offload: the norms of the parts are on the device, everything else is not */
static void step_on_host(struct deepspeed *ds)
{
    struct ghost *g = &ds->run->ghost;
    struct schedule *schedule = g->schedule;

    if (ds->settings.checks_overflow)
        tensor_drop(tensor_new_sizes(g, DTYPE_UINT8, 1));
    tensor_drop(tensor_new_sizes(g, DTYPE_FLOAT32, 1));
    g->schedule = NULL;
    optimizer_step(ds->run);
    g->schedule = schedule;
    for (size_t i = 0; i < ds->flat->param_count; i++) {
        tensor_drop(ds->flat->params[i].norm);
        ds->flat->params[i].norm = NULL;
    }
}

/* step_on_device() - the checks, the fp32 gradient, the update */
static void step_on_device(struct deepspeed *ds)
{
    struct deepspeed_flat *flat = ds->flat;
    struct ghost *g = &ds->run->ghost;

    if (ds->settings.checks_overflow)
        deepspeed_overflow(ds, flat->averaged, flat->averaged_count);
    /* what fills the partition has no norm */
    struct tensor *own = deepspeed_norm(ds, flat->averaged, flat->mine_count);
    struct tensor *norm = deepspeed_combine_norms(ds, 1);

    tensor_drop(own);
    deepspeed_check_norm(ds);
    ds->global_norm = tensor_new_scalar(g, DTYPE_FLOAT32);
    g->category = CATEGORY_GRADIENT;
    flatten_gradients(ds);
    g->category = CATEGORY_TEMPORARY;
    deepspeed_unscale(ds);
    optimizer_step(ds->run);
    if (flat->master_param.tensor) {
        tensor_drop(flat->master_param.tensor->grad);
        flat->master_param.tensor->grad = NULL;
    }
    tensor_drop(norm);
}

void deepspeed_flat_step(struct deepspeed *ds)
{
    ds->run->ghost.category = CATEGORY_TEMPORARY;
    if (ds->settings.offload_optimizer)
        step_on_host(ds);
    else
        step_on_device(ds);
}
