/* api/calibrate.c - calibration, as the public interface gives it */
#include <string.h>

#include "base/buf.h"
#include "device/calibrate.h"
#include "device/kernels.h"
#include "plimsoll/calibrate.h"

struct plm_calibration {
    struct arena arena; /* holds this struct and all it points to */
    struct plm_calibrated result;
    struct buf profile;
};

enum plm_status plm_gpus(struct plm_gpu *gpus,
                         size_t most,
                         size_t *ret_count,
                         struct plm_error *reterr)
{
    struct arena arena = { 0 };
    struct cuda_identity *found = arena_array(&arena, struct cuda_identity, most);
    enum plm_status status = calibrate_gpus(found, most, ret_count, reterr);

    for (size_t i = 0; status == PLM_OK && i < *ret_count; i++) {
        struct plm_gpu *gpu = &gpus[i];

        *gpu = (struct plm_gpu){ 0 };
        memcpy(gpu->title, found[i].name, sizeof gpu->title);
        memcpy(gpu->uuid, found[i].uuid, sizeof gpu->uuid);
        memcpy(gpu->driver, found[i].driver, sizeof gpu->driver);
    }
    arena_finish(&arena);
    return status;
}

static const double MAX_FILL = 0.95;

static enum plm_status check(const struct plm_calibrate_options *options, struct plm_error *reterr)
{
    if (options->device < 0)
        return plm_fail(reterr, PLM_E_USAGE, "devices are counted from 0");
    if (!(options->max_fill >= 0 && options->max_fill <= 1))
        return plm_fail(reterr, PLM_E_USAGE, "max-fill is a share of free memory, at most 100 %%");
    if (!(options->watchdog >= 0))
        return plm_fail(reterr, PLM_E_USAGE, "a watchdog waits for 0 seconds or more");
    return PLM_OK;
}

static void describe_figures(struct plm_calibration *c, const struct measured *m)
{
    struct plm_figure *figures = arena_array(&c->arena, struct plm_figure, m->figure_count);
    const char **skipped = arena_array(&c->arena, const char *, m->skipped_count);

    for (size_t i = 0; i < m->figure_count; i++) {
        const struct figure *f = &m->figures[i];
        const struct figure_desc *desc = &figure_descs[f->id];

        figures[i] = (struct plm_figure){ .name = desc->name,
                                          .unit = figure_units[desc->unit],
                                          .how = desc->how,
                                          .size = f->size,
                                          .value = f->value,
                                          .low = f->low,
                                          .high = f->high,
                                          .count = f->count,
                                          .at_least = f->at_least };
    }
    for (size_t i = 0; i < m->skipped_count; i++) {
        struct buf text = { .arena = &c->arena };

        buf_printf(&text, "%s: %s", figure_descs[m->skipped[i].id].name, m->skipped[i].reason);
        skipped[i] = buf_string(&text);
    }
    c->result.figures = figures;
    c->result.figure_count = m->figure_count;
    c->result.skipped = skipped;
    c->result.skipped_count = m->skipped_count;
}

/* describe() - the result in short */
static void describe(struct plm_calibration *c, const struct calibration *found)
{
    const struct measured *m = &found->measured;
    struct measured_margin margin = measured_margin(m);

    c->result = (struct plm_calibrated){
        .name = calibrate_name(m->uuid, m->driver, &c->arena),
        .title = arena_copy(&c->arena, found->identity.name, strlen(found->identity.name)),
        .uuid = m->uuid,
        .driver = m->driver,
        .cuda = m->cuda,
        .runtime = m->runtime,
        .total = found->total,
        .context = m->context,
        .libraries = m->libraries,
        .margin = margin.margin,
        .margin_reason = measured_margin_reason(&margin, &c->arena),
    };
    describe_figures(c, m);
}

enum plm_status plm_calibrate(const struct plm_calibrate_options *options,
                              struct plm_calibration **ret_calibration,
                              struct plm_error *reterr)
{
    struct arena arena = { 0 };
    struct plm_calibration *c = arena_new(&arena, struct plm_calibration);
    struct calibration found;
    struct calibrate_options own = {
        .probe = { .ordinal = options->device,
                   .quick = options->quick,
                   .managed = options->managed,
                   .kernels = kernels_image(),
                   .max_fill = options->max_fill > 0 ? options->max_fill : MAX_FILL },
        .python = options->python,
        .watchdog = options->watchdog,
        .date = options->date,
        .progress = options->progress,
        .progress_context = options->progress_context,
    };
    enum plm_status status = check(options, reterr);

    c->arena = arena;
    if (status == PLM_OK)
        status = calibrate_run(&own, &c->arena, &found, reterr);
    if (status != PLM_OK) {
        plm_calibration_destroy(c);
        return status;
    }
    describe(c, &found);
    c->profile.arena = &c->arena;
    calibrate_write(&found, &c->profile);
    *ret_calibration = c;
    return PLM_OK;
}

const struct plm_calibrated *plm_calibration_result(const struct plm_calibration *calibration)
{
    return &calibration->result;
}

const char *plm_calibration_profile(const struct plm_calibration *calibration, size_t *ret_length)
{
    *ret_length = calibration->profile.length;
    return buf_string(&calibration->profile);
}

void plm_calibration_destroy(struct plm_calibration *calibration)
{
    if (!calibration)
        return;
    struct arena arena = calibration->arena; /* the struct itself is in there */

    arena_finish(&arena);
}
