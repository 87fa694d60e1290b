/*
 * train/zero3.c - ZeRO stage 3: parameters are cut up, and the optimizer gets this rank's parts in fp32
 *
 * Mirrors deepspeed.zero.Init (deepspeed/runtime/zero/partition_parameters.py) around the model's construction, and
 * DeepSpeedZeroOptimizer_Stage3.__init__() of deepspeed/runtime/zero/stage3.py (0.19.8), for one group of parameters.
 */
#include <stdlib.h>

#include "base/num.h"
#include "ghost/kernels.h"
#include "ops/dense.h"
#include "train/zero3.h"

static int by_address(const void *a, const void *b)
{
    const struct leaf_place *x = a, *y = b;

    return x->leaf < y->leaf ? -1 : x->leaf > y->leaf;
}

size_t zero3_number(const struct zero3 *zero3, const struct tensor *leaf)
{
    const struct leaf_place wanted = { .leaf = leaf };
    const struct leaf_place *place =
        bsearch(&wanted, zero3->places, zero3->param_count, sizeof *place, by_address);

    return place ? place->number : SIZE_MAX;
}

void zero3_create(struct deepspeed *ds)
{
    struct run *run = ds->run;
    struct zero3 *zero3 = ds->zero3 = arena_new(run->arena, struct zero3);
    size_t count = run->param_count + 1;

    zero3->ds = ds;
    zero3->params = arena_array(run->arena, struct zero3_param, count);
    zero3->places = arena_array(run->arena, struct leaf_place, count);
    zero3->number_of_param = arena_array(run->arena, size_t, count);
    zero3->bucket_params = arena_array(run->arena, size_t, count);
    run->ghost.linear = dense_linear_zero3;
}

/* ------------------------------------------------------------------ deepspeed.zero.Init */

/* persists() - small ones, as long as all of them are few */
static bool persists(const struct zero3 *zero3, int64_t numel)
{
    const struct deepspeed_settings *s = &zero3->ds->settings;
    int64_t kept = 0;

    for (size_t i = 0; i < zero3->param_count; i++)
        kept += zero3->params[i].persists ? zero3->params[i].numel : 0;
    return numel <= s->param_persistence_threshold &&
           numel <= s->model_persistence_threshold - kept;
}

/* host() - memory of the host is not the device's: what is allocated now is not seen */
static struct schedule *host(struct ghost *g, bool offloads)
{
    struct schedule *schedule = g->schedule;

    if (offloads)
        g->schedule = NULL;
    return schedule;
}

/* cut_up() - the module of the last parameters is complete: each rank keeps its part of them */
static void cut_up(struct zero3 *zero3)
{
    struct ghost *g = &zero3->ds->run->ghost;

    for (; zero3->cut_count < zero3->param_count; zero3->cut_count++) {
        struct zero3_param *p = &zero3->params[zero3->cut_count];
        struct schedule *schedule = host(g, zero3->ds->settings.offload_params && !p->persists);

        g->category = CATEGORY_PARAMETER;
        g->path = p->module;
        p->shard = tensor_new_sizes(g, p->param->dtype, p->partition);
        g->schedule = schedule;
        TENSOR_AUTO *none = tensor_new_sizes(g, p->param->dtype, 0);

        tensor_set_data(p->param->tensor, none);
    }
}

/* zero3_load_parameter() - a module's constructor makes its parameters on the device, in fp32, then in the model's type */
void zero3_load_parameter(struct run *run, size_t i)
{
    struct deepspeed *ds = run->wrapper_state;
    struct zero3 *zero3 = ds->zero3;
    struct ghost *g = &run->ghost;
    struct param *p = &run->params[i];
    name_id module = run->leaves[i].module;

    if (zero3->param_count > 0 && zero3->params[zero3->param_count - 1].module != module)
        cut_up(zero3);
    g->path = module;
    struct tensor *made = tensor_new(g, DTYPE_FLOAT32, p->dims, p->sizes);

    p->tensor = made ? kernel_cast(made, p->dtype) : NULL;
    tensor_drop(made);
    if (!p->tensor)
        return;
    int64_t numel = tensor_numel(p->tensor);

    zero3->number_of_param[i] = zero3->param_count;
    zero3->params[zero3->param_count++] = (struct zero3_param){
        .param = p,
        .leaf = &run->leaves[i],
        .module = module,
        .numel = numel,
        .partition = (int64_t)num_ceil_div((uint64_t)numel, (uint64_t)ds->world),
        .persists = persists(zero3, numel),
    };
}

/* ------------------------------------------------------------------ sub-groups */

static struct zero3_param *param_of(struct zero3 *zero3, const struct leaf *leaf)
{
    return &zero3->params[zero3->number_of_param[leaf->param - zero3->ds->run->params]];
}

/* make_groups() - _create_fp16_sub_groups(): closed when they have reached sub_group_size */
static void make_groups(struct zero3 *zero3)
{
    struct run *run = zero3->ds->run;
    int64_t all = 0;

    for (size_t i = 0; i < run->trained_count; i++)
        all += param_of(zero3, run->trained[i])->partition;
    bool splits = zero3->ds->settings.sub_group_size < all;
    struct zero3_group *group = NULL;

    zero3->groups = arena_array(run->arena, struct zero3_group, run->trained_count + 1);
    for (size_t i = 0; i < run->trained_count; i++) {
        struct zero3_param *p = param_of(zero3, run->trained[i]);

        if (!group) {
            group = &zero3->groups[zero3->group_count++];
            group->params = arena_array(run->arena, size_t, run->trained_count - i);
        }
        group->params[group->param_count++] = (size_t)(p - zero3->params);
        group->numel += p->partition;
        if (splits && group->numel >= zero3->ds->settings.sub_group_size)
            group = NULL;
    }
}

/* defragment() - all parts to the host, then back as one tensor; what was cached is given back in between */
static void defragment(struct zero3 *zero3)
{
    struct ghost *g = &zero3->ds->run->ghost;
    bool offloads = zero3->ds->settings.offload_params;
    int64_t numel = 0;

    for (size_t i = 0; i < zero3->group_count; i++) {
        const struct zero3_group *group = &zero3->groups[i];

        for (size_t k = 0; k < group->param_count; k++) {
            struct zero3_param *p = &zero3->params[group->params[k]];

            tensor_drop(p->shard);
            p->shard = NULL;
            numel += p->partition;
        }
    }
    if (g->schedule && !g->halt && !offloads)
        schedule_empty(g->schedule);
    struct schedule *schedule = host(g, offloads);

    g->category = CATEGORY_PARAMETER;
    zero3->flat = tensor_new_sizes(g, zero3->ds->dtype, numel);
    g->schedule = schedule;
    for (size_t i = 0; i < zero3->group_count; i++) {
        const struct zero3_group *group = &zero3->groups[i];

        for (size_t k = 0; k < group->param_count; k++) {
            struct zero3_param *p = &zero3->params[group->params[k]];

            p->shard = tensor_view(zero3->flat, 1, &p->partition, &(int64_t){ 1 });
        }
    }
}

/* make_masters() - _create_fp32_partitions(): a cast, if one is needed, and its clone */
static void make_masters(struct zero3 *zero3)
{
    struct ghost *g = &zero3->ds->run->ghost;
    struct schedule *schedule = host(g, zero3->ds->settings.offload_optimizer);
    struct tensor *converted = NULL;

    g->category = CATEGORY_STATE;
    for (size_t i = 0; i < zero3->group_count; i++) {
        struct zero3_group *group = &zero3->groups[i];
        struct tensor *cast = zero3->ds->dtype != DTYPE_FLOAT32
                                  ? tensor_new_sizes(g, DTYPE_FLOAT32, group->numel)
                                  : NULL;

        tensor_drop(converted);
        converted = cast;
        struct tensor *master = tensor_new_sizes(g, DTYPE_FLOAT32, group->numel);

        group->master_param = (struct param){
            .dtype = DTYPE_FLOAT32,
            .dims = 1,
            .sizes = { group->numel },
            .tensor = master,
        };
        group->master = (struct leaf){ .param = &group->master_param };
        group->masters[0] = &group->master;
    }
    tensor_drop(converted);
    g->schedule = schedule;
}

/* barrier() - of NCCL: a number, and the first time another that stays */
static void barrier(struct zero3 *zero3, bool first)
{
    struct ghost *g = &zero3->ds->run->ghost;

    g->category = CATEGORY_COMMUNICATION;
    struct tensor *number = tensor_new_sizes(g, DTYPE_UINT8, 1);

    if (first)
        (void)tensor_new_sizes(g, DTYPE_FLOAT32, 1);
    tensor_drop(number);
}

/* make_gradients() - a buffer of zeros that goes again, the bucket, and this rank's parts of all gradients */
static void make_gradients(struct zero3 *zero3)
{
    struct ghost *g = &zero3->ds->run->ghost;
    const struct deepspeed_settings *s = &zero3->ds->settings;
    struct schedule *schedule = host(g, s->offload_optimizer);
    int64_t largest = 0, all = 0;

    for (size_t i = 0; i < zero3->group_count; i++) {
        largest = zero3->groups[i].numel > largest ? zero3->groups[i].numel : largest;
        all += zero3->groups[i].numel;
    }
    g->category = CATEGORY_GRADIENT;
    tensor_drop(tensor_new_sizes(g, DTYPE_FLOAT32, largest));
    g->schedule = schedule;
    barrier(zero3, false);
    if (s->contiguous_gradients)
        zero3->bucket = tensor_new_sizes(g, s->communication_dtype, s->reduce_bucket_size);
    host(g, s->offload_optimizer);
    g->category = CATEGORY_GRADIENT;
    zero3->gradients = tensor_new_sizes(g, zero3->ds->dtype, all);
    g->schedule = schedule;
}

/* make_hooks() - create_reduce_and_remove_grad_hooks() gathers each parameter for a moment */
static void make_hooks(struct zero3 *zero3)
{
    for (size_t i = 0; i < zero3->group_count; i++)
        for (size_t k = 0; k < zero3->groups[i].param_count; k++) {
            size_t number = zero3->groups[i].params[k];

            zero3_gather_now(zero3, &number, 1);
            zero3_free(zero3, &zero3->params[number]);
        }
}

void zero3_wrap(struct deepspeed *ds)
{
    struct zero3 *zero3 = ds->zero3;
    struct run *run = ds->run;
    struct ghost *g = &run->ghost;
    struct schedule *schedule;

    cut_up(zero3);
    g->path = 0;
    zero3_find_modules(zero3);
    for (uint32_t i = 0; i < zero3->param_count; i++)
        zero3->places[i] = (struct leaf_place){ zero3->params[i].param->tensor, i };
    qsort(zero3->places, zero3->param_count, sizeof *zero3->places, by_address);
    make_groups(zero3);
    schedule = host(g, ds->settings.offload_optimizer);
    g->category = CATEGORY_COMMUNICATION;
    (void)tensor_new_sizes(g, DTYPE_BOOL, 1); /* inf_or_nan_tracker, as long as the run */
    g->schedule = schedule;
    barrier(zero3, true);
    defragment(zero3);
    make_masters(zero3);
    barrier(zero3, false);
    make_gradients(zero3);
    make_hooks(zero3);
    run->updated = zero3->groups[0].masters;
    run->updated_count = 1;
    g->path = 0;
    g->category = CATEGORY_ACTIVATION;
}
