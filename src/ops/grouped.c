/*
 * ops/grouped.c - products of groups of rows with a matrix each
 *
 * Mirrors native/cuda/GroupedBlas.cpp and GroupMM.cu of PyTorch 2.15: one CUTLASS kernel of bfloat16 on compute capability 9.0
 * and 10.0, with its arguments and descriptors in device memory; elsewhere one product for each group that has
 * rows. Which they are depends on values, so the model says how many.
 */
#include <string.h>

#include "ghost/kernels.h"
#include "ops/blas.h"
#include "ops/ops.h"

enum { SAVED_ROWS, SAVED_MATRICES, SAVED_ENDS, SAVED_COUNT };
enum { CALLS, DTYPE, ROWS, MATRICES, INNER, OUTER, TRANSPOSED, NUMBER_COUNT };

/* grouped_scratch() - what a call takes beside its output, of which a group has @rows and @columns (rows: on average) */
static void grouped_scratch(struct ghost *g, const int64_t *numbers, int64_t rows, int64_t columns)
{
    enum {
        ARGUMENTS = 60, /* of a group: sizes, pointers, strides */
        SMALL = 128,    /* rows or columns up to which 10.0 has a kernel of smaller tiles */
    };
    int cc = g->around.cc;

    if (numbers[DTYPE] != DTYPE_BFLOAT16 || (cc != 90 && cc != 100)) {
        blas_calls(g, numbers[CALLS]);
        return;
    }
    /* tensor maps for each SM; on 10.0 as measured on 148 SMs, for 130 shapes */
    int64_t each = cc == 90 ? 512 : rows <= SMALL || columns <= SMALL ? 5376 : 5888;
    enum category outer = g->category;

    g->category = CATEGORY_TEMPORARY;
    TENSOR_AUTO *arguments = tensor_new_bytes(g, (plm_bytes)(ARGUMENTS * numbers[MATRICES]));
    TENSOR_AUTO *maps = tensor_new_bytes(g, (plm_bytes)(each * g->around.sm_count));

    g->category = outer;
}

static int64_t group_rows(const int64_t *numbers)
{
    return numbers[MATRICES] > 0 ? numbers[ROWS] / numbers[MATRICES] : 0;
}

/* matrices_gradient() - in the layout of the matrices, whose columns may be what is contiguous */
static struct tensor *matrices_gradient(struct ghost *g, const int64_t *numbers)
{
    int64_t count = numbers[MATRICES], inner = numbers[INNER], outer = numbers[OUTER];
    int64_t strides[] = { inner * outer, numbers[TRANSPOSED] ? 1 : outer,
                          numbers[TRANSPOSED] ? inner : 1 };

    return tensor_new_strided(g, (enum dtype)numbers[DTYPE], 3, (int64_t[]){ count, inner, outer },
                              strides);
}

/* _grouped_mm_mat2_backward(), then _grouped_mm_mat1_backward() */
static void grouped_apply(struct ghost *g,
                          struct node *n,
                          struct tensor *const *grads,
                          struct tensor **ret)
{
    const int64_t *numbers = n->numbers;
    TENSOR_AUTO *rows = node_needs(n, 1) ? node_saved(n, SAVED_ROWS) : NULL;
    TENSOR_AUTO *matrices = node_needs(n, 0) ? node_saved(n, SAVED_MATRICES) : NULL;
    TENSOR_AUTO *ends = node_saved(n, SAVED_ENDS);

    (void)grads;
    if (!ends || g->halt)
        return;
    if (node_needs(n, 1)) {
        ret[1] = matrices_gradient(g, numbers);
        grouped_scratch(g, numbers, numbers[OUTER], numbers[INNER]);
    }
    if (node_needs(n, 0)) {
        ret[0] = tensor_new_sizes(g, (enum dtype)numbers[DTYPE], numbers[ROWS], numbers[INNER]);
        grouped_scratch(g, numbers, group_rows(numbers), numbers[INNER]);
    }
}

static const struct backward grouped_backward = { "GroupedMmBackward0", grouped_apply };

static bool fits(struct ghost *g,
                 const struct tensor *rows,
                 const struct tensor *matrices,
                 const struct tensor *ends)
{
    char a[TENSOR_TEXT], b[TENSOR_TEXT];

    if (rows->dims != 2 || matrices->dims != 3 || rows->sizes[1] != matrices->sizes[1] ||
        ends->dims != 1 || ends->sizes[0] != matrices->sizes[0])
        ghost_fail(g, PLM_E_MODEL,
                   "%s rows and %s matrices do not fit, or there is not an end for each",
                   tensor_text(rows, a), tensor_text(matrices, b));
    else if (rows->dtype != matrices->dtype || ends->dtype != DTYPE_INT32)
        ghost_fail(g, PLM_E_MODEL, "of %s, %s and %s; two of one type and int32 were expected",
                   dtype_defs[rows->dtype].name, dtype_defs[matrices->dtype].name,
                   dtype_defs[ends->dtype].name);
    return !g->halt;
}

void op_grouped_mm(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *rows = args->in[0], *matrices = args->in[1], *ends = args->in[2];

    if (!rows || !matrices || !ends || !fits(g, rows, matrices, ends))
        return;
    const int64_t numbers[NUMBER_COUNT] = {
        [CALLS] = op_int(args, KEY_CALLS),
        [DTYPE] = (int64_t)rows->dtype,
        [ROWS] = rows->sizes[0],
        [MATRICES] = matrices->sizes[0],
        [INNER] = matrices->sizes[1],
        [OUTER] = matrices->sizes[2],
        [TRANSPOSED] = matrices->strides[2] != 1,
    };
    struct node *n = node_new(g, &grouped_backward, args->in, 2, SAVED_COUNT, NUMBER_COUNT);

    if (tensor_requires_grad(matrices))
        node_save(n, SAVED_ROWS, rows);
    if (tensor_requires_grad(rows))
        node_save(n, SAVED_MATRICES, matrices);
    node_save(n, SAVED_ENDS, ends);
    if (n)
        memcpy(n->numbers, numbers, sizeof numbers);
    ret[0] = node_attach(n, tensor_new_sizes(g, rows->dtype, rows->sizes[0], numbers[OUTER]));
    grouped_scratch(g, numbers, group_rows(numbers), numbers[OUTER]);
}
