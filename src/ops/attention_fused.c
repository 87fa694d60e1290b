/*
 * ops/attention_fused.c - attention as Transformer Engine's FusedAttention has it (cuDNN's kernels)
 *
 * Mirrors FusedAttnFunc of transformer_engine/pytorch/attention (2.x) for one packed input: it keeps the input, the output, the
 * softmax statistics in float32 and the random state; the gradient is packed like the input. The kernels' own workspaces are not
 * known here.
 */
#include "ops/ops.h"

enum { SAVED_INPUT, SAVED_OUTPUT, SAVED_STATISTICS, SAVED_RANDOM, SAVED_COUNT };

static void apply(struct ghost *g, struct node *n, struct tensor *const *grads, struct tensor **ret)
{
    TENSOR_AUTO *input = node_saved(n, SAVED_INPUT);

    if (input && node_needs(n, 0))
        ret[0] = tensor_new(g, input->dtype, input->dims, input->sizes);
}

static const struct backward fused_backward = { "FusedAttnFuncBackward", apply };

void op_fused_attention(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0];
    int64_t heads = op_int(args, KEY_QUERY_HEADS), size = op_int(args, KEY_SIZE);
    char text[TENSOR_TEXT];

    if (!x)
        return;
    if (x->dims != 4 || heads < 1 || size < 1 || x->sizes[2] < 1 || heads % x->sizes[2] != 0 ||
        x->sizes[3] != (heads / x->sizes[2] + 2) * size) {
        ghost_fail(g, PLM_E_MODEL, "%s is not [seq, batch, groups, (%lld / groups + 2) * %lld]",
                   tensor_text(x, text), (long long)heads, (long long)size);
        return;
    }
    struct node *n = node_new(g, &fused_backward, &x, 1, SAVED_COUNT, 0);
    struct tensor *out = tensor_new_sizes(g, x->dtype, x->sizes[0], x->sizes[1], heads * size);
    TENSOR_AUTO *statistics = tensor_new_sizes(g, DTYPE_FLOAT32, x->sizes[1], heads, x->sizes[0]);
    TENSOR_AUTO *random = tensor_new_sizes(g, DTYPE_INT64, 2);

    node_save(n, SAVED_INPUT, x);
    node_save_output(n, SAVED_OUTPUT, out);
    node_save_output(n, SAVED_STATISTICS, statistics);
    node_save_output(n, SAVED_RANDOM, random);
    ret[0] = node_attach(n, out);
}
