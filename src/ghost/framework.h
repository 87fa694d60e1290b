/*
 * ghost/framework.h - the rules of PyTorch that changed from version to version, one row a version
 *
 * A rule is a question with a yes or no; the code asks it where it matters and never asks for the version.
 */
#ifndef PLM_GHOST_FRAMEWORK_H
#define PLM_GHOST_FRAMEWORK_H

#include <stdbool.h>
#include <stddef.h>

struct framework {
    const char *name; /* "pytorch-2.15" */
    int version;      /* 215, for models that mirror Python code of several versions */
    bool
        blas_cached; /* a cuBLAS workspace is kept for each thread and stream (PR 194311 ended it) */
    bool lt_cached;  /* so is cuBLASLt's (PR 156495 to PR 194311) */
    bool blackwell_32mib;   /* compute capability 10 and 12 have Hopper's workspace (PR 175344) */
    bool rms_norm_fused;    /* one kernel, when weight and input have one type */
    bool rms_norm_autocast; /* autocast casts its inputs to float32 (2.15; not 2.11) */
    bool bmm_outer_kernel;  /* bmm of column and row is a Triton kernel (2.15; not 2.11) */
    bool group_norm_channels_last; /* has kernels for channels last, and sums in float32 (2.15) */
    bool embedding_sorts_bits;     /* backward sorts only the bits that an index can have (2.15) */
    bool cudnn_first;        /* attention prefers cuDNN on compute capability 9.0, 10.0 and 10.3 */
    bool embedding_few_rows; /* backward without partial sums when the table has few rows */
    bool scan_narrow;        /* cub scans with half as much state a tile (2.6) */
    bool layer_norm_blocks;  /* backward of many rows sums in blocks */
    bool efficient_gqa;      /* memory-efficient attention takes shared heads (2.15; not 2.11) */
    bool
        native_attention_any; /* nn.MultiheadAttention's fast path takes heads that 8 does not divide (2.15; not 2.11) */
    bool efficient_seeds; /* memory-efficient attention keeps seed and offset on the device */
    bool
        clip_partials; /* foreach_norm keeps one partial per chunk, not per tensor and chunk (2.15) */
    bool flash_rng_always; /* flash attention makes its random state without dropout too */
    bool
        flash_rounds_64; /* its sums have head sizes above 128 rounded to 64, not 32 (2.11; not 2.6) */
    bool order_by_address; /* the allocator breaks ties by address (until PR 178362, PR 183591) */
    bool
        divisions_from_last; /* roundup_power2_divisions: '>' also overwrites the last key's own value */
    bool
        autocast_cache_records; /* autocast casts what it caches with gradients on (2.11; not 2.6) */
    bool slices_whole; /* x[:] is a slice, whose gradient is padded with no zeros (2.6; not 2.11) */
    bool has_large_segment; /* large_segment_size_mb exists */
    int cudnn;              /* that its wheels bring: 92600 is 9.26.0 */
    int cc_least, cc_most;  /* compute capabilities that the wheels support, 75 for 7.5 */
};

/* framework_find() - the row of that name, or NULL */
const struct framework *framework_find(const char *name);

/* framework_all() - every row, newest first */
const struct framework *framework_all(size_t *ret_count);

#endif
