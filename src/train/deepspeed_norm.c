/*
 * train/deepspeed_norm.c - DeepSpeed's checks of gradients: infinities, the global norm, clipping; many small tensors
 *
 * Mirrors deepspeed/runtime/utils.py and unscale_and_clip_grads(), get_grad_norm_direct() of
 * deepspeed/runtime/zero/stage_1_and_2.py (0.19.8). A norm is taken of a copy in float64, which is what counts here.
 */
#include "ghost/kernels.h"
#include "train/deepspeed.h"

static struct tensor *scalar(struct deepspeed *ds, enum dtype dtype)
{
    return tensor_new_scalar(&ds->run->ghost, dtype);
}

/* replace() - x = f(x): the old one goes when the new one is there */
static void replace(struct tensor **x, struct tensor *with)
{
    tensor_drop(*x);
    *x = with;
}

static struct tensor *numbers(struct deepspeed *ds, enum dtype dtype, size_t count)
{
    return tensor_new_sizes(&ds->run->ghost, dtype, (int64_t)count);
}

/* is_finite() - torch.isfinite(x) of @count numbers: (x == x) * (x.abs() != inf) */
static struct tensor *is_finite(struct deepspeed *ds, enum dtype dtype, size_t count)
{
    TENSOR_AUTO *absolute = numbers(ds, dtype, count);
    TENSOR_AUTO *equal = numbers(ds, DTYPE_BOOL, count);
    TENSOR_AUTO *bounded = numbers(ds, DTYPE_BOOL, count);

    return numbers(ds, DTYPE_BOOL, count);
}

/* reduce_all() - a number of all elements, by a kernel that accumulates in @dtype */
static struct tensor *reduce_all(struct deepspeed *ds, const struct tensor *x, enum dtype dtype)
{
    struct tensor *ret = scalar(ds, dtype);

    if (x && ret)
        kernel_reduce_scratch(&ds->run->ghost, x, (1u << x->dims) - 1, dtype_defs[dtype].bytes);
    return ret;
}

/* extreme_is_finite() - torch.isfinite(x.amax()) */
static struct tensor *extreme_is_finite(struct deepspeed *ds, const struct tensor *x)
{
    TENSOR_AUTO *extreme = reduce_all(ds, x, x->dtype);

    return is_finite(ds, x->dtype, 1);
}

/* has_inf_or_nan() - isfinite(x.amax()).logical_and(isfinite(x.amin())).logical_not() */
static struct tensor *has_inf_or_nan(struct deepspeed *ds, const struct tensor *x)
{
    struct tensor *most = extreme_is_finite(ds, x), *least = extreme_is_finite(ds, x);
    struct tensor *both = scalar(ds, DTYPE_BOOL);

    tensor_drop(most);
    tensor_drop(least);
    replace(&both, scalar(ds, DTYPE_BOOL));
    return both;
}

void deepspeed_has_overflow(struct deepspeed *ds, const struct tensor *x)
{
    tensor_drop(has_inf_or_nan(ds, x));
}

void deepspeed_overflow(struct deepspeed *ds, struct tensor *const *grads, size_t count)
{
    struct tensor *invalid = tensor_new_sizes(&ds->run->ghost, DTYPE_FLOAT32, 1);

    for (size_t i = 0; i < count; i++)
        if (grads[i])
            tensor_drop(has_inf_or_nan(ds, grads[i]));
    struct tensor *overflow = scalar(ds, DTYPE_BOOL);

    tensor_drop(invalid);
    struct tensor *on_device = scalar(ds, DTYPE_UINT8);

    tensor_drop(overflow);
    tensor_drop(on_device);
}

/* mask_nan_or_inf_with_val_inplace() */
void deepspeed_mask_invalid(struct deepspeed *ds)
{
    struct tensor *absolute = scalar(ds, DTYPE_FLOAT32);
    struct tensor *is_inf = scalar(ds, DTYPE_BOOL);

    tensor_drop(absolute);
    struct tensor *is_nan = scalar(ds, DTYPE_BOOL);
    struct tensor *either = scalar(ds, DTYPE_BOOL);
    struct tensor *value = scalar(ds, DTYPE_FLOAT32);

    tensor_drop(is_inf);
    tensor_drop(is_nan);
    tensor_drop(either);
    tensor_drop(value);
}

/* torch.linalg.vector_norm(x.to(float64)) */
struct tensor *deepspeed_one_norm(struct deepspeed *ds, struct tensor *x)
{
    TENSOR_AUTO *wide = kernel_cast(x, DTYPE_FLOAT64);

    return reduce_all(ds, wide, DTYPE_FLOAT64);
}

struct tensor *deepspeed_norm(struct deepspeed *ds, struct tensor *const *grads, size_t count)
{
    struct ghost *g = &ds->run->ghost;
    struct list norms = { 0 };
    struct tensor *total;

    for (size_t i = 0; i < count; i++)
        list_push(ds->run, &norms, deepspeed_one_norm(ds, grads[i]));
    if (count > 0) {
        total = tensor_new_sizes(g, DTYPE_FLOAT64, (int64_t)count);          /* stack */
        replace(&total, tensor_new_sizes(g, DTYPE_FLOAT64, (int64_t)count)); /* pow(2) */
        struct tensor *sum = total ? reduce_all(ds, total, DTYPE_FLOAT64) : NULL;

        replace(&total, sum);
        replace(&total, scalar(ds, DTYPE_FLOAT32)); /* float() */
    } else {
        total = scalar(ds, DTYPE_FLOAT32);
    }
    replace(&total, scalar(ds, DTYPE_FLOAT32)); /* pow(0.5), after the all-reduce */
    deepspeed_mask_invalid(ds);
    list_drop(ds->run, &norms);
    return total;
}

/* is_invalid() - (~isfinite(x) | (x < 0)).any(), of @count numbers */
static struct tensor *is_invalid(struct deepspeed *ds, size_t count)
{
    struct tensor *invalid = is_finite(ds, ds->norm_dtype, count);

    replace(&invalid, numbers(ds, DTYPE_BOOL, count));
    struct tensor *negative = numbers(ds, DTYPE_BOOL, count);
    struct tensor *either = numbers(ds, DTYPE_BOOL, count);

    tensor_drop(invalid);
    tensor_drop(negative);
    replace(&either, scalar(ds, DTYPE_BOOL));
    return either;
}

struct tensor *deepspeed_combine_norms(struct deepspeed *ds, size_t count)
{
    struct tensor *stacked = tensor_new_sizes(&ds->run->ghost, ds->norm_dtype, (int64_t)count);
    struct tensor *invalid = is_invalid(ds, count);
    struct tensor *combined = scalar(ds, ds->norm_dtype);
    struct tensor *infinity = scalar(ds, ds->norm_dtype);
    struct tensor *ret = scalar(ds, ds->norm_dtype);

    tensor_drop(infinity);
    tensor_drop(stacked);
    tensor_drop(invalid);
    tensor_drop(combined);
    return ret;
}

void deepspeed_check_norm(struct deepspeed *ds)
{
    tensor_drop(is_invalid(ds, 1));
}

void deepspeed_unscale(struct deepspeed *ds)
{
    if (!ds->settings.clips) /* 1 / loss_scale is a number of Python */
        return;
    if (ds->settings.stage < 3)
        deepspeed_check_norm(ds);
    struct tensor *clip =
        scalar(ds, ds->norm_dtype); /* (clip_norm / loss_scale + 1e-6) / clip_grad */

    replace(&clip, scalar(ds, ds->norm_dtype));
    replace(&clip, scalar(ds, ds->norm_dtype));
    replace(&clip, scalar(ds, ds->norm_dtype)); /* clamp */
    struct tensor *combined = scalar(ds, ds->norm_dtype);
    struct tensor *inverse = scalar(ds, ds->norm_dtype); /* 1. / x is x.reciprocal() * 1. */

    replace(&inverse, scalar(ds, ds->norm_dtype));
    tensor_drop(inverse);
    tensor_drop(combined);
    tensor_drop(clip);
}
