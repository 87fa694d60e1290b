/*
 * train/run.c - makes a run, loads it, and hands out what it found
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "train/mesh.h"
#include "train/wrapper.h"

/* Three steps with AdamW make 20 to 25 events for each operator of the forward. */
enum { EVENTS_OF_NODE = 25, EVENTS_RESERVED_MOST = 1 << 20 };

void run_warn(struct run *run, const char *format, ...)
{
    char text[256];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    arena_push(run->arena, run->warnings, run->warning_count, run->warning_capacity,
               arena_copy(run->arena, text, strlen(text)));
}

/* find_model_call() - the model in the training script: the first call of main */
static const struct graph_step *find_model_call(const struct graph *graph)
{
    for (size_t i = 0; i < graph->main->step_count; i++)
        if (graph->main->steps[i].kind == STEP_CALL)
            return &graph->main->steps[i];
    return NULL;
}

static enum plm_status check_strategy(const struct plm_strategy *s, struct plm_error *reterr)
{
    int64_t ranks = mesh_count(&s->parallel);

    if (s->accumulate < 0 || s->accumulate > INT32_MAX)
        return plm_fail(reterr, PLM_E_USAGE,
                        "accumulate: the number of micro-batches is from 1 to %d", INT32_MAX);
    if (s->clip_grad_norm < 0)
        return plm_fail(reterr, PLM_E_USAGE, "clip-grad-norm: the norm is above 0");
    if (s->parallel.rank < 0 || s->parallel.rank >= ranks)
        return plm_fail(reterr, PLM_E_USAGE, "rank: from 0 to %lld", (long long)ranks - 1);
    return PLM_OK;
}

enum plm_status train_create(const struct graph *graph,
                             const struct plm_strategy *strategy,
                             const struct surroundings *around,
                             struct names *names,
                             struct schedule *schedule,
                             struct arena *arena,
                             struct run **ret_run,
                             struct plm_error *reterr)
{
    struct run *run = arena_new(arena, struct run);
    enum plm_status status = check_strategy(strategy, reterr);

    if (status)
        return status;
    ghost_init(&run->ghost, arena, names, schedule, around);
    if (schedule)
        ghost_reserve(&run->ghost,
                      num_min((uint64_t)graph->node_count * EVENTS_OF_NODE, EVENTS_RESERVED_MOST));
    run->ghost.training = !strategy->eval;
    run->ghost.needs_gradient_of_parameters = !strategy->eval;
    run->graph = graph;
    run->strategy = strategy;
    run->arena = arena;
    run->owner.run = run;
    run->ghost.precision = params_dtype(run);
    run->step = -1;
    run->hands_over = strategy->parallel.megatron > 0;
    run->batch = arena_array(arena, struct value, graph->input_count);
    run->model_call = find_model_call(graph);
    if (strategy->seq > 0 && !graph->reads_seq)
        run_warn(run, "seq: the model's inputs are no sequences; the length changes nothing");
    status = context_create(run, reterr);
    if (status)
        return status;
    status = params_find(run, reterr);
    if (status)
        return status;
    status = pipeline_create(run, reterr);
    if (status)
        return status;
    status = wrapper_choose(strategy, &run->wrapper, reterr);
    if (!status && run->wrapper)
        status = run->wrapper->create(run, reterr);
    if (status)
        return status;
    status = regions_build(run, reterr);
    if (status)
        return status;
    if (strategy->keep_outputs && strategy->keep_outputs_in_step)
        return plm_fail(reterr, PLM_E_USAGE,
                        "--keep-outputs and --keep-outputs-in-step exclude each other");
    if (strategy->keep_outputs || strategy->keep_outputs_in_step) {
        run->kept_count = graph->main->out_count;
        run->kept = arena_array(arena, struct value, run->kept_count);
    }
    *ret_run = run;
    return PLM_OK;
}

/* outcome() - the run's failure, when it was halted */
static enum plm_status outcome(struct run *run, struct plm_error *reterr)
{
    if (run->ghost.halt != HALT_FAILED)
        return PLM_OK;
    if (reterr)
        *reterr = run->ghost.error;
    return run->ghost.status;
}

enum plm_status train_load(struct run *run, struct plm_error *reterr)
{
    run_mark(run, "start", 0);
    enum plm_status status = params_load(run, reterr);

    if (status)
        return status;
    run_mark(run, "model_load", 0);
    if (run->wrapper) {
        run->wrapper->wrap(run);
        run_mark(run, run->wrapper->mark, 0);
    }
    pipeline_load(run);
    if (run->wrapper && run->wrapper->before_optimizer)
        run->wrapper->before_optimizer(run);
    optimizer_create(run);
    run_mark(run, "optimizer_init", 0);
    run->step = 0;
    return outcome(run, reterr);
}

void train_watch(struct run *run, unsigned (*period)(void *user), void *user)
{
    run->period = period;
    run->period_user = user;
}

enum plm_status train_step(struct run *run, struct plm_error *reterr)
{
    const struct schedule *s = run->ghost.schedule;

    run->repeated = !run->ghost.halt && step_repeat(run);
    if (!run->ghost.halt && !run->repeated) {
        run->last_step = (struct step_extent){ s->event_count, s->allocation_count };
        step_run(run);
    }
    run->step++;
    return outcome(run, reterr);
}

bool train_repeated(const struct run *run)
{
    return run->repeated;
}

void train_forget(struct run *run)
{
    run->last_step.event = 0;
    run->first_micro = NULL;
}

const struct param *train_params(const struct run *run, size_t *ret_count)
{
    *ret_count = run->param_count;
    return run->params;
}

const struct ghost *train_ghost(const struct run *run)
{
    return &run->ghost;
}

const char *const *train_warnings(const struct run *run, size_t *ret_count)
{
    *ret_count = run->warning_count;
    return run->warnings;
}

const char *train_about(const struct run *run)
{
    return pipeline_about(run);
}
