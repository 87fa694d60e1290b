/*
 * base/names.h - interned names
 *
 * Every name is stored once and known by a 32-bit id; after loading, no string is compared. Ids count up
 * from 1 in order of first use; 0 is the empty name.
 */
#ifndef PLM_BASE_NAMES_H
#define PLM_BASE_NAMES_H

#include <stdint.h>

#include "base/arena.h"

typedef uint32_t name_id;

/* struct names - zero-initialise all but @arena, which holds the text */
struct names {
    struct arena *arena;
    const char **texts; /* [text_count], by id */
    uint32_t *slots;    /* [slot_count], open addressing; 0 is free */
    size_t text_count, text_capacity, slot_count;
};

/* names_add() - the id of @text, which is copied when it is new */
name_id names_add(struct names *names, const char *text, size_t length);

/* names_join() - the id of "@prefix.@name"; without a dot when one of the two is empty */
name_id names_join(struct names *names, name_id prefix, name_id name);

/* names_find() - the id of @text, or 0 when it was never added */
name_id names_find(const struct names *names, const char *text, size_t length);

/* names_text() - the text of an id; "" for 0 */
const char *names_text(const struct names *names, name_id id);

#endif
