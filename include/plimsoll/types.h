/* plimsoll/types.h - the types that every other public header shares */
#ifndef PLM_TYPES_H
#define PLM_TYPES_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define PLM_API __attribute__((visibility("default")))
#define PLM_MUST_CHECK __attribute__((warn_unused_result))
#define PLM_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define PLM_API
#define PLM_MUST_CHECK
#define PLM_PRINTF(text, first)
#endif

typedef uint64_t plm_bytes; /* a size in bytes; never KiB, never GB */

enum plm_status {
    PLM_OK = 0,
    PLM_E_IO,     /* a file cannot be read or written */
    PLM_E_SYNTAX, /* the text is not YAML, or a value is not what the grammar allows */
    PLM_E_MODEL,  /* the model contradicts itself: shapes, names, recursion */
    PLM_E_RANGE,  /* a number is too large, too small or does not divide */
    PLM_E_USAGE,  /* the options do not go together */
    PLM_E_DEVICE, /* the GPU, its driver or its profile */
};

/*
 * struct plm_error - what went wrong, as a value
 *
 * Nothing to allocate and nothing to free. Messages are lower case, have no full stop, quote
 * the name that they speak of and say what would be accepted.
 */
struct plm_error {
    unsigned line, column; /* 1-based; 0 when no position applies */
    char file[192];        /* empty when no file applies; a longer name keeps its end */
    char path[64];         /* place in the document: "blocks.layer.nodes[3]"; may be empty */
    char message[256];
};

#endif
