/*
 * base/names.c - interned names: a hash table with open addressing (the only hash table of the program)
 *
 * Invariant: 2 * text_count <= slot_count once anything was added, so a probe always ends.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/names.h"

/* FNV-1a, 64 bits: http://www.isthe.com/chongo/tech/comp/fnv/ */
static uint64_t hash(const char *text, size_t length)
{
    uint64_t h = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < length; i++)
        h = (h ^ (unsigned char)text[i]) * UINT64_C(1099511628211);
    return h;
}

/* find_slot() - where @text is, or the free slot where it belongs */
static uint32_t *find_slot(const struct names *names, const char *text, size_t length)
{
    size_t mask = names->slot_count - 1;

    for (size_t i = hash(text, length) & mask;; i = (i + 1) & mask) {
        const char *found = names->texts[names->slots[i]];

        if (names->slots[i] == 0 || (strncmp(found, text, length) == 0 && found[length] == '\0'))
            return &names->slots[i];
    }
}

static void rehash(struct names *names)
{
    names->slot_count = names->slot_count ? names->slot_count * 2 : 64;
    names->slots = arena_array(names->arena, uint32_t, names->slot_count);
    for (size_t id = 1; id < names->text_count; id++)
        *find_slot(names, names->texts[id], strlen(names->texts[id])) = (uint32_t)id;
}

name_id names_add(struct names *names, const char *text, size_t length)
{
    if (length == 0)
        return 0;
    if (names->text_count == 0)
        arena_push(names->arena, names->texts, names->text_count, names->text_capacity, "");
    if (names->text_count * 2 >= names->slot_count)
        rehash(names);
    uint32_t *slot = find_slot(names, text, length);

    if (*slot == 0) {
        *slot = (uint32_t)names->text_count;
        arena_push(names->arena, names->texts, names->text_count, names->text_capacity,
                   arena_copy(names->arena, text, length));
    }
    return *slot;
}

name_id names_join(struct names *names, name_id prefix, name_id name)
{
    char joined[512];

    if (prefix == 0 || name == 0)
        return prefix ? prefix : name;
    int length = snprintf(joined, sizeof joined, "%s.%s", names->texts[prefix], names->texts[name]);

    return names_add(names, joined,
                     (size_t)length < sizeof joined ? (size_t)length : sizeof joined - 1);
}

name_id names_find(const struct names *names, const char *text, size_t length)
{
    return names->slot_count && length ? *find_slot(names, text, length) : 0;
}

const char *names_text(const struct names *names, name_id id)
{
    return id ? names->texts[id] : "";
}
