/*
 * ops/attention_fused.c - attention as Transformer Engine's FusedAttention has it (cuDNN's kernels)
 *
 * Mirrors FusedAttnFunc of transformer_engine/pytorch/attention (2.x), for one packed input or for query, key and value: it
 * keeps the inputs, the output, the softmax statistics in float32 and the random state; gradients are like the inputs. The kernels'
 * own workspaces are not known here.
 */
#include "ops/attention.h"

enum { INPUTS_MOST = 3 };
enum { SAVED_OUTPUT = INPUTS_MOST, SAVED_STATISTICS, SAVED_RANDOM, SAVED_COUNT };

static void apply(struct ghost *g, struct node *n, struct tensor *const *grads, struct tensor **ret)
{
    for (uint32_t i = 0; i < n->edge_count; i++) {
        TENSOR_AUTO *input = node_saved(n, i);

        if (input && node_needs(n, i))
            ret[i] = tensor_new(g, input->dtype, input->dims, input->sizes);
    }
}

static const struct backward fused_backward = { "FusedAttnFuncBackward", apply };

/* is_packed() - [seq, batch, groups, queries of a group with their key and value] */
static bool is_packed(const struct tensor *x, int64_t heads, int64_t size)
{
    return x->dims == 4 && x->sizes[2] > 0 && heads % x->sizes[2] == 0 &&
           x->sizes[3] == (heads / x->sizes[2] + 2) * size;
}

/* is_query() - [seq, batch, heads, size] */
static bool is_query(const struct tensor *x, int64_t heads, int64_t size)
{
    return x->dims == 4 && x->sizes[2] == heads && x->sizes[3] == size;
}

/* ring() - under context parallelism, of three that are contiguous */
static struct tensor *ring(struct ghost *g, const struct op_args *args)
{
    const struct tensor *query = args->in[0], *key = args->in[1], *value = args->in[2];

    if (args->in_count != INPUTS_MOST || !key || !value)
        return ghost_fail(g, PLM_E_MODEL, "parts of sequences come as query, key and value");
    if (key->dims != query->dims || value->dims != query->dims || query->sizes[0] % 2 != 0 ||
        key->sizes[0] != query->sizes[0] || value->sizes[0] != query->sizes[0] ||
        key->sizes[2] != value->sizes[2])
        return ghost_fail(g, PLM_E_MODEL,
                          "query, key and value must have two chunks of one length on each rank");
    return attention_fused_ring(&args->ring, args->in);
}

void op_fused_attention(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    int64_t heads = op_int(args, KEY_QUERY_HEADS), size = op_int(args, KEY_SIZE);
    struct tensor *x = args->in[0];
    uint32_t count = args->in_count;
    char text[TENSOR_TEXT];

    if (!x || (count != 1 && count != INPUTS_MOST)) {
        ghost_fail(g, PLM_E_MODEL, "takes one packed input, or query, key and value");
        return;
    }
    if (!(count == 1 ? is_packed(x, heads, size) : is_query(x, heads, size))) {
        ghost_fail(g, PLM_E_MODEL, "%s does not go with %lld heads of %lld", tensor_text(x, text),
                   (long long)heads, (long long)size);
        return;
    }
    if (x->dtype != DTYPE_FLOAT16 && x->dtype != DTYPE_BFLOAT16) {
        ghost_fail(g, PLM_E_USAGE,
                   "Transformer Engine's fused attention takes --precision bf16 and fp16 only");
        return;
    }
    if (args->ring.size > 1) {
        ret[0] = ring(g, args);
        return;
    }
    struct node *n = node_new(g, &fused_backward, args->in, count, SAVED_COUNT, 0);
    struct tensor *out = tensor_new_sizes(g, x->dtype, x->sizes[0], x->sizes[1], heads * size);
    TENSOR_AUTO *statistics = tensor_new_sizes(g, DTYPE_FLOAT32, x->sizes[1], heads, x->sizes[0]);
    TENSOR_AUTO *random = tensor_new_sizes(g, DTYPE_INT64, 2);

    for (uint32_t i = 0; i < count; i++)
        node_save(n, i, args->in[i]);
    node_save_output(n, SAVED_OUTPUT, out);
    node_save_output(n, SAVED_STATISTICS, statistics);
    node_save_output(n, SAVED_RANDOM, random);
    ret[0] = node_attach(n, out);
}
