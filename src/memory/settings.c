/*
 * memory/settings.c - PYTORCH_ALLOC_CONF, key by key
 *
 * The grammar is that of c10/core/AllocatorConfig and c10/cuda/CUDAAllocatorConfig: tokens are separated by
 * any of ",:[]", spaces are dropped wherever they are. Which texts are accepted and what becomes of the divisions
 * was compared with PyTorch 2.15 and 2.11 by reading its settings back.
 */
#include <string.h>

#include "base/error.h"
#include "base/num.h"
#include "base/units.h"
#include "memory/settings.h"

enum {
    MIB = 1 << 20,
    LARGE_SEGMENT_MIB = 20,   /* the default */
    LARGE_SEGMENT_LEAST = 11, /* "must be > 10 MB" */
    TOKEN_TEXT = 64,
    REGISTER_THREADS_MOST = 128, /* pinned_max_register_threads() */
};

const struct memory_rules memory_rules_newest = {
    .has_large_segment_size = true,
    .has_process_fraction = true,
    .has_expandable_reserve = true,
};

enum value {
    VALUE_BACKEND,
    VALUE_BOOL,
    VALUE_DIVISIONS,
    VALUE_FRACTION,
    VALUE_GC_THRESHOLD,
    VALUE_MIB,
    VALUE_RESERVE,
    VALUE_RESERVE_BY_CLASS,
    VALUE_THREADS,
};

enum presence { ALWAYS, LARGE_SEGMENT_SIZE, PROCESS_FRACTION, EXPANDABLE_RESERVE };

struct key {
    const char *name;
    enum value value;
    enum presence presence;
    bool has_effect;
    size_t offset; /* in struct memory_settings */
};

#define SETS(member) true, offsetof(struct memory_settings, member)
#define IGNORED false, 0

static const struct key keys[] = {
    { "backend", VALUE_BACKEND, ALWAYS, SETS(backend) },
    { "max_split_size_mb", VALUE_MIB, ALWAYS, SETS(max_split) },
    { "max_non_split_rounding_mb", VALUE_MIB, ALWAYS, SETS(max_non_split_rounding) },
    { "large_segment_size_mb", VALUE_MIB, LARGE_SEGMENT_SIZE, SETS(large_segment) },
    { "garbage_collection_threshold", VALUE_GC_THRESHOLD, ALWAYS, SETS(gc_threshold) },
    { "roundup_power2_divisions", VALUE_DIVISIONS, ALWAYS, SETS(divisions) },
    { "expandable_segments", VALUE_BOOL, ALWAYS, SETS(expandable_segments) },
    { "expandable_segments_reserve", VALUE_RESERVE, EXPANDABLE_RESERVE, SETS(expandable_reserve) },
    { "expandable_segments_reserve_by_class", VALUE_RESERVE_BY_CLASS, EXPANDABLE_RESERVE, IGNORED },
    { "per_process_memory_fraction", VALUE_FRACTION, PROCESS_FRACTION, SETS(fraction) },
    { "throw_on_cudamalloc_oom", VALUE_BOOL, EXPANDABLE_RESERVE, SETS(throw_on_oom) },
    { "release_lock_on_cudamalloc", VALUE_BOOL, ALWAYS, IGNORED },
    { "graph_capture_record_stream_reuse", VALUE_BOOL, LARGE_SEGMENT_SIZE, IGNORED },
    { "pinned_use_cuda_host_register", VALUE_BOOL, ALWAYS, IGNORED },
    { "pinned_num_register_threads", VALUE_THREADS, ALWAYS, IGNORED },
    { "pinned_use_background_threads", VALUE_BOOL, ALWAYS, IGNORED },
    { "pinned_reserve_segment_size_mb", VALUE_MIB, LARGE_SEGMENT_SIZE, IGNORED },
    { "pinned_max_round_threshold_mb", VALUE_MIB, EXPANDABLE_RESERVE, IGNORED },
    { "pinned_max_cached_size_mb", VALUE_MIB, EXPANDABLE_RESERVE, IGNORED },
    { "pinned_free_catch_all", VALUE_BOOL, EXPANDABLE_RESERVE, IGNORED },
};

enum { KEY_COUNT = sizeof keys / sizeof *keys };

/* struct reader - @token is the one that was read last; empty at the end of the text */
struct reader {
    const char *rest;
    char token[TOKEN_TEXT];
    struct memory_settings *settings;
    const struct memory_rules *rules;
    const struct key *key;
    struct plm_error *reterr;
};

static bool is_mark(char c)
{
    return c != '\0' && strchr(",:[]", c) != NULL;
}

/* A token longer than any that means something keeps its beginning. */
static void next_token(struct reader *reader)
{
    size_t length = 0;

    for (; *reader->rest != '\0'; reader->rest++) {
        char c = *reader->rest;

        if (c == ' ')
            continue;
        if (is_mark(c) && length > 0)
            break;
        if (length + 1 < sizeof reader->token)
            reader->token[length++] = c;
        if (is_mark(c)) {
            reader->rest++;
            break;
        }
    }
    reader->token[length] = '\0';
}

static bool token_is(const struct reader *reader, const char *text)
{
    return strcmp(reader->token, text) == 0;
}

static const char *token_name(const struct reader *reader)
{
    return reader->token[0] != '\0' ? reader->token : "the end";
}

static enum plm_status expect(struct reader *reader, const char *mark)
{
    next_token(reader);
    if (!token_is(reader, mark))
        return plm_fail(reader->reterr, PLM_E_SYNTAX, "'%s': expected '%s', not '%s'",
                        reader->key->name, mark, token_name(reader));
    return PLM_OK;
}

static enum plm_status wrong_value(const struct reader *reader, const char *accepted)
{
    return plm_fail(reader->reterr, PLM_E_SYNTAX, "'%s' is '%s', but must be %s", reader->key->name,
                    token_name(reader), accepted);
}

/* The member that the key sets; a place to write to for keys without effect. */
static void *member(struct reader *reader, void *nowhere)
{
    return reader->key->has_effect ? (char *)reader->settings + reader->key->offset : nowhere;
}

static bool token_count(const struct reader *reader, uint64_t *ret_value)
{
    int64_t value;

    if (!units_parse_int(reader->token, &value) || value < 0)
        return false;
    *ret_value = (uint64_t)value;
    return true;
}

static bool is_power2(uint64_t n)
{
    return n != 0 && (n & (n - 1)) == 0;
}

static enum plm_status read_backend(struct reader *reader)
{
    next_token(reader);
    if (token_is(reader, "native"))
        reader->settings->backend = MEMORY_NATIVE;
    else if (token_is(reader, "cudaMallocAsync"))
        reader->settings->backend = MEMORY_ASYNC;
    else
        return wrong_value(reader, "'native' or 'cudaMallocAsync'");
    return PLM_OK;
}

static enum plm_status read_bool(struct reader *reader)
{
    bool nowhere;
    bool *value = member(reader, &nowhere);

    next_token(reader);
    if (!token_is(reader, "True") && !token_is(reader, "False"))
        return wrong_value(reader, "'True' or 'False'");
    *value = token_is(reader, "True");
    return PLM_OK;
}

static enum plm_status read_mib(struct reader *reader)
{
    plm_bytes nowhere;
    plm_bytes *value = member(reader, &nowhere);
    uint64_t count;

    next_token(reader);
    if (!token_count(reader, &count) || count == 0)
        return wrong_value(reader, "a whole number of MiB");
    *value = num_min(count, UINT64_MAX / MIB) * MIB;
    return PLM_OK;
}

static enum plm_status read_real(struct reader *reader, bool one_allowed)
{
    double *value = member(reader, NULL);
    double real;

    next_token(reader);
    if (!units_parse_real(reader->token, &real) || real <= 0 || real > 1 ||
        (real >= 1 && !one_allowed))
        return wrong_value(reader, one_allowed ? "above 0 and at most 1" : "above 0 and below 1");
    *value = real;
    return PLM_OK;
}

/* PyTorch ignores what it cannot read here, with a warning; for us it is an error. Only "G" is a unit there. */
static enum plm_status read_reserve(struct reader *reader)
{
    double part;
    plm_bytes bytes;
    size_t length;

    next_token(reader);
    length = strlen(reader->token);
    if (units_parse_real(reader->token, &part) && part > 0)
        reader->settings->expandable_reserve = part;
    else if (length > 1 && reader->token[length - 1] == 'G' &&
             units_parse_bytes(reader->token, &bytes) && bytes > 0)
        reader->settings->expandable_reserve_bytes = bytes;
    else
        return wrong_value(reader, "a part of the device as 0.5 or a size in GiB as 40G");
    return PLM_OK;
}

/* Streams have no class here, so the reserve of a class never applies; the list is only skipped. */
static enum plm_status skip_list(struct reader *reader)
{
    next_token(reader);
    if (!token_is(reader, "["))
        return wrong_value(reader, "a list as [name:0.5,other:40G]");
    while (!token_is(reader, "]") && !token_is(reader, ""))
        next_token(reader);
    return token_is(reader, "]") ? PLM_OK : wrong_value(reader, "closed by ']'");
}

static enum plm_status read_threads(struct reader *reader)
{
    uint64_t count;

    next_token(reader);
    if (!token_count(reader, &count) || !is_power2(count) || count > REGISTER_THREADS_MOST)
        return wrong_value(reader, "a power of two, at most 128");
    return PLM_OK;
}

static void fill_divisions(struct reader *reader, size_t from, size_t to, uint64_t value)
{
    for (size_t i = from; i < to; i++)
        reader->settings->divisions[i] = value;
}

/* "[256:1,512:2,>:8]": keys are sizes in MiB; the first also holds for all smaller sizes */
static enum plm_status read_division(struct reader *reader, bool is_first, size_t *last)
{
    bool is_rest = token_is(reader, ">");
    uint64_t size = 0, value;

    if (!is_rest && (!token_count(reader, &size) || !is_power2(size)))
        return wrong_value(reader, "a list whose keys are powers of two (MiB) or '>'");
    enum plm_status status = expect(reader, ":");

    if (status != PLM_OK)
        return status;
    next_token(reader);
    if (!token_count(reader, &value) || (value != 0 && !is_power2(value)))
        return wrong_value(reader, "a list of powers of two, or 0");
    if (is_rest) {
        size_t from = *last + !reader->rules->divisions_fill_from_last_key;

        fill_divisions(reader, from, MEMORY_DIVISIONS, value);
        return PLM_OK;
    }
    *last = (size_t)num_min(num_log2(size), MEMORY_DIVISIONS - 1);
    fill_divisions(reader, is_first ? 0 : *last, *last + 1, value);
    return PLM_OK;
}

static enum plm_status read_divisions(struct reader *reader)
{
    uint64_t value;

    next_token(reader);
    if (!token_is(reader, "[")) {
        if (!token_count(reader, &value) || !is_power2(value))
            return wrong_value(reader, "a power of two or a list as [256:1,512:2,>:4]");
        fill_divisions(reader, 0, MEMORY_DIVISIONS, value);
        return PLM_OK;
    }
    size_t last = 0;

    next_token(reader);
    for (bool is_first = true; !token_is(reader, "]"); is_first = false) {
        enum plm_status status = read_division(reader, is_first, &last);

        if (status != PLM_OK)
            return status;
        next_token(reader);
        if (token_is(reader, ","))
            next_token(reader);
        else if (!token_is(reader, "]"))
            return wrong_value(reader, "a list closed by ']'");
    }
    return PLM_OK;
}

static enum plm_status read_value(struct reader *reader)
{
    switch (reader->key->value) {
    case VALUE_BACKEND:
        return read_backend(reader);
    case VALUE_BOOL:
        return read_bool(reader);
    case VALUE_DIVISIONS:
        return read_divisions(reader);
    case VALUE_FRACTION:
        return read_real(reader, true);
    case VALUE_GC_THRESHOLD:
        return read_real(reader, false);
    case VALUE_MIB:
        return read_mib(reader);
    case VALUE_RESERVE:
        return read_reserve(reader);
    case VALUE_RESERVE_BY_CLASS:
        return skip_list(reader);
    case VALUE_THREADS:
        return read_threads(reader);
    }
    return PLM_OK;
}

static bool is_present(const struct memory_rules *rules, enum presence presence)
{
    switch (presence) {
    case ALWAYS:
        return true;
    case LARGE_SEGMENT_SIZE:
        return rules->has_large_segment_size;
    case PROCESS_FRACTION:
        return rules->has_process_fraction;
    case EXPANDABLE_RESERVE:
        return rules->has_expandable_reserve;
    }
    return false;
}

static enum plm_status find_key(struct reader *reader)
{
    const char *names[KEY_COUNT];
    size_t name_count = 0;

    for (size_t i = 0; i < KEY_COUNT; i++) {
        bool present = is_present(reader->rules, keys[i].presence);

        if (token_is(reader, keys[i].name)) {
            reader->key = &keys[i];
            return present
                       ? PLM_OK
                       : plm_fail(reader->reterr, PLM_E_SYNTAX,
                                  "'%s' is not an option of this version of PyTorch", keys[i].name);
        }
        if (present)
            names[name_count++] = keys[i].name;
    }
    const char *nearest = error_nearest(reader->token, names, name_count);

    return plm_fail(reader->reterr, PLM_E_SYNTAX, "'%s' is not an option of the allocator; %s%s%s",
                    reader->token,
                    nearest ? "did you mean '" : "expected key:value pairs separated by ','",
                    nearest ? nearest : "", nearest ? "'?" : "");
}

static enum plm_status check_sizes(const struct memory_settings *settings, struct plm_error *reterr)
{
    plm_bytes segment = settings->large_segment;

    if (segment == 0)
        segment = (plm_bytes)LARGE_SEGMENT_MIB * MIB;
    if (segment < (plm_bytes)LARGE_SEGMENT_LEAST * MIB)
        return plm_fail(reterr, PLM_E_RANGE, "'large_segment_size_mb' must be at least %d",
                        LARGE_SEGMENT_LEAST);
    if (settings->max_split != 0 && settings->max_split < segment)
        return plm_fail(reterr, PLM_E_RANGE,
                        "'max_split_size_mb' must be at least %llu, the size of a large segment",
                        (unsigned long long)(segment / MIB));
    if (settings->max_non_split_rounding != 0 && settings->max_non_split_rounding < segment)
        return plm_fail(
            reterr, PLM_E_RANGE,
            "'max_non_split_rounding_mb' must be at least %llu, the size of a large segment",
            (unsigned long long)(segment / MIB));
    return PLM_OK;
}

enum plm_status memory_settings_parse(const char *text,
                                      const struct memory_rules *rules,
                                      struct memory_settings *ret_settings,
                                      struct plm_error *reterr)
{
    struct memory_settings settings = { 0 };
    struct reader reader = {
        .rest = text, .settings = &settings, .rules = rules, .reterr = reterr
    };
    enum plm_status status;

    for (next_token(&reader); !token_is(&reader, ""); next_token(&reader)) {
        status = find_key(&reader);
        if (status == PLM_OK)
            status = expect(&reader, ":");
        if (status == PLM_OK)
            status = read_value(&reader);
        if (status != PLM_OK)
            return status;
        next_token(&reader);
        if (!token_is(&reader, ",") && !token_is(&reader, ""))
            return wrong_value(&reader, "followed by ',' and the next option");
    }
    status = check_sizes(&settings, reterr);
    if (status == PLM_OK)
        *ret_settings = settings;
    return status;
}
