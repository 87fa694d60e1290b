/* device/cudnn_maker.c - making descriptors of cuDNN's backend API */
#include <assert.h>

#include "device/cudnn_maker.h"

backend_desc maker_create(struct maker *m, enum backend_descriptor type)
{
    backend_desc made = NULL;

    assert(m->made_count < MADE_MOST);
    if (m->status == 0)
        m->status = m->backend->create((int)type, &made);
    if (m->status != 0)
        return NULL;
    m->made[m->made_count++] = made;
    return made;
}

void maker_set(struct maker *m,
               backend_desc descriptor,
               enum backend_attribute name,
               enum backend_type type,
               int64_t count,
               const void *elements)
{
    if (m->status == 0)
        m->status = m->backend->set(descriptor, (int)name, (int)type, count, elements);
}

void maker_set_descriptor(struct maker *m,
                          backend_desc descriptor,
                          enum backend_attribute name,
                          backend_desc other)
{
    maker_set(m, descriptor, name, TYPE_BACKEND_DESCRIPTOR, 1, &other);
}

void maker_finalize(struct maker *m, backend_desc descriptor)
{
    if (m->status == 0)
        m->status = m->backend->finalize(descriptor);
}

void maker_destroy(struct maker *m)
{
    while (m->made_count > 0)
        m->backend->destroy(m->made[--m->made_count]);
}
