/*
 * train/load.c - brings the model to the device: Module.to(device, dtype), Module.to(channels_last), requires_grad_; or to_empty()
 *
 * What is on the host, or on the meta device, is a tensor without memory: it was made while nothing is recorded.
 */
#include <regex.h>

#include "train/modules.h"
#include "train/wrapper.h"

void params_set_place(struct run *run, size_t param)
{
    struct ghost *g = &run->ghost;

    g->category = run->params[param].buffer ? CATEGORY_BUFFER : CATEGORY_PARAMETER;
    g->op = OP_COUNT;
    g->path = run->leaves[param].module;
}

static void to_device(struct run *run, size_t i)
{
    struct param *p = &run->params[i];

    if (p->elsewhere || p->tensor)
        return;

    run->leaves[i].rank = run->loaded_count++;
    params_set_place(run, i);
    if (run->wrapper && run->wrapper->load_parameter && !p->buffer)
        run->wrapper->load_parameter(run, i);
    else
        p->tensor = tensor_new(&run->ghost, p->dtype, p->dims, p->sizes);
}

/*
 * Megatron makes its own layers' parameters on the device, in their type and this rank's part alone (layers.py). Modules of
 * torch.nn are made on the host in float32, moved as they are, and cast after that (Float16Module); a router's are cast first.
 */
static void make_on_device(struct run *run, size_t i)
{
    struct param *p = &run->params[i];

    if (p->elsewhere || !p->on_device)
        return;
    run->leaves[i].rank = run->loaded_count++;
    params_set_place(run, i);
    p->tensor = param_shard(run, p, p->dtype);
}

static void to_device_float32(struct run *run, size_t i)
{
    struct param *p = &run->params[i];
    enum dtype dtype = p->dtype;

    if (dtype_defs[dtype].floating && !p->on_host)
        p->dtype = DTYPE_FLOAT32;
    to_device(run, i);
    p->dtype = dtype;
}

static void to_float16(struct run *run, size_t i)
{
    struct param *p = &run->params[i];

    if (!p->tensor || p->tensor->dtype == p->dtype)
        return;
    params_set_place(run, i);
    struct tensor *cast = tensor_new(&run->ghost, p->dtype, p->dims, p->tensor->sizes);

    tensor_drop(p->tensor);
    p->tensor = cast;
}

static void load_megatron(struct run *run)
{
    for (size_t i = 0; i < run->param_count; i++)
        make_on_device(run, i);
    modules_apply(run, to_device_float32);
    modules_apply(run, to_float16);
}

struct tensor *channels_last_copy(struct ghost *g, struct tensor *x)
{
    int64_t strides[TENSOR_DIMS];

    if (!x || x->dims < 4 || x->dims > 5 || tensor_suggests_channels_last(x))
        return tensor_ref(x);
    tensor_channels_last_strides(x->dims, x->sizes, strides);
    return tensor_new_strided(g, x->dtype, x->dims, x->sizes, strides);
}

static void to_channels_last(struct run *run, size_t i)
{
    struct param *p = &run->params[i];

    params_set_place(run, i);
    struct tensor *copy = channels_last_copy(&run->ghost, p->tensor);

    if (copy && copy != p->tensor)
        copy->channels_last = true;
    tensor_drop(p->tensor);
    p->tensor = copy;
}

static enum plm_status freeze(struct run *run, struct plm_error *reterr)
{
    regex_t regex;
    char text[128];
    size_t frozen = 0;
    const char *pattern = run->strategy->frozen;
    int error = regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB);

    if (error) {
        regerror(error, &regex, text, sizeof text);
        return plm_fail(reterr, PLM_E_USAGE, "frozen: '%s' is not a regular expression: %s",
                        pattern, text);
    }
    for (size_t i = 0; i < run->param_count; i++) {
        struct param *p = &run->params[i];

        p->frozen =
            !p->buffer && regexec(&regex, names_text(run->ghost.names, p->name), 0, NULL, 0) == 0;
        frozen += p->frozen;
    }
    regfree(&regex);
    if (frozen == 0)
        run_warn(run, "frozen: no parameter's name matches '%s'", pattern);
    return PLM_OK;
}

/* ------------------------------------------------------------------ from the host, or from the meta device */

struct schedule *params_off_device(struct run *run)
{
    struct schedule *schedule = run->ghost.schedule;

    run->ghost.schedule = NULL;
    return schedule;
}

void params_on_device(struct run *run, struct schedule *schedule)
{
    run->ghost.schedule = schedule;
}

void params_move(struct run *run, size_t i)
{
    params_set_place(run, i);
    tensor_restore_storage(run->params[i].tensor);
}

/* make_empty() - nn.Parameter(torch.empty_like(param)): a tied one comes apart, until tie_weights() drops the twin */
static void make_empty(struct run *run, size_t i)
{
    struct tensor *x = run->params[i].tensor;

    if (!x)
        return;
    params_set_place(run, i);
    if (x->storage->allocation)
        list_push(run, &run->twins, tensor_like(&run->ghost, x, x->dtype));
    else
        tensor_restore_storage(x);
}

void params_place(struct run *run)
{
    switch (run->strategy->parallel.load) {
    case PLM_LOAD_DEVICE:
        return;
    case PLM_LOAD_HOST:
        modules_apply(run, params_move);
        return;
    case PLM_LOAD_META:
        modules_apply_all(run, make_empty, NULL);
        list_drop(run, &run->twins);
        return;
    }
}

/* is_deferred() - is the model not on the device before a wrapper has split it? Without one a host's model comes as it always does */
static bool is_deferred(const struct run *run)
{
    enum plm_load load = run->strategy->parallel.load;

    return load == PLM_LOAD_META || (load == PLM_LOAD_HOST && run->wrapper && run->wrapper->places);
}

/* load() - Module.to() */
static void load(struct run *run)
{
    struct schedule *schedule = is_deferred(run) ? params_off_device(run) : run->ghost.schedule;

    if (run->strategy->parallel.megatron > 0)
        load_megatron(run);
    else
        modules_apply(run, to_device);
    if (run->strategy->channels_last)
        modules_apply(run, to_channels_last);
    params_on_device(run, schedule);
    if (is_deferred(run) && !(run->wrapper && run->wrapper->places))
        params_place(run);
}

enum plm_status params_load(struct run *run, struct plm_error *reterr)
{
    run->leaves = arena_array(run->arena, struct leaf, run->param_count);
    modules_build(run);
    enum plm_status status = run->strategy->frozen ? freeze(run, reterr) : PLM_OK;

    if (status)
        return status;
    load(run);
    run->trained = arena_array(run->arena, struct leaf *, run->param_count);
    for (size_t i = 0; i < run->param_count; i++) {
        struct param *p = &run->params[i];

        run->leaves[i].param = p;
        if (p->buffer || p->frozen || !p->tensor || !dtype_defs[p->dtype].floating)
            continue;
        autograd_leaf(p->tensor);
        run->trained[run->trained_count++] = &run->leaves[i];
    }
    if (run->strategy->frozen && run->trained_count == 0 && !run->strategy->eval)
        return plm_fail(reterr, PLM_E_USAGE, "frozen: no parameter is left to train");
    run->ghost.path = 0;
    return PLM_OK;
}
