/*
 * device/cudnn_call.h - a call of cuDNN whose workspace is asked for, as numbers and as a line of text
 *
 * The line is the same wherever a call is written: on the way to the process that asks cuDNN, in the cache and in the tables.
 *
 *     forward f16 nhwc 32x64x56x56 128x64x3x3 pad 1x1 stride 2x2 dilation 1x1 = 25763856 18944 0
 *
 *     attention bf16 causal 8x12x1024x64 12x1024x64 = 256
 *
 * The sizes of a convolution are those of the input and of the weight as PyTorch has them (of a backward: the gradient of the input, of the
 * weight); an input's channels over a weight's are the groups. The layout holds for all three tensors, which are dense. Those of an attention are
 * the query's (batch, heads, length, head size), then the key's and value's heads, length and the value's head size; "attention" keeps
 * what its backward needs, "attention-inference" does not. What is after the "=" is in bytes, in the order in which PyTorch tries plans until one has its memory. Only plans that may have it
 * where those before them had not are there: each takes less than all before it of its kind. The allocator has three kinds of
 * requests, each with segments of its own: up to 1 MiB, below 10 MiB, and larger ones. (A request of 4 MiB wants a segment of 20 MiB, one of
 * 12 MiB a segment of 12 MiB.)
 *
 * Where the first plan hands the work to cuBLASLt, and the stand-in answered for that, "blas" and the bytes that it may take more
 * follow (device/cublaslt_stand_in.c). Where nothing answered
 * for cuBLASLt, so that engines that want it are not among the plans, "without-blas" follows.
 */
#ifndef PLM_DEVICE_CUDNN_CALL_H
#define PLM_DEVICE_CUDNN_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plimsoll/types.h"

enum cudnn_op {
    CUDNN_FORWARD,
    CUDNN_BACKWARD_DATA,
    CUDNN_BACKWARD_FILTER,
    CUDNN_ATTENTION, /* this and what follows is no convolution */
    CUDNN_ATTENTION_INFERENCE,
    CUDNN_ATTENTION_BACKWARD,
    CUDNN_OPS
};
enum cudnn_mask { CUDNN_OPEN, CUDNN_CAUSAL, CUDNN_MASKED, CUDNN_MASKS };
enum cudnn_type { CUDNN_F32, CUDNN_F64, CUDNN_F16, CUDNN_BF16, CUDNN_TYPES };

enum {
    CUDNN_SPATIAL_MOST = 3,
    CUDNN_DIMS_MOST = 2 + CUDNN_SPATIAL_MOST,
    CUDNN_PLANS_MOST = 16, /* that a call may fall back to */
    CUDNN_LINE_MAX = 512,
};

/* struct cudnn_call - compared byte by byte: zero-initialise it, unused dimensions stay 0 */
struct cudnn_call {
    int32_t op, type; /* enum cudnn_op, enum cudnn_type */
    union {
        int32_t channels_last; /* of a convolution */
        int32_t mask;          /* of an attention: enum cudnn_mask */
    };
    int32_t
        spatial; /* dimensions of an image: 2 or 3; of an attention 2, as its tensors have four */
    int64_t input[CUDNN_DIMS_MOST], weight[CUDNN_DIMS_MOST];
    int64_t padding[CUDNN_SPATIAL_MOST], stride[CUDNN_SPATIAL_MOST], dilation[CUDNN_SPATIAL_MOST];
};

/* enum cudnn_blas_part - what cuBLASLt has to do with the first plan */
enum cudnn_blas_part {
    CUDNN_BLAS_NONE,     /* nothing, or the real one answered */
    CUDNN_BLAS_ASSUMED,  /* the stand-in answered */
    CUDNN_BLAS_LEFT_OUT, /* nothing answered for it: on a GPU another plan may be the first */
};

/* struct cudnn_workspaces - of the plans in the order tried; none: no plan computes the call */
struct cudnn_workspaces {
    plm_bytes bytes[CUDNN_PLANS_MOST]; /* [count]; only the last may be 0 */
    size_t count;
    enum cudnn_blas_part blas;
    plm_bytes blas_most; /* what cuBLASLt might take on top, when assumed */
};

/* cudnn_call_is_attention() - else it is a convolution */
bool cudnn_call_is_attention(const struct cudnn_call *call);

/* cudnn_call_write() - the line up to the "="; returns its length */
size_t cudnn_call_write(const struct cudnn_call *call, char text[CUDNN_LINE_MAX]);

/* cudnn_call_read() - is @text, up to a zero, a call? */
bool cudnn_call_read(const char *text, struct cudnn_call *ret_call);

/* cudnn_workspaces_write() - what is after the "=", with a blank before each word; returns the length */
size_t cudnn_workspaces_write(const struct cudnn_workspaces *workspaces, char text[CUDNN_LINE_MAX]);

/* cudnn_workspaces_read() - the same read back; false when they are none, or one would not be there */
bool cudnn_workspaces_read(const char *text, struct cudnn_workspaces *ret_workspaces);

/* cudnn_workspaces_add() - of the next plan in order, unless it would fail like those before it; of too many the last is the least */
void cudnn_workspaces_add(struct cudnn_workspaces *workspaces, plm_bytes bytes);

/* cudnn_output_size() - of a convolution's output (or its gradient) in a spatial dimension; 0 when the sizes do not fit together */
int64_t cudnn_output_size(const struct cudnn_call *call, int i);

#endif
