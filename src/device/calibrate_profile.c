/* device/calibrate_profile.c - what was measured as the text of a profile */
#include <inttypes.h>

#include "base/units.h"
#include "device/calibrate.h"

const char *calibrate_name(const char *uuid, const char *driver, struct arena *arena)
{
    struct buf name = { .arena = arena };

    buf_printf(&name, "%s-%s", *uuid ? uuid : "GPU", driver);
    return buf_string(&name);
}

/* Required keys with closing quotes come last: a file that was cut is then no profile, wherever it ends. */
void calibrate_write(const struct calibration *c, struct buf *out)
{
    const struct measured *m = &c->measured;
    const struct figure *framework = measured_figure(m, FIGURE_FRAMEWORK, 0);
    char context[UNITS_TEXT], libraries[UNITS_TEXT], own[UNITS_TEXT];

    buf_printf(out, "# written by plimsoll calibrate; plimsoll-device(5) describes it\n");
    buf_printf(out, "plimsoll: 1\ndevice: %s\ntitle: ",
               calibrate_name(c->identity.uuid, c->identity.driver, out->arena));
    measured_quote(out, c->identity.name);
    buf_printf(out, "\ncalibrated: %s\n", m->date);
    measured_write(m, out);
    buf_printf(out,
               "compute_capability: %d.%d\nprocessors: %d\nthreads_per_processor: %d\n"
               "total: %" PRIu64 "\ntotal_source: \"measured: cudaMemGetInfo\"\n",
               c->capability / 10, c->capability % 10, c->processors, c->threads_per_processor,
               c->total);
    buf_printf(out,
               "context: %" PRIu64 "\ncontext_source: \"measured: a CUDA context of %s, %s of "
               "libraries, and %s of the framework's own kernels\"\n",
               c->context, units_format_bytes(m->context, context),
               units_format_bytes(m->libraries, libraries),
               framework ? units_format_bytes((plm_bytes)framework->value, own) : "nothing");
}
