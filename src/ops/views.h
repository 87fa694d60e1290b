/* ops/views.h - views and copies, as functions that other operators call; each records autograd as PyTorch does */
#ifndef PLM_OPS_VIEWS_H
#define PLM_OPS_VIEWS_H

#include "ghost/autograd.h"

struct tensor *view_view(struct tensor *x,
                         unsigned dims,
                         const int64_t *sizes); /* one size may be -1 */
struct tensor *view_unsafe(struct tensor *x,
                           unsigned dims,
                           const int64_t *sizes); /* _unsafe_view: not a view to autograd */
struct tensor *view_reshape(struct tensor *x,
                            unsigned dims,
                            const int64_t *sizes); /* copies when it must */
struct tensor *view_transpose(struct tensor *x, int64_t dim0, int64_t dim1);
struct tensor *view_t(struct tensor *x); /* of a matrix */
struct tensor *view_permute(struct tensor *x, const int64_t *order);
struct tensor *view_expand(struct tensor *x, unsigned dims, const int64_t *sizes);
struct tensor *view_squeeze(struct tensor *x, int64_t dim);
struct tensor *view_unsqueeze(struct tensor *x, int64_t dim);
struct tensor *view_slice(struct tensor *x, int64_t dim, int64_t start, int64_t end, int64_t step);
struct tensor *view_select(struct tensor *x, int64_t dim, int64_t index);
struct tensor *view_contiguous(struct tensor *x); /* x.contiguous(), recorded as clone */
struct tensor *view_clone(struct tensor *x);
struct tensor *view_to(struct tensor *x,
                       enum dtype dtype); /* _to_copy, recorded; a reference when nothing changes */
struct tensor *view_cat(struct ghost *g, struct tensor *const *x, size_t count, int64_t dim);
struct tensor *view_stack(struct ghost *g, struct tensor *const *x, size_t count, int64_t dim);
struct tensor *view_pad(struct tensor *x,
                        const int64_t *pad,
                        size_t pad_count); /* constant_pad_nd */

#endif
