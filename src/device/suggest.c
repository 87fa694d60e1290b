/*
 * device/suggest.c - which devices an unknown name was probably meant to be
 *
 * Words are compared by their letters and digits alone, without the words that makers put in front of them.
 */
#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "device/suggest.h"

enum { LISTED_MOST = 4, WHOLE_LEAST = 3 };

/* skip_maker() - past "NVIDIA ", "GeForce " and "Tesla ", which no profile's name has */
static const char *skip_maker(const char *word)
{
    static const char *const makers[] = { "nvidia", "geforce", "tesla" };

    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        size_t length = strlen(makers[i]);

        while (*word && !isalnum((unsigned char)*word))
            word++;
        for (size_t j = 0; j < length && word; j++)
            if (tolower((unsigned char)word[j]) != makers[i][j])
                length = 0;
        word += length;
    }
    return word;
}

/* key_of() - "RTX 4090" and "4090" are rtx4090 */
static const char *key_of(const char *word, struct arena *arena)
{
    struct buf key = { .arena = arena };

    word = skip_maker(word);
    if (isdigit((unsigned char)*word))
        buf_text(&key, "rtx");
    for (; *word; word++)
        if (isalnum((unsigned char)*word))
            buf_char(&key, (char)tolower((unsigned char)*word));
    return buf_string(&key);
}

static size_t common(const char *a, const char *b)
{
    size_t length = 0;

    while (a[length] && a[length] == b[length])
        length++;
    return length;
}

/* likeness() - letters that @key and @name begin with alike, when that is the name's family at least, or all of @key; otherwise 0 */
static size_t likeness(const char *key, const char *name, struct arena *arena)
{
    size_t length = common(key, key_of(name, arena));
    bool whole_key = key[length] == '\0' && length >= WHOLE_LEAST;

    return whole_key || length >= strcspn(name, "-") ? length : 0;
}

static const char *quoted(const char *name, struct arena *arena)
{
    struct buf text = { .arena = arena };

    buf_printf(&text, "'%s'", name);
    return buf_string(&text);
}

/* list() - "'a', 'b' or 'c'": the @count names that are as like @key as @best, or the first of many */
static const char *list(const char *key,
                        const char *const *names,
                        size_t name_count,
                        size_t best,
                        size_t count,
                        struct arena *arena)
{
    struct buf text = { .arena = arena };
    size_t listed = 0;

    for (size_t i = 0; i < name_count && listed < LISTED_MOST; i++) {
        if (likeness(key, names[i], arena) != best)
            continue;
        if (listed > 0)
            buf_text(&text, listed + 1 == count ? " or " : ", ");
        buf_text(&text, quoted(names[i], arena));
        listed++;
    }
    if (listed < count)
        buf_text(&text, " …");
    return buf_string(&text);
}

const char *suggest_devices(const char *word,
                            const char *const *names,
                            size_t name_count,
                            struct arena *arena)
{
    const char *key = key_of(word, arena), *near;
    size_t best = 1, count = 0;

    for (size_t i = 0; i < name_count; i++) {
        size_t alike = likeness(key, names[i], arena);

        count = alike > best ? 1 : count + (alike == best);
        best = alike > best ? alike : best;
    }
    if (count > 0)
        return list(key, names, name_count, best, count, arena);
    near = error_nearest(word, names, name_count);
    return near ? quoted(near, arena) : NULL;
}
