/*
 * train/deepspeed_flat.c - ZeRO stages 1 and 2: the parameters in one flat tensor, this rank's part of it in fp32
 *
 * Mirrors DeepSpeedZeroOptimizer.__init__() of deepspeed/runtime/zero/stage_1_and_2.py (0.19.8), for one group of parameters.
 *
 *     elements of the flat tensor = ranks × partition, a multiple of 2 × ranks (nccl_start_alignment_factor)
 */
#include <stdlib.h>

#include "base/num.h"
#include "ghost/kernels.h"
#include "train/deepspeed.h"

enum { ALIGNMENT = 2 }; /* nccl_start_alignment_factor, in elements for each rank */

static int by_address(const void *a, const void *b)
{
    const struct leaf_place *x = a, *y = b;

    return x->leaf < y->leaf ? -1 : x->leaf > y->leaf;
}

size_t deepspeed_flat_number(const struct deepspeed_flat *flat, const struct tensor *leaf)
{
    const struct leaf_place wanted = { .leaf = leaf };
    const struct leaf_place *place =
        bsearch(&wanted, flat->places, flat->param_count, sizeof *place, by_address);

    return place ? place->number : SIZE_MAX;
}

/* ------------------------------------------------------------------ where each parameter lies */

/* place_params() - one after the other, or (_round_robin_reorder()) those of each rank together */
static int64_t place_params(struct deepspeed *ds)
{
    struct deepspeed_flat *flat = ds->flat;
    size_t step = ds->settings.round_robin ? (size_t)ds->world : 1, placed = 0;
    int64_t offset = 0;

    for (size_t first = 0; first < step && first < flat->param_count; first++)
        for (size_t i = first; i < flat->param_count; i += step) {
            flat->placed[placed++] = (uint32_t)i;
            flat->params[i].offset = offset;
            offset += flat->params[i].numel;
        }
    return offset;
}

static bool overlaps(const struct flat_param *p, int64_t partition, int64_t rank)
{
    return p->offset < (rank + 1) * partition && p->offset + p->numel > rank * partition;
}

/* most_gradients() - the first of the ranks that keep most: every parameter that it has a part of counts whole */
static int64_t most_gradients(const struct deepspeed *ds)
{
    const struct deepspeed_flat *flat = ds->flat;
    int64_t best = 0, best_rank = 0;
    size_t first = 0;

    for (int64_t rank = 0; rank < ds->world; rank++) {
        int64_t sum = 0;

        while (first < flat->param_count &&
               flat->params[flat->placed[first]].offset + flat->params[flat->placed[first]].numel <=
                   rank * flat->partition)
            first++;
        for (size_t i = first; i < flat->param_count; i++) {
            const struct flat_param *p = &flat->params[flat->placed[i]];

            if (!overlaps(p, flat->partition, rank))
                break;
            sum += p->numel;
        }
        if (sum > best) {
            best = sum;
            best_rank = rank;
        }
    }
    return best_rank;
}

static void choose_rank(struct deepspeed *ds)
{
    if (ds->rank == 0 && !ds->run->strategy->parallel.has_rank) {
        ds->rank = most_gradients(ds);
        if (ds->rank > 0)
            run_warn(ds->run, "zero: rank %lld is shown, which keeps the most gradients",
                     (long long)ds->rank);
    }
    for (size_t i = 0; i < ds->flat->param_count; i++) {
        struct flat_param *p = &ds->flat->params[i];

        p->mine = overlaps(p, ds->flat->partition, ds->rank);
        ds->flat->mine_count += p->mine;
        ds->flat->mine_numel += p->mine ? p->numel : 0;
    }
}

/* find_params() - what is trained, and where it will lie; returns the elements of the flat tensor without its padding */
static int64_t find_params(struct deepspeed *ds)
{
    struct run *run = ds->run;
    struct deepspeed_flat *flat = ds->flat;
    size_t count = run->trained_count;

    *flat = (struct deepspeed_flat){
        .params = arena_array(run->arena, struct flat_param, count + 1),
        .placed = arena_array(run->arena, uint32_t, count + 1),
        .places = arena_array(run->arena, struct leaf_place, count + 1),
        .param_count = count,
    };
    flat->bucket.members = arena_array(run->arena, uint32_t, count + 1);
    flat->summed = arena_array(run->arena, struct tensor *, count + 1);
    flat->averaged = arena_array(run->arena, struct tensor *, count + 1);
    for (size_t i = 0; i < count; i++)
        flat->params[i] = (struct flat_param){
            .param = run->trained[i]->param,
            .module = run->trained[i]->module,
            .numel = tensor_numel(run->trained[i]->param->tensor),
        };
    return place_params(ds);
}

/* ------------------------------------------------------------------ memory */

/* point_into() - p.data = flat.narrow(…).view(…): a leaf over the flat tensor in place of the parameter's own memory */
static void point_into(struct deepspeed *ds, struct tensor *whole)
{
    struct deepspeed_flat *flat = ds->flat;

    for (size_t i = 0; i < flat->param_count && whole; i++) {
        struct flat_param *p = &flat->params[flat->placed[i]];
        struct tensor *old = p->param->tensor;
        int64_t strides[TENSOR_DIMS];

        tensor_contiguous_strides(old->dims, old->sizes, strides);
        struct tensor *leaf = tensor_view(whole, old->dims, old->sizes, strides);

        if (!leaf)
            return;
        leaf->view = false;
        autograd_leaf(leaf);
        tensor_drop(old);
        p->param->tensor = leaf;
        flat->places[i] = (struct leaf_place){ leaf, flat->placed[i] };
    }
    qsort(flat->places, flat->param_count, sizeof *flat->places, by_address);
}

/* make_master() - this rank's part, cloned and cast, or moved to the host */
static void make_master(struct deepspeed *ds)
{
    struct ghost *g = &ds->run->ghost;
    struct deepspeed_flat *flat = ds->flat;
    struct schedule *schedule = g->schedule;
    struct tensor *clone = tensor_new_sizes(g, ds->dtype, flat->partition), *master = NULL;

    g->category = CATEGORY_STATE;
    if (ds->settings.offload_optimizer)
        g->schedule = NULL; /* the host's memory is not the device's */
    if (clone)
        master = kernel_cast(clone, DTYPE_FLOAT32);
    if (ds->settings.offload_optimizer && clone && clone->dtype == DTYPE_FLOAT32) {
        tensor_drop(master);
        master = tensor_like(g, clone, DTYPE_FLOAT32);
    }
    g->schedule = schedule;
    g->category = CATEGORY_TEMPORARY;
    tensor_drop(clone);
    flat->master_param = (struct param){
        .dtype = DTYPE_FLOAT32,
        .dims = 1,
        .sizes = { flat->partition },
        .tensor = master,
    };
    flat->master = (struct leaf){ .param = &flat->master_param };
    flat->masters[0] = &flat->master;
    ds->run->updated = flat->masters;
    ds->run->updated_count = 1;
}

/* make_offload_buffer() - temp_grad_buffer_for_gpu_offload */
static void make_offload_buffer(struct deepspeed *ds)
{
    struct deepspeed_flat *flat = ds->flat;
    int64_t largest = 0;

    for (size_t i = 0; i < flat->param_count; i++)
        largest = flat->params[i].numel > largest ? flat->params[i].numel : largest;
    ds->run->ghost.category = CATEGORY_COMMUNICATION;
    flat->offload_buffer = tensor_new_sizes(&ds->run->ghost, ds->dtype, largest);
}

void deepspeed_flatten(struct deepspeed *ds)
{
    struct ghost *g = &ds->run->ghost;
    struct deepspeed_flat *flat = ds->flat = arena_new(ds->run->arena, struct deepspeed_flat);
    int64_t numel = find_params(ds), unit = ALIGNMENT * ds->world;
    int64_t padded = (int64_t)num_ceil_div((uint64_t)numel, (uint64_t)unit) * unit;

    flat->partition = padded / ds->world;
    choose_rank(ds);
    g->category = CATEGORY_TEMPORARY;
    struct tensor *padding = padded > numel ? tensor_new_sizes(g, ds->dtype, padded - numel) : NULL;

    g->category = CATEGORY_PARAMETER;
    struct tensor *whole = tensor_new_sizes(g, ds->dtype, padded); /* torch.cat */

    tensor_drop(padding);
    point_into(ds, whole);
    tensor_drop(whole);
    g->category = CATEGORY_STATE;
    make_master(ds);
    if (ds->settings.offload_optimizer)
        make_offload_buffer(ds);
    else /* initialize_optimizer_states(): a gradient of zeros, which goes again */
        tensor_drop(tensor_new_sizes(g, DTYPE_FLOAT32, flat->partition));
    g->category = CATEGORY_ACTIVATION;
}
