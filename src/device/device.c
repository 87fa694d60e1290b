/*
 * device/device.c - reads device profiles
 *
 * Invariant of what is returned: context < total, both in bytes; compute capability 8.6 is 86.
 */
#include <string.h>

#include "base/units.h"
#include "device/device.h"
#include "device/measured.h"
#include "device/verified.h"
#include "yaml/file.h"

enum {
    PROFILE_BYTES_MAX = 256 * 1024,
    PROCESSORS_MAX = 4096,
    THREADS_MAX = 65536,
};

/* Larger than any device, small enough that no sum with other sizes overflows. */
static const plm_bytes TOTAL_MAX = (plm_bytes)1 << 50;

/* struct profile - the file as written */
struct profile {
    int64_t version, processors, threads_per_processor;
    const char *device, *title, *compute_capability, *total_source, *context_source, *calibrated;
    plm_bytes total, context;
    const struct yaml_node *measured, *verified;
};

#define FIELD(key_, type_, required_, help_)                                                       \
    {                                                                                              \
        .key = #key_, .type = type_, .required = required_,                                        \
        .offset = offsetof(struct profile, key_), .help = help_                                    \
    }

/* clang-format off */
const struct decode_row device_fields[] = {
    { .key = "plimsoll", .type = DECODE_INT, .required = true, .offset = offsetof(struct profile, version),
      .help = "version of the format: 1" },
    FIELD(device, DECODE_TEXT, true, "the profile's name, as --device takes it"),
    FIELD(title, DECODE_TEXT, false, "the name that CUDA reports; default: device"),
    FIELD(compute_capability, DECODE_TEXT, true, "such as 8.6"),
    FIELD(processors, DECODE_INT, true, "streaming multiprocessors"),
    FIELD(threads_per_processor, DECODE_INT, true, "resident threads of one multiprocessor, at most"),
    FIELD(total, DECODE_BYTES, true, "device memory as CUDA reports it (totalGlobalMem)"),
    FIELD(total_source, DECODE_TEXT, true, "where that figure was seen"),
    FIELD(context, DECODE_BYTES, true, "what a process takes before its first tensor: CUDA context and modules"),
    FIELD(context_source, DECODE_TEXT, true, "where that figure was seen, and how far it varies"),
    FIELD(calibrated, DECODE_TEXT, false, "when it was measured; absent in built-in profiles"),
    FIELD(measured, DECODE_MAPPING, false, "what `plimsoll calibrate` measured"),
    FIELD(verified, DECODE_SEQUENCE, false, "the plans that `plimsoll verify` has played there; needs measured"),
};
/* clang-format on */
const size_t device_field_count = sizeof device_fields / sizeof device_fields[0];

/* read_capability() - "8.6" to 86; one digit after the point, as CUDA has it */
static bool read_capability(const char *text, int *ret_cc)
{
    size_t length = strlen(text);
    int major = 0;

    if (length < 3 || length > 4 || text[length - 2] != '.')
        return false;
    for (size_t i = 0; i < length; i++)
        if (i != length - 2 && (text[i] < '0' || text[i] > '9'))
            return false;
    for (size_t i = 0; i < length - 2; i++)
        major = major * 10 + (text[i] - '0');
    *ret_cc = major * 10 + (text[length - 1] - '0');
    return true;
}

/* place_of() - where the value of @key stands */
static struct source place_of(const struct yaml_node *root, const char *key)
{
    const struct yaml_node *node = yaml_get(root, key);

    return node ? node->at : root->at;
}

static enum plm_status check(const struct yaml_node *root,
                             const struct profile *profile,
                             int *ret_cc,
                             struct plm_error *reterr)
{
    if (profile->version != 1)
        return plm_fail_at(reterr, PLM_E_SYNTAX, place_of(root, "plimsoll"),
                           "'plimsoll' must be 1, the version of the format");
    if (!read_capability(profile->compute_capability, ret_cc))
        return plm_fail_at(reterr, PLM_E_SYNTAX, place_of(root, "compute_capability"),
                           "'compute_capability' must be like 8.6, not '%.20s'",
                           profile->compute_capability);
    if (profile->processors < 1 || profile->processors > PROCESSORS_MAX)
        return plm_fail_at(reterr, PLM_E_RANGE, place_of(root, "processors"),
                           "'processors' must be from 1 to %d", PROCESSORS_MAX);
    if (profile->threads_per_processor < 1 || profile->threads_per_processor > THREADS_MAX)
        return plm_fail_at(reterr, PLM_E_RANGE, place_of(root, "threads_per_processor"),
                           "'threads_per_processor' must be from 1 to %d", THREADS_MAX);
    if (profile->total == 0 || profile->total > TOTAL_MAX)
        return plm_fail_at(reterr, PLM_E_RANGE, place_of(root, "total"),
                           "'total' must be from 1 byte to 1 PiB");
    if (profile->context >= profile->total)
        return plm_fail_at(reterr, PLM_E_RANGE, place_of(root, "context"),
                           "'context' must be less than 'total'");
    return PLM_OK;
}

/* read_measured() - what a calibrated profile adds, and plans that were played there, if any (@verified may be NULL) */
static enum plm_status read_measured(const struct yaml_node *node,
                                     const struct yaml_node *verified,
                                     struct arena *arena,
                                     struct plm_device *device,
                                     struct plm_error *reterr)
{
    struct measured measured;
    struct measured_margin margin;
    enum plm_status status = measured_read(node, arena, &measured, reterr);

    if (status != PLM_OK)
        return status;
    margin = measured_margin(&measured);

    char text[UNITS_TEXT];

    if (margin.margin > TOTAL_MAX)
        return plm_fail_at(reterr, PLM_E_RANGE, node->at,
                           "'measured' makes a margin of %s, more than any device has",
                           units_format_bytes(margin.margin, text));
    device->uuid = measured.uuid;
    device->driver = measured.driver;
    if (verified) {
        const struct verified_line *lines;
        size_t line_count;

        status = verified_read(verified, arena, &lines, &line_count, reterr);
        if (status != PLM_OK)
            return status;
        verified_narrow(lines, line_count, device->total, &margin);
    }
    device->margin = margin.margin;
    device->margin_reason = measured_margin_reason(&margin, arena);
    return PLM_OK;
}

enum plm_status device_load_file(const char *path,
                                 struct arena *arena,
                                 struct plm_device *ret_device,
                                 struct plm_error *reterr)
{
    const char *file = arena_copy(arena, path, strlen(path)), *text;
    const struct yaml_node *root;
    struct profile profile = { 0 };
    size_t length;
    int cc = 0;
    enum plm_status status = file_read(file, PROFILE_BYTES_MAX, arena, &text, &length, reterr);

    if (status == PLM_OK)
        status = yaml_parse(file, text, length, arena, &root, reterr);
    if (status == PLM_OK)
        status = decode_mapping(root, "a device profile", device_fields, device_field_count, NULL,
                                &profile, reterr);
    if (status == PLM_OK)
        status = check(root, &profile, &cc, reterr);
    if (status != PLM_OK)
        return status;
    *ret_device = (struct plm_device){
        .name = profile.device,
        .title = profile.title ? profile.title : profile.device,
        .total = profile.total,
        .context = profile.context,
        .cc = cc,
        .sm_count = (int)profile.processors,
        .threads_per_sm = (int)profile.threads_per_processor,
        .source = profile.total_source,
        .context_source = profile.context_source,
        .calibrated = profile.calibrated != NULL,
        .file = file,
    };
    if (profile.verified && !profile.measured)
        return plm_fail_at(reterr, PLM_E_SYNTAX, place_of(root, "verified"),
                           "'verified' needs 'measured': only a calibrated profile has it");
    return profile.measured
               ? read_measured(profile.measured, profile.verified, arena, ret_device, reterr)
               : PLM_OK;
}
