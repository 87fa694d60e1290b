/*
 * ghost/tensor.h - ghosts of tensors: dtype, sizes, strides, and a counted reference to memory
 *
 * Ownership, once for the whole folder and for src/ops: a function borrows the tensors it is given and
 * returns a reference that the caller owns. tensor_drop() gives a reference back; the storage is freed (and
 * the schedule says so) with its last tensor. NULL is PyTorch's undefined tensor and is allowed everywhere.
 *
 * TENSOR_AUTO on a local drops it at the end of its scope, last declared first, which is the order in which
 * a C++ function's locals die.
 */
#ifndef PLM_GHOST_TENSOR_H
#define PLM_GHOST_TENSOR_H

#include "ghost/ghost.h"

enum { TENSOR_DIMS = 8 };

/* struct storage - a piece of device memory; refs counts tensors */
struct storage {
    plm_bytes bytes;
    uint32_t refs;
    uint32_t
        allocation; /* its number in the schedule; 0 when it holds no bytes or the run is mute */
};

struct tensor {
    struct ghost *ghost;
    struct storage *storage;
    struct node *grad_fn;     /* what made it, when autograd records; owned */
    struct node *accumulator; /* leaf: its AccumulateGrad node, while a graph has one; not owned */
    struct tensor *grad;      /* leaf: .grad; owned */
    uint32_t refs;
    uint32_t output_nr; /* which output of grad_fn it is */
    enum dtype dtype;
    bool requires_grad; /* of a leaf, as set; of others: grad_fn is set */
    bool view;          /* shares its storage with a base that it keeps alive */
    bool
        base_requires_grad; /* of a view, also one made under no_grad: Tensor.requires_grad says so */
    bool grad_dtype_set;    /* leaf: param.grad_dtype differs from its own type */
    enum dtype grad_dtype;
    bool channels_last; /* a parameter that Module.to(channels_last) laid out anew */
    unsigned dims;
    int64_t sizes[TENSOR_DIMS], strides[TENSOR_DIMS]; /* in elements */
};

/* tensor_new() - contiguous, uninitialised; fails when the size overflows or is negative */
struct tensor *tensor_new(struct ghost *g, enum dtype dtype, unsigned dims, const int64_t *sizes);

/* tensor_new_strided() - dense with these strides (a permutation of contiguous ones) */
struct tensor *tensor_new_strided(
    struct ghost *g, enum dtype dtype, unsigned dims, const int64_t *sizes, const int64_t *strides);

/* Shorthands: up to four sizes spelled out; a scalar of dtype (0-dim); @n raw bytes. */
#define tensor_new_sizes(g, dtype, ...)                                                            \
    tensor_new(g, dtype, sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t),                     \
               (int64_t[]){ __VA_ARGS__ })
struct tensor *tensor_new_scalar(struct ghost *g, enum dtype dtype);
struct tensor *tensor_new_bytes(struct ghost *g, plm_bytes bytes);

/*
 * tensor_like() - empty_like(x, dtype): the same layout when it is dense, else the same order of dimensions
 */
struct tensor *tensor_like(struct ghost *g, const struct tensor *x, enum dtype dtype);

/* tensor_view() - another shape over the same storage; autograd is not told */
struct tensor *tensor_view(struct tensor *x,
                           unsigned dims,
                           const int64_t *sizes,
                           const int64_t *strides);

/* tensor_detach() - the same memory and layout, outside of autograd (x.detach(), tensor_data()) */
struct tensor *tensor_detach(struct tensor *x);

/*
 * tensor_release_storage() - untyped_storage().resize_(0): the memory goes, every tensor over it stays
 * tensor_restore_storage() - the memory comes back, as large as before, on the current stream
 */
void tensor_release_storage(struct tensor *x);
void tensor_restore_storage(struct tensor *x);

/* tensor_renew_storage() - memory of the same size in place of what it has, if any: the new comes before the old goes */
void tensor_renew_storage(struct tensor *x);

/* tensor_set_data() - x.data = from: @x is over the memory of @from from now on, and lets go of its own */
void tensor_set_data(struct tensor *x, struct tensor *from);

/* tensor_resize() - x.resize_(sizes): contiguous, over the same memory, or over new memory where that is too small */
void tensor_resize(struct tensor *x, unsigned dims, const int64_t *sizes);

/* tensor_ref() - one more reference to the same tensor; returns @x */
struct tensor *tensor_ref(struct tensor *x);
void tensor_drop(struct tensor *x);

static inline void tensor_drop_local(struct tensor **local)
{
    tensor_drop(*local);
}
#define TENSOR_AUTO __attribute__((cleanup(tensor_drop_local), unused)) struct tensor

/* tensor_take() - hand over a local that TENSOR_AUTO would drop */
static inline struct tensor *tensor_take(struct tensor **local)
{
    struct tensor *taken = *local;

    *local = NULL;
    return taken;
}

int64_t tensor_numel(const struct tensor *x);
plm_bytes tensor_bytes(const struct tensor *x); /* numel * element size */
static inline unsigned tensor_itemsize(const struct tensor *x)
{
    return dtype_defs[x->dtype].bytes;
}
bool tensor_is_floating(const struct tensor *x);
bool tensor_is_contiguous(const struct tensor *x);
bool tensor_is_channels_last(
    const struct tensor *x); /* is_contiguous(channels_last), 4 or 5 dims */
bool tensor_suggests_channels_last(
    const struct tensor *x);                  /* suggest_memory_format(), 4 or 5 dims */
bool tensor_is_dense(const struct tensor *x); /* is_non_overlapping_and_dense() */
bool tensor_same_sizes(const struct tensor *a, const struct tensor *b);
bool tensor_same_strides(const struct tensor *a, const struct tensor *b);
bool tensor_requires_grad(const struct tensor *x); /* false for NULL */

/* tensor_dim() - a dimension as written (negative: from the end) as an index; halts the run when out of range */
unsigned tensor_dim(struct ghost *g, const struct tensor *x, int64_t dim);

/* tensor_contiguous_strides() - what torch.empty(sizes) would have */
void tensor_contiguous_strides(unsigned dims, const int64_t *sizes, int64_t *ret_strides);
void tensor_channels_last_strides(unsigned dims, const int64_t *sizes, int64_t *ret_strides);

/* tensor_text() - "[8, 1024, 768]" for messages */
enum { TENSOR_TEXT = 128 };
const char *tensor_text(const struct tensor *x, char text[TENSOR_TEXT]);

#endif
