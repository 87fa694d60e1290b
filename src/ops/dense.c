/*
 * ops/dense.c - matrix products, and the workspaces of cuBLAS and cuBLASLt
 *
 * Mirrors aten/src/ATen/native/LinearAlgebra.cpp (matmul), Linear.cpp, cuda/Blas.cpp and the formulas of
 * FunctionsManual.cpp (mm_mat1_grad, mm_mat2_grad). A product takes, in order: its output, a copy of each operand
 * whose strides cuBLAS cannot read, the workspace; and gives the last two back when it returns.
 */
#include <string.h>

#include "base/num.h"
#include "ghost/autocast.h"
#include "ghost/kernels.h"
#include "ops/collective.h"
#include "ops/dense.h"
#include "ops/ops.h"
#include "ops/pointwise.h"
#include "ops/views.h"

/* CublasHandlePool.cpp, parseChosenWorkspaceSize(): ":4096:2:16:8", and 32 MiB since Hopper */
static const plm_bytes blas_bytes = 2 * 4096 * 1024 + 8 * 16 * 1024;
static const plm_bytes blas_bytes_hopper = 8 * 4096 * 1024;
/* CUDABlas.cpp, CUBLASLT_WORKSPACE_SIZE: 1024 KiB */
static const plm_bytes lt_bytes = 1024 * 1024;

/* keep_workspace() - where the version caches workspaces, a thread's first call allocates it for good */
static void keep_workspace(struct ghost *g, struct tensor **kept, plm_bytes bytes)
{
    enum category outer = g->category;

    if (*kept)
        return;
    g->category = CATEGORY_WORKSPACE;
    *kept = tensor_new_bytes(g, bytes);
    g->category = outer;
}

void dense_blas_workspace(struct ghost *g)
{
    int major = g->around.cc / 10;
    bool large = major == 9 || (major >= 10 && g->around.framework->blackwell_32mib);
    plm_bytes bytes = large ? blas_bytes_hopper : blas_bytes;

    if (g->around.framework->blas_cached)
        keep_workspace(g, &g->blas_workspace[g->thread], bytes);
    else
        ghost_workspace(g, bytes);
}

void dense_lt_workspace(struct ghost *g)
{
    /* cuBLASLt's handle is cuBLAS's, and asking for that sets up its workspace where it is cached */
    if (g->around.framework->blas_cached)
        dense_blas_workspace(g);
    if (g->around.framework->lt_cached)
        keep_workspace(g, &g->lt_workspace[g->thread], lt_bytes);
    else
        ghost_workspace(g, lt_bytes);
}

/* ------------------------------------------------------------------ kernels, without autograd */

/* blas_copy() - a clone of a matrix (the last two dimensions) that cuBLAS cannot read; NULL for one that it can */
static struct tensor *blas_copy(struct tensor *x)
{
    unsigned rows = x->dims - 2, columns = x->dims - 1;
    int64_t row = x->strides[rows], column = x->strides[columns];
    int64_t height = x->sizes[rows], width = x->sizes[columns];

    if ((row == 1 && column >= (height > 1 ? height : 1)) ||
        (column == 1 && row >= (width > 1 ? width : 1)))
        return NULL;
    if (x->dims == 2 ? tensor_is_dense(x) : tensor_is_contiguous(x) && row != 0 && column != 0)
        return NULL;
    return tensor_new(x->ghost, x->dtype, x->dims, x->sizes);
}

/* product() - [.., m, k] times [.., k, n]: sizes are right; @lt: the product goes through cuBLASLt */
static struct tensor *product(struct tensor *a, struct tensor *b, bool lt)
{
    struct ghost *g = a->ghost;
    int64_t sizes[TENSOR_DIMS];

    memcpy(sizes, a->sizes, a->dims * sizeof *sizes);
    sizes[a->dims - 1] = b->sizes[b->dims - 1];
    struct tensor *out = tensor_new(g, a->dtype, a->dims, sizes);

    if (!out || tensor_numel(out) == 0 || a->sizes[a->dims - 1] == 0)
        return out;
    enum category outer = g->category;

    g->category = CATEGORY_TEMPORARY;
    /* the output is row-major and cuBLAS column-major: b is its first operand */
    TENSOR_AUTO *copy_b = blas_copy(b);
    TENSOR_AUTO *copy_a = blas_copy(a);

    g->category = outer;
    if (lt)
        dense_lt_workspace(g);
    else
        dense_blas_workspace(g);
    return out;
}

static struct tensor *turned(struct tensor *x)
{
    struct tensor *y = x ? tensor_view(x, x->dims, x->sizes, x->strides) : NULL;

    if (y) {
        unsigned d = y->dims - 2;

        y->sizes[d] = x->sizes[d + 1];
        y->sizes[d + 1] = x->sizes[d];
        y->strides[d] = x->strides[d + 1];
        y->strides[d + 1] = x->strides[d];
    }
    return y;
}

static bool column_major(const int64_t *sizes, const int64_t *strides)
{
    return strides[0] == 1 && strides[1] == sizes[0];
}

/* mm_mat1_grad(), mm_mat2_grad(): the gradient has the layout of the operand */
static struct tensor *mm_left_gradient(struct tensor *grad, struct tensor *b, const int64_t *layout)
{
    if (column_major(layout, layout + 2)) {
        TENSOR_AUTO *grad_t = turned(grad);
        TENSOR_AUTO *out = b ? product(b, grad_t, false) : NULL;

        return turned(out);
    }
    TENSOR_AUTO *b_t = turned(b);

    return b_t ? product(grad, b_t, false) : NULL;
}

static struct tensor *mm_right_gradient(struct tensor *grad,
                                        struct tensor *a,
                                        const int64_t *layout)
{
    if (column_major(layout, layout + 2)) {
        TENSOR_AUTO *grad_t = turned(grad);
        TENSOR_AUTO *out = grad_t && a ? product(grad_t, a, false) : NULL;

        return turned(out);
    }
    TENSOR_AUTO *a_t = turned(a);

    return a_t ? product(a_t, grad, false) : NULL;
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
    return node_attach(n, product(a, b, false));
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
    return node_attach(n, product(a, b, uses_lt(bias, a, b)));
}

/* ------------------------------------------------------------------ bmm, baddbmm */

/* batch_product() - bmm without autograd; an outer product may have a kernel of its own, which reads any strides */
static struct tensor *batch_product(struct tensor *a, struct tensor *b)
{
    if (a->sizes[2] == 1 && a->ghost->around.framework->bmm_outer_kernel)
        return tensor_new_sizes(a->ghost, a->dtype, a->sizes[0], a->sizes[1], b->sizes[2]);
    return product(a, b, false);
}

static struct tensor *bmm_left_gradient(struct tensor *grad, struct tensor *b)
{
    TENSOR_AUTO *b_t = turned(b);

    return b_t ? batch_product(grad, b_t) : NULL;
}

static struct tensor *bmm_right_gradient(struct tensor *grad, struct tensor *a)
{
    TENSOR_AUTO *a_t = turned(a);

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

static void baddbmm_apply(struct ghost *g,
                          struct node *n,
                          struct tensor *const *grads,
                          struct tensor **ret)
{
    TENSOR_AUTO *a = node_saved(n, 0);
    TENSOR_AUTO *b = node_saved(n, 1);

    if (node_needs(n, 1))
        ret[1] = bmm_left_gradient(grads[0], b);
    if (node_needs(n, 2))
        ret[2] = bmm_right_gradient(grads[0], a);
    if (node_needs(n, 0))
        ret[0] = tensor_ref(grads[0]);
}

static const struct backward baddbmm_backward = { "BaddbmmBackward0", baddbmm_apply };

static struct tensor *baddbmm(struct tensor *bias, struct tensor *a, struct tensor *b)
{
    if (!bias || !a || !b || !check_batches(a->ghost, a, b))
        return NULL;
    struct node *n =
        node_new(a->ghost, &baddbmm_backward, (struct tensor *[]){ bias, a, b }, 3, 2, 0);

    if (node_needs(n, 2))
        node_save(n, 0, a);
    if (node_needs(n, 1))
        node_save(n, 1, b);
    return node_attach(n, product(a, b, false));
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
        dense_blas_workspace(g);
    }
}

static const struct backward mv_backward = { "MvBackward0", mv_apply };

static struct tensor *mv(struct tensor *a, struct tensor *v)
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

    dense_blas_workspace(g);
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

static struct tensor *dot(struct tensor *a, struct tensor *b)
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

    dense_blas_workspace(g);
    return node_attach(n, out);
}

/* ------------------------------------------------------------------ matmul */

/* should_fold(): one matrix product in place of a batch of them */
static bool should_fold(const struct tensor *a, const struct tensor *b)
{
    bool a_larger = a->dims >= b->dims;
    const struct tensor *large = a_larger ? a : b, *small = a_larger ? b : a;
    int64_t sizes[TENSOR_DIMS], strides[TENSOR_DIMS];

    if (large->dims < 3 || small->dims > 2)
        return false;
    if (small->requires_grad)
        return true;
    if (a->dims == 2)
        return false;
    if (tensor_numel(large) == 0)
        return true;
    memcpy(sizes, large->sizes, sizeof sizes);
    memcpy(strides, large->strides, sizeof strides);
    if (!a_larger) { /* mT() */
        unsigned d = large->dims - 2;

        sizes[d] = large->sizes[d + 1];
        strides[d] = large->strides[d + 1];
    }
    for (unsigned i = 0; i + 2 < large->dims; i++)
        if (strides[i] != strides[i + 1] * sizes[i + 1])
            return false;
    return true;
}

static struct tensor *fold(struct tensor *a, struct tensor *b)
{
    bool transpose = b->dims > a->dims;
    TENSOR_AUTO *large = transpose ? view_transpose(b, -2, -1) : tensor_ref(a);
    TENSOR_AUTO *small = !transpose ? tensor_ref(b) : a->dims == 2 ? view_t(a) : tensor_ref(a);

    if (!large || !small)
        return NULL;
    unsigned dims = large->dims;
    int64_t sizes[TENSOR_DIMS], rows = 1;

    for (unsigned i = 0; i + 1 < dims; i++) {
        sizes[i] = large->sizes[i];
        rows *= sizes[i];
    }
    TENSOR_AUTO *folded = view_reshape(large, 2, (int64_t[]){ rows, large->sizes[dims - 1] });

    if (!folded)
        return NULL;
    if (small->dims == 1) {
        TENSOR_AUTO *out = mv(folded, small);

        return view_unsafe(out, dims - 1, sizes);
    }
    sizes[dims - 1] = small->sizes[1];
    TENSOR_AUTO *out = dense_mm(folded, small);
    TENSOR_AUTO *shaped = view_unsafe(out, dims, sizes);

    if (!transpose)
        return tensor_take(&shaped);
    TENSOR_AUTO *back = view_transpose(shaped, -2, -1);

    return view_contiguous(back);
}

/* batches() - expand the leading dimensions to @shape and flatten them: [product, rows, columns] */
static struct tensor *batches(struct tensor *x, unsigned dims, const int64_t *shape, int64_t count)
{
    int64_t sizes[TENSOR_DIMS];
    int64_t rows = x->dims > 1 ? x->sizes[x->dims - 2] : 1, columns = x->sizes[x->dims - 1];

    if (dims + 2 > TENSOR_DIMS)
        return ghost_fail(x->ghost, PLM_E_MODEL, "too many dimensions to multiply");
    if (dims > 0)
        memcpy(sizes, shape, dims * sizeof *sizes);
    sizes[dims] = rows;
    sizes[dims + 1] = columns;
    TENSOR_AUTO *expanded = view_expand(x, dims + 2, sizes);

    return view_reshape(expanded, 3, (int64_t[]){ count, rows, columns });
}

static struct tensor *broadcast_bmm(struct tensor *a, struct tensor *b)
{
    struct ghost *g = a->ghost;
    unsigned a_lead = a->dims > 2 ? a->dims - 2 : 0, b_lead = b->dims > 2 ? b->dims - 2 : 0;
    unsigned dims = a_lead > b_lead ? a_lead : b_lead;
    int64_t shape[TENSOR_DIMS], count = 1;

    for (unsigned i = 0; i < dims; i++) {
        int64_t x = i + a_lead >= dims ? a->sizes[i + a_lead - dims] : 1;
        int64_t y = i + b_lead >= dims ? b->sizes[i + b_lead - dims] : 1;

        if (x != y && x != 1 && y != 1) {
            char at[TENSOR_TEXT], bt[TENSOR_TEXT];

            return ghost_fail(g, PLM_E_MODEL, "the leading sizes of %s and %s do not go together",
                              tensor_text(a, at), tensor_text(b, bt));
        }
        shape[i] = x == 1 ? y : x;
        if (!num_mul(count, shape[i], &count))
            return ghost_fail(g, PLM_E_RANGE, "a tensor has more than 2^60 elements");
    }
    TENSOR_AUTO *left = batches(a, dims, shape, count);
    TENSOR_AUTO *column = b->dims == 1 ? view_unsqueeze(b, 1) : tensor_ref(b);
    TENSOR_AUTO *right = column ? batches(column, dims, shape, count) : NULL;
    TENSOR_AUTO *out = dense_bmm(left, right);

    if (a->dims > 1)
        shape[dims++] = a->sizes[a->dims - 2];
    if (b->dims > 1)
        shape[dims++] = b->sizes[b->dims - 1];
    return view_unsafe(out, dims, shape);
}

struct tensor *dense_matmul(struct tensor *a, struct tensor *b)
{
    if (!a || !b)
        return NULL;
    if (a->dims == 0 || b->dims == 0)
        return ghost_fail(a->ghost, PLM_E_MODEL,
                          "a scalar cannot be multiplied as a matrix; use mul");
    if (a->dims == 1 && b->dims == 1)
        return dot(a, b);
    if (a->dims == 2 && b->dims == 1)
        return mv(a, b);
    if (a->dims == 1 && b->dims == 2) {
        TENSOR_AUTO *row = view_unsqueeze(a, 0);
        TENSOR_AUTO *out = dense_mm(row, b);

        return view_squeeze(out, 0);
    }
    if (a->dims == 2 && b->dims == 2)
        return dense_mm(a, b);
    if (should_fold(a, b))
        return fold(a, b);
    if (a->dims == 3 && b->dims == 3 && a->sizes[0] != b->sizes[0]) {
        /* broadcasting one of them would make its gradient as large as the other's batch */
        if (a->sizes[0] == 1 && a->requires_grad) {
            TENSOR_AUTO *matrix = view_squeeze(a, 0);

            return dense_matmul(matrix, b);
        }
        if (b->sizes[0] == 1 && b->requires_grad) {
            TENSOR_AUTO *matrix = view_squeeze(b, 0);

            return dense_matmul(a, matrix);
        }
    }
    return broadcast_bmm(a, b);
}

/* ------------------------------------------------------------------ linear */

/* _flatten_nd_linear() */
static struct tensor *flat_linear(struct tensor *x, struct tensor *weight, struct tensor *bias)
{
    int64_t sizes[TENSOR_DIMS], rows = 1;

    memcpy(sizes, x->sizes, sizeof sizes);
    for (unsigned i = 0; i + 1 < x->dims; i++)
        rows *= sizes[i];
    sizes[x->dims - 1] = weight->sizes[0];
    TENSOR_AUTO *flat = view_reshape(x, 2, (int64_t[]){ rows, x->sizes[x->dims - 1] });
    TENSOR_AUTO *weight_t = view_t(weight);
    TENSOR_AUTO *out = dense_addmm(bias, flat, weight_t);

    return view_unsafe(out, x->dims, sizes);
}

struct tensor *dense_linear(struct tensor *x, struct tensor *weight, struct tensor *bias)
{
    if (!x || !weight)
        return NULL;
    if (bias && x->dims == 2) {
        TENSOR_AUTO *weight_t = view_t(weight);

        return dense_addmm(bias, x, weight_t);
    }
    if (bias && tensor_is_contiguous(x))
        return flat_linear(x, weight, bias);
    TENSOR_AUTO *weight_t = view_t(weight);
    struct tensor *out = dense_matmul(x, weight_t);

    if (!bias)
        return out;
    struct tensor *sum = pointwise_add_inplace(out, bias);

    tensor_drop(out);
    return sum;
}

/* split_features() - the part of one rank */
static bool split_features(struct ghost *g, int64_t ranks, int64_t *features)
{
    if (*features % ranks != 0) {
        ghost_fail(g, PLM_E_USAGE, "%lld features cannot be split evenly over %lld ranks",
                   (long long)*features, (long long)ranks);
        return false;
    }
    *features /= ranks;
    return true;
}

void op_linear(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0];
    int64_t features = op_int(args, KEY_FEATURES);

    if (!x || x->dims == 0) {
        ghost_fail(g, PLM_E_MODEL, "an input of at least one dimension was expected");
        return;
    }
    if (args->shard == SHARD_COLUMN && !split_features(g, args->ranks, &features))
        return;
    struct tensor *weight =
        op_own_parameter(args, 0, "weight", 2, (int64_t[]){ features, x->sizes[x->dims - 1] });
    struct tensor *bias =
        op_int(args, KEY_BIAS) ? op_own_parameter(args, 1, "bias", 1, &features) : NULL;

    if (!weight)
        return;
    if (weight->sizes[1] != x->sizes[x->dims - 1]) {
        ghost_fail(g, PLM_E_MODEL, "the input's last size is %lld; the weight expects %lld",
                   (long long)x->sizes[x->dims - 1], (long long)weight->sizes[1]);
        return;
    }
    TENSOR_AUTO *input = args->shard == SHARD_COLUMN ? collective_enter(x) : tensor_ref(x);
    struct tensor *t[] = { input, weight, bias };
    bool was_active = autocast_cast(g, op_defs[OP_LINEAR].cast, t, 3);
    TENSOR_AUTO *y = dense_linear(t[0], t[1], t[2]);

    autocast_restore(g, was_active, t, 3);
    ret[0] = args->shard == SHARD_ROW ? collective_reduce(y) : tensor_take(&y);
}

void op_addmm(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    ret[0] = dense_addmm(args->in[0], args->in[1], args->in[2]);
}

void op_matmul(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    ret[0] = dense_matmul(args->in[0], args->in[1]);
}

void op_bmm(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    ret[0] = dense_bmm(args->in[0], args->in[1]);
}

void op_baddbmm(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    ret[0] = baddbmm(args->in[0], args->in[1], args->in[2]);
}

void op_linear_with(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0], *weight = args->in[1];
    struct tensor *bias = args->in_count > 2 ? args->in[2] : NULL;
    char xt[TENSOR_TEXT], wt[TENSOR_TEXT];

    if (!x || !weight)
        return;
    if (x->dims == 0 || weight->dims != 2 || weight->sizes[1] != x->sizes[x->dims - 1])
        ret[0] =
            ghost_fail(g, PLM_E_MODEL,
                       "an input %s does not go with a weight %s; the last sizes must be equal",
                       tensor_text(x, xt), tensor_text(weight, wt));
    else
        ret[0] = dense_linear(x, weight, bias);
}
