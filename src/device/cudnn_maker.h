/*
 * device/cudnn_maker.h - descriptors of cuDNN's backend API, made one after the other until one cannot be
 *
 * After a failure every call does nothing, so a graph is written down without a check between its lines.
 */
#ifndef PLM_DEVICE_CUDNN_MAKER_H
#define PLM_DEVICE_CUDNN_MAKER_H

#include "device/cudnn_backend.h"

enum { MADE_MOST = 96 }; /* the backward of attention with a mask, shared and wide heads makes 75 */

/* struct maker - descriptors made for one call */
struct maker {
    const struct backend *backend;
    backend_desc made[MADE_MOST];
    size_t made_count;
    int status; /* cudnnStatus_t of the first failure */
};

/* maker_create() - a new descriptor, which belongs to @m; NULL after a failure */
backend_desc maker_create(struct maker *m, enum backend_descriptor type);

void maker_set(struct maker *m,
               backend_desc descriptor,
               enum backend_attribute name,
               enum backend_type type,
               int64_t count,
               const void *elements);

/* maker_set_descriptor() - an attribute that is one other descriptor */
void maker_set_descriptor(struct maker *m,
                          backend_desc descriptor,
                          enum backend_attribute name,
                          backend_desc other);

void maker_finalize(struct maker *m, backend_desc descriptor);

/* maker_destroy() - all that was made */
void maker_destroy(struct maker *m);

#endif
