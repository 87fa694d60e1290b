/*
 * memory/settings.h - what PYTORCH_ALLOC_CONF can ask of the allocator
 *
 * The syntax is PyTorch's: "max_split_size_mb:128,expandable_segments:True". Zero means the default everywhere,
 * so a zeroed struct memory_settings is the allocator of a run that sets nothing.
 */
#ifndef PLM_MEMORY_SETTINGS_H
#define PLM_MEMORY_SETTINGS_H

#include <stdbool.h>

#include "plimsoll/types.h"

enum memory_backend {
    MEMORY_NATIVE, /* PyTorch's caching allocator */
    MEMORY_ASYNC,  /* the driver's pool: backend:cudaMallocAsync */
};

/* size classes of roundup_power2_divisions: [1 MiB, 2 MiB), … and from 32 GiB on; smaller sizes use the first */
enum { MEMORY_DIVISIONS = 16 };

struct memory_settings {
    enum memory_backend backend;
    bool expandable_segments;
    bool
        throw_on_oom; /* throw_on_cudamalloc_oom: past the device's total fail at once, without retry */
    plm_bytes max_split;              /* 0: no limit */
    plm_bytes max_non_split_rounding; /* 0: 20 MiB */
    plm_bytes large_segment;          /* 0: 20 MiB */
    double gc_threshold;              /* garbage_collection_threshold; 0: off */
    double fraction;                  /* per_process_memory_fraction; 0: no limit */
    double
        expandable_reserve; /* address space of an expandable segment, as a part of the device; 0: 1.125 */
    plm_bytes expandable_reserve_bytes;   /* the same in bytes; 0: use the part */
    uint64_t divisions[MEMORY_DIVISIONS]; /* powers of two; 0 and 1: round to 512 bytes */
};

/*
 * struct memory_rules - where versions of PyTorch differ; filled in by whoever knows the version
 *
 * Measured: 2.6, 2.11 and 2.15. The comments say what each of them has.
 */
struct memory_rules {
    bool order_by_address;             /* among free blocks of equal size: 2.6, 2.11; not 2.15 */
    bool divisions_fill_from_last_key; /* ">" overwrites the last key's value: 2.6 */
    bool has_large_segment_size;       /* large_segment_size_mb: 2.11, 2.15 */
    bool has_process_fraction;         /* per_process_memory_fraction: 2.11, 2.15 */
    bool
        has_expandable_reserve; /* expandable_segments_reserve, throw_on_cudamalloc_oom, and some pinned_*: 2.15 */
};

/* memory_rules_newest - those of PyTorch 2.15 */
extern const struct memory_rules memory_rules_newest;

/*
 * memory_settings_parse() - read @text as that version of PyTorch does
 *
 * Stricter than PyTorch in one point: "64x" and "-1" are no numbers here. Keys that only concern the
 * host (pinned_*) or timing are checked and have no effect. An empty text gives the defaults.
 */
PLM_MUST_CHECK enum plm_status memory_settings_parse(const char *text,
                                                     const struct memory_rules *rules,
                                                     struct memory_settings *ret_settings,
                                                     struct plm_error *reterr);

#endif
