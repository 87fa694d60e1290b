/*
 * ops/dense.c - products of matrices, of batches of them, and of vectors, recorded
 *
 * Gradients follow FunctionsManual.cpp (mm_mat1_grad, mm_mat2_grad): the gradient of a column-major operand is column-major.
 */
#include <string.h>

#include "base/num.h"
#include "ghost/kernels.h"
#include "ghost/selective.h"
#include "ops/blas.h"
#include "ops/dense.h"
#include "ops/ops.h"

static bool column_major(const int64_t *sizes, const int64_t *strides)
{
    return strides[0] == 1 && strides[1] == sizes[0];
}

/* mm_mat1_grad(), mm_mat2_grad(): the gradient has the layout of the operand */
static struct tensor *mm_left_gradient(struct tensor *grad, struct tensor *b, const int64_t *layout)
{
    if (column_major(layout, layout + 2)) {
        TENSOR_AUTO *grad_t = blas_turned(grad);
        TENSOR_AUTO *out = b ? blas_product(b, grad_t, false) : NULL;

        return blas_turned(out);
    }
    TENSOR_AUTO *b_t = blas_turned(b);

    return b_t ? blas_product(grad, b_t, false) : NULL;
}

static struct tensor *mm_right_gradient(struct tensor *grad,
                                        struct tensor *a,
                                        const int64_t *layout)
{
    if (column_major(layout, layout + 2)) {
        TENSOR_AUTO *grad_t = blas_turned(grad);
        TENSOR_AUTO *out = grad_t && a ? blas_product(grad_t, a, false) : NULL;

        return blas_turned(out);
    }
    TENSOR_AUTO *a_t = blas_turned(a);

    return a_t ? blas_product(a_t, grad, false) : NULL;
}

/* ------------------------------------------------------------------ mm, addmm */

enum { LAYOUT = 4 }; /* sizes and strides of a matrix among a node's numbers */

static void note_layout(struct node *n, uint32_t first, const struct tensor *x)
{
    if (!n)
        return;
    memcpy(n->numbers + first, x->sizes, 2 * sizeof *x->sizes);
    memcpy(n->numbers + first + 2, x->strides, 2 * sizeof *x->strides);
}

static bool check_product(struct ghost *g, const struct tensor *a, const struct tensor *b)
{
    char at[TENSOR_TEXT], bt[TENSOR_TEXT];

    if (!a || !b)
        return false;
    if (a->sizes[a->dims - 1] != b->sizes[b->dims - 2]) {
        ghost_fail(
            g, PLM_E_MODEL,
            "sizes %s and %s cannot be multiplied: the last of the first must equal the last "
            "but one of the second",
            tensor_text(a, at), tensor_text(b, bt));
        return false;
    }
    if (a->dtype != b->dtype) {
        ghost_fail(g, PLM_E_MODEL, "types %s and %s cannot be multiplied; they must be the same",
                   dtype_defs[a->dtype].name, dtype_defs[b->dtype].name);
        return false;
    }
    return true;
}

static void mm_apply(struct ghost *g,
                     struct node *n,
                     struct tensor *const *grads,
                     struct tensor **ret)
{
    TENSOR_AUTO *b = node_saved(n, 1);
    TENSOR_AUTO *a = node_saved(n, 0);

    if (node_needs(n, 1))
        ret[1] = mm_right_gradient(grads[0], a, n->numbers + LAYOUT);
    if (node_needs(n, 0))
        ret[0] = mm_left_gradient(grads[0], b, n->numbers);
}

static const struct backward mm_backward = { "MmBackward0", mm_apply };

/* product() - or the one that a checkpoint has kept */
static struct tensor *product(struct tensor *a, struct tensor *b)
{
    struct tensor *out = NULL;

    if (!selective_take(a->ghost, SELECTED_PRODUCT, &out, 1)) {
        out = blas_product(a, b, false);
        selective_keep(a->ghost, SELECTED_PRODUCT, &out, 1);
    }
    return out;
}

struct tensor *dense_mm(struct tensor *a, struct tensor *b)
{
    struct ghost *g = a ? a->ghost : NULL;

    if (!a || !b || !check_product(g, a, b))
        return NULL;
    struct node *n = node_new(g, &mm_backward, (struct tensor *[]){ a, b }, 2, 2, 2 * LAYOUT);

    note_layout(n, 0, a);
    note_layout(n, LAYOUT, b);
    if (node_needs(n, 1))
        node_save(n, 0, a);
    if (node_needs(n, 0))
        node_save(n, 1, b);
    return node_attach(n, product(a, b));
}

static void addmm_apply(struct ghost *g,
                        struct node *n,
                        struct tensor *const *grads,
                        struct tensor **ret)
{
    TENSOR_AUTO *a = node_saved(n, 0);
    TENSOR_AUTO *b = node_saved(n, 1);

    if (node_needs(n, 1))
        ret[1] = mm_left_gradient(grads[0], b, n->numbers);
    if (node_needs(n, 2))
        ret[2] = mm_right_gradient(grads[0], a, n->numbers + LAYOUT);
    if (node_needs(n, 0))
        ret[0] = tensor_ref(grads[0]); /* the engine sums it to the bias's size */
}

static const struct backward addmm_backward = { "AddmmBackward0", addmm_apply };

/* Blas.cpp, isInputCompliesAddmmCudaLt() */
static bool uses_lt(const struct tensor *bias, const struct tensor *a, const struct tensor *b)
{
    int64_t k = a->sizes[1], n = b->sizes[1];

    if (bias->dims == 1)
        return tensor_is_contiguous(bias) && bias->sizes[0] == n && k > 1 && n > 1;
    return bias->dims == 2 && tensor_itemsize(a) == 2;
}

struct tensor *dense_addmm(struct tensor *bias, struct tensor *a, struct tensor *b)
{
    struct ghost *g = a ? a->ghost : NULL;

    if (!bias || !a || !b)
        return NULL;
    if (a->dims != 2 || b->dims != 2)
        return ghost_fail(g, PLM_E_MODEL, "matrices were expected; they have %u and %u dimensions",
                          a->dims, b->dims);
    if (!check_product(g, a, b))
        return NULL;
    if (bias->dims > 2 || (bias->dims > 0 && bias->sizes[bias->dims - 1] != b->sizes[1] &&
                           bias->sizes[bias->dims - 1] != 1)) {
        char text[TENSOR_TEXT];

        return ghost_fail(g, PLM_E_MODEL, "a bias of sizes %s does not go with %lld columns",
                          tensor_text(bias, text), (long long)b->sizes[1]);
    }
    struct node *n =
        node_new(g, &addmm_backward, (struct tensor *[]){ bias, a, b }, 3, 2, 2 * LAYOUT);

    note_layout(n, 0, a);
    note_layout(n, LAYOUT, b);
    if (node_needs(n, 2))
        node_save(n, 0, a);
    if (node_needs(n, 1))
        node_save(n, 1, b);
    return node_attach(n, blas_product(a, b, uses_lt(bias, a, b)));
}

/* ------------------------------------------------------------------ bmm, baddbmm */

/* batch_product() - bmm without autograd; an outer product may have a kernel of its own, which reads any strides */
static struct tensor *batch_product(struct tensor *a, struct tensor *b)
{
    if (a->sizes[2] == 1 && a->ghost->around.framework->bmm_outer_kernel)
        return tensor_new_sizes(a->ghost, a->dtype, a->sizes[0], a->sizes[1], b->sizes[2]);
    return blas_product(a, b, false);
}

static struct tensor *bmm_left_gradient(struct tensor *grad, struct tensor *b)
{
    TENSOR_AUTO *b_t = blas_turned(b);

    return b_t ? batch_product(grad, b_t) : NULL;
}

static struct tensor *bmm_right_gradient(struct tensor *grad, struct tensor *a)
{
    TENSOR_AUTO *a_t = blas_turned(a);

    return a_t ? batch_product(a_t, grad) : NULL;
}

static void bmm_apply(struct ghost *g,
                      struct node *n,
                      struct tensor *const *grads,
                      struct tensor **ret)
{
    TENSOR_AUTO *b = node_saved(n, 1);
    TENSOR_AUTO *a = node_saved(n, 0);

    if (node_needs(n, 1))
        ret[1] = bmm_right_gradient(grads[0], a);
    if (node_needs(n, 0))
        ret[0] = bmm_left_gradient(grads[0], b);
}

static const struct backward bmm_backward = { "BmmBackward0", bmm_apply };

static bool check_batches(struct ghost *g, const struct tensor *a, const struct tensor *b)
{
    char at[TENSOR_TEXT], bt[TENSOR_TEXT];

    if (a->dims != 3 || b->dims != 3 || a->sizes[0] != b->sizes[0]) {
        ghost_fail(g, PLM_E_MODEL, "sizes %s and %s are not two batches of as many matrices",
                   tensor_text(a, at), tensor_text(b, bt));
        return false;
    }
    return check_product(g, a, b);
}

struct tensor *dense_bmm(struct tensor *a, struct tensor *b)
{
    if (!a || !b || !check_batches(a->ghost, a, b))
        return NULL;
    struct node *n = node_new(a->ghost, &bmm_backward, (struct tensor *[]){ a, b }, 2, 2, 0);

    if (node_needs(n, 1))
        node_save(n, 0, a);
    if (node_needs(n, 0))
        node_save(n, 1, b);
    return node_attach(n, batch_product(a, b));
}

/* multiplied() - maybe_multiply(x, alpha): a product of its own unless alpha is 1; takes @x over */
static struct tensor *multiplied(struct tensor *x, bool scales)
{
    if (!x || !scales)
        return x;
    struct tensor *product = tensor_like(x->ghost, x, x->dtype);

    tensor_drop(x);
    return product;
}

static void baddbmm_apply(struct ghost *g,
                          struct node *n,
                          struct tensor *const *grads,
                          struct tensor **ret)
{
    TENSOR_AUTO *a = node_saved(n, 0);
    TENSOR_AUTO *b = node_saved(n, 1);

    if (node_needs(n, 1))
        ret[1] = multiplied(bmm_left_gradient(grads[0], b), n->numbers[0]);
    if (node_needs(n, 2))
        ret[2] = multiplied(bmm_right_gradient(grads[0], a), n->numbers[0]);
    if (node_needs(n, 0))
        ret[0] = tensor_ref(grads[0]);
}

static const struct backward baddbmm_backward = { "BaddbmmBackward0", baddbmm_apply };

/* numbers: [0] is alpha other than 1? */
static struct tensor *baddbmm(struct tensor *bias, struct tensor *a, struct tensor *b, bool scales)
{
    if (!bias || !a || !b || !check_batches(a->ghost, a, b))
        return NULL;
    struct node *n =
        node_new(a->ghost, &baddbmm_backward, (struct tensor *[]){ bias, a, b }, 3, 2, 1);

    if (n)
        n->numbers[0] = scales;
    if (node_needs(n, 2))
        node_save(n, 0, a);
    if (node_needs(n, 1))
        node_save(n, 1, b);
    return node_attach(n, blas_product(a, b, false));
}

/* ------------------------------------------------------------------ mv, dot */

static void mv_apply(struct ghost *g,
                     struct node *n,
                     struct tensor *const *grads,
                     struct tensor **ret)
{
    TENSOR_AUTO *a = node_saved(n, 0);
    TENSOR_AUTO *v = node_saved(n, 1);

    if (node_needs(n, 0) && v) /* an outer product: element-wise */
        ret[0] = tensor_new_sizes(g, grads[0]->dtype, grads[0]->sizes[0], v->sizes[0]);
    if (node_needs(n, 1) && a) {
        ret[1] = tensor_new_sizes(g, a->dtype, a->sizes[1]);
        blas_workspace(g);
    }
}

static const struct backward mv_backward = { "MvBackward0", mv_apply };

struct tensor *dense_mv(struct tensor *a, struct tensor *v)
{
    struct ghost *g = a->ghost;
    char at[TENSOR_TEXT], vt[TENSOR_TEXT];

    if (a->sizes[1] != v->sizes[0])
        return ghost_fail(g, PLM_E_MODEL, "a matrix %s and a vector %s do not go together",
                          tensor_text(a, at), tensor_text(v, vt));
    struct node *n = node_new(g, &mv_backward, (struct tensor *[]){ a, v }, 2, 2, 0);

    if (node_needs(n, 1))
        node_save(n, 0, a);
    if (node_needs(n, 0))
        node_save(n, 1, v);
    struct tensor *out = tensor_new_sizes(g, a->dtype, a->sizes[0]);

    blas_workspace(g);
    return node_attach(n, out);
}

static void dot_apply(struct ghost *g,
                      struct node *n,
                      struct tensor *const *grads,
                      struct tensor **ret)
{
    TENSOR_AUTO *a = node_saved(n, 0);
    TENSOR_AUTO *b = node_saved(n, 1);

    if (node_needs(n, 0))
        ret[0] = tensor_like(g, b, grads[0]->dtype);
    if (node_needs(n, 1))
        ret[1] = tensor_like(g, a, grads[0]->dtype);
}

static const struct backward dot_backward = { "DotBackward0", dot_apply };

struct tensor *dense_dot(struct tensor *a, struct tensor *b)
{
    struct ghost *g = a->ghost;

    if (a->sizes[0] != b->sizes[0])
        return ghost_fail(g, PLM_E_MODEL, "vectors of %lld and %lld elements do not go together",
                          (long long)a->sizes[0], (long long)b->sizes[0]);
    struct node *n = node_new(g, &dot_backward, (struct tensor *[]){ a, b }, 2, 2, 0);

    if (node_needs(n, 1))
        node_save(n, 0, a);
    if (node_needs(n, 0))
        node_save(n, 1, b);
    struct tensor *out = tensor_new_scalar(g, a->dtype);

    blas_workspace(g);
    return node_attach(n, out);
}

void op_addmm(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    ret[0] = dense_addmm(args->in[0], args->in[1], args->in[2]);
}

void op_bmm(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    ret[0] = dense_bmm(args->in[0], args->in[1]);
}

void op_baddbmm(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    const struct attr *alpha = op_attr(args, KEY_SCALE);

    ret[0] = baddbmm(args->in[0], args->in[1], args->in[2], alpha && alpha->value.real != 1);
}
