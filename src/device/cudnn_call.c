/*
 * device/cudnn_call.c - calls of cuDNN as text, and back
 *
 * Reading what was written gives the same call: tests/unit/test-cudnn.c.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "device/cudnn_call.h"

static const char *const op_names[CUDNN_OPS] = {
    "forward", "data", "filter", "attention", "attention-inference", "attention-backward",
};
static const char *const type_names[CUDNN_TYPES] = { "f32", "f64", "f16", "bf16" };
static const char *const layout_names[2] = { "nchw", "nhwc" };
static const char word_blas[] = "blas", word_without[] = "without-blas";
static const char *const mask_names[CUDNN_MASKS] = { "open", "causal", "masked" };

enum { QUERY_DIMS = 4, KEY_DIMS = 3 };

bool cudnn_call_is_attention(const struct cudnn_call *call)
{
    return call->op >= CUDNN_ATTENTION;
}

/* ------------------------------------------------------------------ writing */

static size_t write_list(
    char *text, size_t at, const char *before, const int64_t *numbers, int count)
{
    at += (size_t)snprintf(text + at, CUDNN_LINE_MAX - at, "%s", before);
    for (int i = 0; i < count; i++)
        at += (size_t)snprintf(text + at, CUDNN_LINE_MAX - at, "%s%" PRId64, i ? "x" : "",
                               numbers[i]);
    return at;
}

static size_t write_words(const struct cudnn_call *call, const char *last, char *text)
{
    return (size_t)snprintf(text, CUDNN_LINE_MAX, "%s %s %s", op_names[call->op],
                            type_names[call->type], last);
}

static size_t write_attention(const struct cudnn_call *call, char text[CUDNN_LINE_MAX])
{
    size_t at = write_words(call, mask_names[call->mask], text);

    at = write_list(text, at, " ", call->input, QUERY_DIMS);
    return write_list(text, at, " ", call->weight, KEY_DIMS);
}

size_t cudnn_call_write(const struct cudnn_call *call, char text[CUDNN_LINE_MAX])
{
    if (cudnn_call_is_attention(call))
        return write_attention(call, text);
    int dims = 2 + call->spatial;
    size_t at = write_words(call, layout_names[call->channels_last ? 1 : 0], text);

    at = write_list(text, at, " ", call->input, dims);
    at = write_list(text, at, " ", call->weight, dims);
    at = write_list(text, at, " pad ", call->padding, call->spatial);
    at = write_list(text, at, " stride ", call->stride, call->spatial);
    return write_list(text, at, " dilation ", call->dilation, call->spatial);
}

size_t cudnn_workspaces_write(const struct cudnn_workspaces *workspaces, char text[CUDNN_LINE_MAX])
{
    size_t at = 0;

    text[0] = '\0';
    for (size_t i = 0; i < workspaces->count; i++)
        at += (size_t)snprintf(text + at, CUDNN_LINE_MAX - at, " %" PRIu64, workspaces->bytes[i]);
    switch (workspaces->blas) {
    case CUDNN_BLAS_NONE:
        break;
    case CUDNN_BLAS_ASSUMED:
        at += (size_t)snprintf(text + at, CUDNN_LINE_MAX - at, " %s %" PRIu64, word_blas,
                               workspaces->blas_most);
        break;
    case CUDNN_BLAS_LEFT_OUT:
        at += (size_t)snprintf(text + at, CUDNN_LINE_MAX - at, " %s", word_without);
        break;
    }
    return at;
}

/* ------------------------------------------------------------------ reading */

/* take_word() - skip @word and the blank behind it */
static bool take_word(const char **text, const char *word)
{
    size_t length = strlen(word);

    if (strncmp(*text, word, length) != 0 || (*text)[length] != ' ')
        return false;
    *text += length + 1;
    return true;
}

static bool take_name(const char **text, const char *const *names, int count, int32_t *ret)
{
    for (int i = 0; i < count; i++)
        if (take_word(text, names[i])) {
            *ret = i;
            return true;
        }
    return false;
}

/* take_number() - digits only: what strtoll() would also take is none of ours */
static bool take_number(const char **text, int64_t *ret)
{
    int64_t number = 0;
    const char *at = *text;

    for (; *at >= '0' && *at <= '9'; at++)
        if (!num_mul(number, 10, &number) || !num_add(number, *at - '0', &number))
            return false;
    if (at == *text)
        return false;
    *text = at;
    *ret = number;
    return true;
}

/* take_list() - numbers between "x", up to a blank or the end; how many, 0 when it is no list */
static int take_list(const char **text, int64_t *ret, int most)
{
    for (int count = 0; count < most; (*text)++) {
        if (!take_number(text, &ret[count]))
            return 0;
        count++;
        if (**text == 'x')
            continue;
        if (**text == ' ')
            (*text)++;
        else if (**text != '\0')
            return 0;
        return count;
    }
    return 0;
}

static bool are_from(const int64_t *numbers, int count, int64_t least)
{
    for (int i = 0; i < count; i++)
        if (numbers[i] < least)
            return false;
    return true;
}

/* read_attention() - what follows the type */
static bool read_attention(const char *text, struct cudnn_call *c)
{
    c->spatial = 2;
    return (c->type == CUDNN_F16 || c->type == CUDNN_BF16) &&
           take_name(&text, mask_names, CUDNN_MASKS, &c->mask) &&
           take_list(&text, c->input, CUDNN_DIMS_MOST) == QUERY_DIMS &&
           take_list(&text, c->weight, CUDNN_DIMS_MOST) == KEY_DIMS && *text == '\0' &&
           are_from(c->input, QUERY_DIMS, 1) && are_from(c->weight, KEY_DIMS, 1) &&
           c->input[1] % c->weight[0] == 0;
}

/* read_convolution() - what follows the type */
static bool read_convolution(const char *text, struct cudnn_call *c)
{
    if (!take_name(&text, layout_names, 2, &c->channels_last))
        return false;
    int dims = take_list(&text, c->input, CUDNN_DIMS_MOST);

    c->spatial = dims - 2;
    return c->spatial >= 2 && take_list(&text, c->weight, CUDNN_DIMS_MOST) == dims &&
           take_word(&text, "pad") &&
           take_list(&text, c->padding, CUDNN_SPATIAL_MOST) == c->spatial &&
           take_word(&text, "stride") &&
           take_list(&text, c->stride, CUDNN_SPATIAL_MOST) == c->spatial &&
           take_word(&text, "dilation") &&
           take_list(&text, c->dilation, CUDNN_SPATIAL_MOST) == c->spatial && *text == '\0' &&
           are_from(c->input, dims, 1) && are_from(c->weight, dims, 1) &&
           are_from(c->stride, c->spatial, 1) && are_from(c->dilation, c->spatial, 1);
}

bool cudnn_call_read(const char *text, struct cudnn_call *ret_call)
{
    struct cudnn_call c = { 0 };

    if (!take_name(&text, op_names, CUDNN_OPS, &c.op) ||
        !take_name(&text, type_names, CUDNN_TYPES, &c.type) ||
        !(cudnn_call_is_attention(&c) ? read_attention(text, &c) : read_convolution(text, &c)))
        return false;
    *ret_call = c;
    return true;
}

/* kind_of() - of a request, by the segment that it needs: kSmallSize and kMinLargeAlloc of c10/core/AllocatorConfig.h */
static int kind_of(plm_bytes bytes)
{
    return bytes <= 1024 * 1024 ? 0 : bytes < 10 * 1024 * 1024 ? 1 : 2;
}

/* is_hopeless() - does the plan take as much as one of its kind that failed, or come after one that takes nothing? */
static bool is_hopeless(const struct cudnn_workspaces *w, plm_bytes bytes)
{
    for (size_t i = 0; i < w->count; i++)
        if (w->bytes[i] == 0 || (bytes >= w->bytes[i] && kind_of(bytes) == kind_of(w->bytes[i])))
            return true;
    return false;
}

/* take_blas() - what is after the numbers; false when there is something else */
static bool take_blas(const char *text, struct cudnn_workspaces *w)
{
    int64_t most;

    if (*text == '\0')
        return true;
    text++;
    if (strcmp(text, word_without) == 0) {
        w->blas = CUDNN_BLAS_LEFT_OUT;
        return true;
    }
    if (!take_word(&text, word_blas) || !take_number(&text, &most) || *text != '\0')
        return false;
    w->blas = CUDNN_BLAS_ASSUMED;
    w->blas_most = (plm_bytes)most;
    return true;
}

bool cudnn_workspaces_read(const char *text, struct cudnn_workspaces *ret_workspaces)
{
    struct cudnn_workspaces w = { 0 };

    while (*text == ' ' && text[1] >= '0' && text[1] <= '9' && w.count < CUDNN_PLANS_MOST) {
        int64_t bytes;

        text++;
        if (!take_number(&text, &bytes) || is_hopeless(&w, (plm_bytes)bytes))
            return false;
        w.bytes[w.count++] = (plm_bytes)bytes;
    }
    if (w.count == 0 || (*text != ' ' && *text != '\0') || !take_blas(text, &w))
        return false;
    *ret_workspaces = w;
    return true;
}

/* ------------------------------------------------------------------ what follows from a call */

void cudnn_workspaces_add(struct cudnn_workspaces *workspaces, plm_bytes bytes)
{
    size_t count = workspaces->count;

    if (is_hopeless(workspaces, bytes))
        return;
    if (count < CUDNN_PLANS_MOST)
        workspaces->bytes[workspaces->count++] = bytes;
    else if (bytes < workspaces->bytes[count - 1]) /* the least decides whether it runs at all */
        workspaces->bytes[count - 1] = bytes;
}

int64_t cudnn_output_size(const struct cudnn_call *call, int i)
{
    int64_t padded, window;

    if (!num_mul(2, call->padding[i], &padded) || !num_add(call->input[2 + i], padded, &padded) ||
        !num_mul(call->weight[2 + i] - 1, call->dilation[i], &window) || padded <= window)
        return 0;
    return (padded - window - 1) / call->stride[i] + 1;
}
