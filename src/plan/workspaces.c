/*
 * plan/workspaces.c - a ghost's call becomes cuDNN's, and the answer is counted
 */
#include <string.h>

#include "base/buf.h"
#include "base/num.h"
#include "plan/workspaces.h"

_Static_assert((int)LIBRARY_SPATIAL == (int)CUDNN_SPATIAL_MOST, "the same images");
_Static_assert((int)LIBRARY_PLANS == (int)CUDNN_PLANS_MOST, "the same plans");

static int32_t op_of(enum library_op op)
{
    static const enum cudnn_op ops[] = {
        [LIBRARY_CONV_FORWARD] = CUDNN_FORWARD,
        [LIBRARY_CONV_DATA] = CUDNN_BACKWARD_DATA,
        [LIBRARY_CONV_FILTER] = CUDNN_BACKWARD_FILTER,
        [LIBRARY_ATTENTION] = CUDNN_ATTENTION,
        [LIBRARY_ATTENTION_INFERENCE] = CUDNN_ATTENTION_INFERENCE,
        [LIBRARY_ATTENTION_BACKWARD] = CUDNN_ATTENTION_BACKWARD,
    };

    return (int32_t)ops[op];
}

static int32_t mask_of(enum library_mask mask)
{
    static const enum cudnn_mask masks[] = {
        [LIBRARY_OPEN] = CUDNN_OPEN,
        [LIBRARY_CAUSAL] = CUDNN_CAUSAL,
        [LIBRARY_MASKED] = CUDNN_MASKED,
    };

    return (int32_t)masks[mask];
}

/* type_of() - false: cuDNN has no such convolutions */
static bool type_of(enum dtype dtype, int32_t *ret)
{
    static const struct {
        enum dtype dtype;
        enum cudnn_type type;
    } types[] = { { DTYPE_FLOAT32, CUDNN_F32 },
                  { DTYPE_FLOAT64, CUDNN_F64 },
                  { DTYPE_FLOAT16, CUDNN_F16 },
                  { DTYPE_BFLOAT16, CUDNN_BF16 } };

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].dtype == dtype) {
            *ret = (int32_t)types[i].type;
            return true;
        }
    return false;
}

/* count_blas() - what of the answer rests on cuBLASLt */
static void count_blas(struct workspaces *w, const struct cudnn_workspaces *answer)
{
    switch (answer->blas) {
    case CUDNN_BLAS_NONE:
        break;
    case CUDNN_BLAS_ASSUMED:
        w->assumed++;
        w->assumed_most = num_max(w->assumed_most, answer->blas_most);
        break;
    case CUDNN_BLAS_LEFT_OUT:
        w->left_out++;
        break;
    }
}

static bool plans(void *context, const struct library_call *from, struct library_plans *ret)
{
    struct workspaces *w = context;
    struct cudnn_call call = { .op = op_of(from->op), .spatial = (int32_t)from->spatial };
    bool attention = cudnn_call_is_attention(&call);
    struct cudnn_workspaces answer;
    enum cudnn_source source = CUDNN_UNKNOWN;

    if (attention)
        call.mask = mask_of(from->mask);
    else
        call.channels_last = from->channels_last;
    memcpy(call.input, from->input, sizeof call.input);
    memcpy(call.weight, from->weight, sizeof call.weight);
    memcpy(call.padding, from->padding, sizeof call.padding);
    memcpy(call.stride, from->stride, sizeof call.stride);
    memcpy(call.dilation, from->dilation, sizeof call.dilation);
    if (!w->planner)
        w->planner = cudnn_open(w->cudnn, w->wanted, &w->gpu);
    if (type_of(from->dtype, &call.type))
        source = cudnn_ask(w->planner, &call, &answer);
    switch (source) {
    case CUDNN_UNKNOWN:
        w->unanswered++;
        return false;
    case CUDNN_LIBRARY:
        w->asked++;
        break;
    case CUDNN_TABLE:
        w->looked_up++;
        break;
    }
    count_blas(w, &answer);
    ret->count = answer.count;
    memcpy(ret->bytes, answer.bytes, answer.count * sizeof *ret->bytes);
    return true;
}

void workspaces_open(struct workspaces *workspaces,
                     struct cudnn *cudnn,
                     struct surroundings *around)
{
    *workspaces = (struct workspaces){
        .cudnn = cudnn,
        .gpu = { around->cc, around->sm_count, around->threads_per_sm },
        .wanted = around->framework->cudnn,
    };
    if (cudnn)
        around->library = (struct library){ .plans = plans, .context = workspaces };
}

/* differs() - does the answer come from another cuDNN than the framework's? the patch level does not count */
static bool differs(uint64_t count, int version, int wanted)
{
    return count > 0 && version / 100 != wanted / 100;
}

const char *workspaces_warning(const struct workspaces *workspaces, struct arena *arena)
{
    struct buf text = { .arena = arena };

    if (!workspaces->planner)
        return NULL;
    int library = cudnn_library_version(workspaces->planner);
    int table = cudnn_table_version(workspaces->planner), wanted = workspaces->wanted;
    const char *refusal = cudnn_refusal(workspaces->planner);

    if (cudnn_complaint(workspaces->planner))
        buf_text(&text, cudnn_complaint(workspaces->planner));
    else if (refusal)
        buf_printf(&text, "cuDNN's workspaces were not asked for: %s", refusal);
    else if (workspaces->left_out > 0)
        buf_printf(
            &text,
            "nothing stands in for cuBLASLt: cuDNN answered %llu calls without the plans that use "
            "it, and a GPU may take those",
            (unsigned long long)workspaces->left_out);
    else if (differs(workspaces->asked, library, wanted))
        buf_printf(&text,
                   "workspaces are those of cuDNN %d.%d; this framework brings %d.%d, which may "
                   "choose otherwise",
                   library / 10000, library / 100 % 100, wanted / 10000, wanted / 100 % 100);
    else if (differs(workspaces->looked_up, table, wanted))
        buf_printf(&text,
                   "workspaces are from a table of cuDNN %d.%d; this framework brings %d.%d, which "
                   "may choose otherwise",
                   table / 10000, table / 100 % 100, wanted / 10000, wanted / 100 % 100);
    return text.length > 0 ? buf_string(&text) : NULL;
}
