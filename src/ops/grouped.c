/*
 * ops/grouped.c - products of groups of rows with a matrix each
 *
 * Mirrors native/cuda/GroupedBlas.cpp and GroupMM.cu of PyTorch 2.15: one CUTLASS kernel of bfloat16 on compute capability 9.0
 * and 10.0, with its arguments and descriptors in device memory; elsewhere one product for each group that has
 * rows. Which they are depends on values, so the model says how many.
 */
#include "ghost/kernels.h"
#include "ops/blas.h"
#include "ops/ops.h"

enum { SAVED_ROWS, SAVED_MATRICES, SAVED_ENDS, SAVED_COUNT };

/* grouped_scratch() - what a call takes beside its output; @of_matrices: the gradient of the matrices */
static void grouped_scratch(struct ghost *g,
                            const struct tensor *matrices,
                            int64_t calls,
                            bool of_matrices)
{
    enum { ARGUMENTS = 60 }; /* of a group: sizes, pointers, strides */
    int cc = g->around.cc;

    if (matrices->dtype != DTYPE_BFLOAT16 || (cc != 90 && cc != 100)) {
        for (int64_t i = 0; i < calls && !g->halt; i++)
            blas_workspace(g);
        return;
    }
    /* tensor maps for each SM; on 10.0 as measured on 148 SMs */
    int64_t each = cc == 90 ? 512 : of_matrices ? 5888 : 5376;
    enum category outer = g->category;

    g->category = CATEGORY_TEMPORARY;
    TENSOR_AUTO *arguments = tensor_new_bytes(g, (plm_bytes)(ARGUMENTS * matrices->sizes[0]));
    TENSOR_AUTO *maps = tensor_new_bytes(g, (plm_bytes)(each * g->around.sm_count));

    g->category = outer;
}

/* _grouped_mm_mat2_backward(), then _grouped_mm_mat1_backward(): both in the layout of what they are the gradient of */
static void grouped_apply(struct ghost *g,
                          struct node *n,
                          struct tensor *const *grads,
                          struct tensor **ret)
{
    TENSOR_AUTO *rows = node_saved(n, SAVED_ROWS);
    TENSOR_AUTO *matrices = node_saved(n, SAVED_MATRICES);
    TENSOR_AUTO *ends = node_saved(n, SAVED_ENDS);

    (void)grads;
    if (!rows || !matrices || !ends)
        return;
    if (node_needs(n, 1)) {
        ret[1] = tensor_like(g, matrices, matrices->dtype);
        grouped_scratch(g, matrices, n->numbers[0], true);
    }
    if (node_needs(n, 0)) {
        ret[0] = tensor_like(g, rows, rows->dtype);
        grouped_scratch(g, matrices, n->numbers[0], false);
    }
}

static const struct backward grouped_backward = { "GroupedMmBackward0", grouped_apply };

void op_grouped_mm(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *rows = args->in[0], *matrices = args->in[1], *ends = args->in[2];
    int64_t calls = op_int(args, KEY_CALLS);
    char a[TENSOR_TEXT], b[TENSOR_TEXT];

    if (!rows || !matrices || !ends)
        return;
    if (rows->dims != 2 || matrices->dims != 3 || rows->sizes[1] != matrices->sizes[1] ||
        ends->dims != 1 || ends->sizes[0] != matrices->sizes[0]) {
        ghost_fail(g, PLM_E_MODEL,
                   "%s rows and %s matrices do not fit, or there is not an end for each",
                   tensor_text(rows, a), tensor_text(matrices, b));
        return;
    }
    if (rows->dtype != matrices->dtype || ends->dtype != DTYPE_INT32) {
        ghost_fail(g, PLM_E_MODEL, "of %s, %s and %s; two of one type and int32 were expected",
                   dtype_defs[rows->dtype].name, dtype_defs[matrices->dtype].name,
                   dtype_defs[ends->dtype].name);
        return;
    }
    struct node *n = node_new(g, &grouped_backward, args->in, 2, SAVED_COUNT, 1);

    node_save(n, SAVED_ROWS, rows);
    node_save(n, SAVED_MATRICES, matrices);
    node_save(n, SAVED_ENDS, ends);
    if (n)
        n->numbers[0] = calls;
    ret[0] = node_attach(n, tensor_new_sizes(g, rows->dtype, rows->sizes[0], matrices->sizes[2]));
    grouped_scratch(g, matrices, calls, false);
}
