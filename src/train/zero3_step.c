/*
 * train/zero3_step.c - ZeRO stage 3: the optimizer's step, one sub-group after the other
 *
 * Mirrors DeepSpeedZeroOptimizer_Stage3.step() of deepspeed/runtime/zero/stage3.py (0.19.8). All parameters are let go of
 * before it; small ones that persist are gathered after it.
 */
#include "ghost/kernels.h"
#include "train/zero3.h"

static struct tensor *scalar(struct zero3 *zero3, enum dtype dtype)
{
    return tensor_new_scalar(&zero3->ds->run->ghost, dtype);
}

static void replace(struct tensor **x, struct tensor *with)
{
    tensor_drop(*x);
    *x = with;
}

/* any_of() - torch.isinf(gradients).any(), or isnan: a boolean for each element, then one */
static void any_of(struct zero3 *zero3, bool absolute)
{
    struct ghost *g = &zero3->ds->run->ghost;
    struct tensor *all = zero3->gradients;
    struct tensor *values = absolute && all ? tensor_like(g, all, all->dtype) : NULL;
    struct tensor *found = all ? tensor_like(g, all, DTYPE_BOOL) : NULL;

    tensor_drop(values);
    struct tensor *any = scalar(zero3, DTYPE_BOOL);

    if (found)
        kernel_reduce_scratch(g, found, 1, 1);
    tensor_drop(found);
    tensor_drop(any);
}

/* check_overflow() - has_overflow(), of fp16 alone; of an offloaded optimizer gradients and tracker are on the host */
static void check_overflow(struct zero3 *zero3)
{
    struct ghost *g = &zero3->ds->run->ghost;

    g->stream = zero3->ds->settings.overlap_comm ? DEEPSPEED_STREAM_REDUCE : 0;
    if (!zero3->ds->settings.offload_optimizer) {
        any_of(zero3, true);
        any_of(zero3, false);
    }
    struct tensor *tracker = tensor_new_sizes(g, DTYPE_BOOL, 1);
    struct tensor *overflow = tensor_new_sizes(g, DTYPE_UINT8, 1);

    tensor_drop(tracker);
    tensor_drop(overflow);
    g->stream = DEEPSPEED_STREAM_DEFAULT;
}

/* one_norm() - x.to(float64).norm(2), of this rank's part of a gradient */
static struct tensor *one_norm(struct zero3 *zero3, const struct zero3_param *p)
{
    struct ghost *g = &zero3->ds->run->ghost;
    TENSOR_AUTO *wide = tensor_new_sizes(g, DTYPE_FLOAT64, p->partition);
    struct tensor *norm = scalar(zero3, DTYPE_FLOAT64);

    if (wide)
        kernel_reduce_scratch(g, wide, 1, 8);
    return norm;
}

/* group_norm() - get_grad_norm_direct() */
static struct tensor *group_norm(struct zero3 *zero3, const struct zero3_group *group)
{
    struct ghost *g = &zero3->ds->run->ghost;
    int64_t count = (int64_t)group->param_count;
    struct list norms = { 0 };

    for (size_t i = 0; i < group->param_count; i++)
        list_push(zero3->ds->run, &norms, one_norm(zero3, &zero3->params[group->params[i]]));
    struct tensor *sum = tensor_new_sizes(g, DTYPE_FLOAT64, count); /* stack */

    replace(&sum, tensor_new_sizes(g, DTYPE_FLOAT64, count)); /* pow(2) */
    replace(&sum, scalar(zero3, DTYPE_FLOAT64));
    struct tensor *total = scalar(zero3, DTYPE_FLOAT64); /* pow(0.5) */
    struct tensor *absolute = scalar(zero3, DTYPE_FLOAT64);
    struct tensor *is_inf = scalar(zero3, DTYPE_BOOL);

    tensor_drop(absolute);
    struct tensor *is_nan = scalar(zero3, DTYPE_BOOL);
    struct tensor *either = scalar(zero3, DTYPE_BOOL);
    struct tensor *error = scalar(zero3, DTYPE_FLOAT32);
    struct tensor *wide = scalar(zero3, DTYPE_FLOAT64);

    replace(&total, scalar(zero3, DTYPE_FLOAT64)); /* where() */
    tensor_drop(wide);
    tensor_drop(sum);
    list_drop(zero3->ds->run, &norms);
    tensor_drop(is_inf);
    tensor_drop(is_nan);
    tensor_drop(either);
    tensor_drop(error);
    return total;
}

/* prepare() - _prepare_fp32_grad_for_sub_group(): the parts in one tensor, in fp32 */
static void prepare(struct zero3 *zero3, struct zero3_group *group)
{
    struct ghost *g = &zero3->ds->run->ghost;
    struct tensor *flat = NULL;

    if (zero3->ds->settings.offload_optimizer || !group->master_param.tensor)
        return;
    g->category = CATEGORY_GRADIENT;
    if (group->param_count > 1)
        flat = tensor_new_sizes(g, zero3->ds->dtype, group->numel);
    else if (zero3->gradients) /* one tensor is flattened by a view */
        flat = tensor_view(zero3->gradients, 1, &group->numel, &(int64_t){ 1 });
    group->master_param.tensor->grad = flat ? kernel_cast(flat, DTYPE_FLOAT32) : NULL;
    tensor_drop(flat);
    g->category = CATEGORY_TEMPORARY;
}

static void update(struct zero3 *zero3, struct zero3_group *group)
{
    struct run *run = zero3->ds->run;
    struct tensor *master = group->master_param.tensor;

    prepare(zero3, group);
    deepspeed_unscale(zero3->ds);
    run->updated = group->masters;
    run->updated_count = 1;
    optimizer_step(run);
    run->ghost.category = CATEGORY_TEMPORARY;
    if (!master || zero3->ds->settings.offload_optimizer)
        return;
    tensor_drop(master->grad);
    master->grad = NULL;
}

/* gather_persistent() - those that were let go of before the step */
static void gather_persistent(struct zero3 *zero3)
{
    struct pool *pool = &zero3->ds->run->ghost.pool;
    size_t size = (zero3->param_count + 1) * sizeof(size_t), count = 0;
    size_t *small = pool_alloc(pool, size);

    for (size_t i = 0; i < zero3->param_count; i++)
        if (zero3->params[i].persists)
            small[count++] = i;
    zero3_gather_now(zero3, small, count);
    zero3->ds->run->ghost.path = 0;
    pool_free(pool, small, size);
}

/* host_norm() - complete_grad_norm_calculation_for_cpu_offload(): the sum of the parts' squares, to the host */
static void host_norm(struct zero3 *zero3, const struct zero3_group *group)
{
    struct ghost *g = &zero3->ds->run->ghost;
    struct tensor *sum = NULL;

    for (size_t i = 0; i < group->param_count; i++) {
        if (!zero3->params[group->params[i]].norm)
            continue;
        struct tensor *square = scalar(zero3, DTYPE_FLOAT64);

        if (!sum) /* 0.0 + x; later ones are added in place */
            sum = scalar(zero3, DTYPE_FLOAT64);
        tensor_drop(square);
    }
    struct tensor *total = tensor_new_sizes(g, DTYPE_FLOAT32, 1);
    struct tensor *root = scalar(zero3, DTYPE_FLOAT32);

    tensor_drop(sum);
    deepspeed_mask_invalid(zero3->ds);
    tensor_drop(root);
    tensor_drop(total);
}

/* step_on_host() - the norms of the parts are on the device, everything else is not */
static void step_on_host(struct zero3 *zero3)
{
    struct ghost *g = &zero3->ds->run->ghost;
    struct schedule *schedule = g->schedule;

    for (size_t i = 0; i < zero3->group_count; i++)
        host_norm(zero3, &zero3->groups[i]);
    g->schedule = NULL;
    for (size_t i = 0; i < zero3->group_count; i++)
        update(zero3, &zero3->groups[i]);
    g->schedule = schedule;
    for (size_t i = 0; i < zero3->param_count; i++) {
        tensor_drop(zero3->params[i].norm);
        zero3->params[i].norm = NULL;
    }
    gather_persistent(zero3);
}

/* step_on_device() - the norms of all sub-groups, then one sub-group after the other */
static void step_on_device(struct zero3 *zero3)
{
    struct deepspeed *ds = zero3->ds;
    struct list norms = { 0 };

    for (size_t i = 0; i < zero3->group_count; i++)
        list_push(ds->run, &norms, group_norm(zero3, &zero3->groups[i]));
    struct tensor *norm = deepspeed_combine_norms(ds, zero3->group_count);

    deepspeed_check_norm(ds);
    ds->global_norm = scalar(zero3, ds->norm_dtype);
    for (size_t i = 0; i < zero3->group_count; i++)
        update(zero3, &zero3->groups[i]);
    gather_persistent(zero3);
    tensor_drop(norm);
    list_drop(ds->run, &norms);
}

void zero3_step(struct deepspeed *ds)
{
    struct zero3 *zero3 = ds->zero3;

    ds->run->ghost.path = 0;
    ds->run->ghost.category = CATEGORY_TEMPORARY;
    zero3_release_all(zero3);
    if (ds->dtype == DTYPE_FLOAT16)
        check_overflow(zero3);
    if (ds->settings.offload_optimizer)
        step_on_host(zero3);
    else
        step_on_device(zero3);
}
