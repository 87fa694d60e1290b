/*
 * cli/here.c - the profile of the GPU in this machine, and whether a profile is of one that is here
 *
 * The driver is asked only when a calibrated profile is used: that takes a moment. Where there is no GPU, such as on a login node, a
 * profile from elsewhere is what one wants, and there is nothing to compare it with.
 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/units.h"
#include "cli/here.h"
#include "cli/talk.h"
#include "plimsoll/calibrate.h"

enum { GPUS_MAX = 64 };

static const char local[] = "local";

bool here_asked(const char *name)
{
    size_t length = strlen(local);

    return strncmp(name, local, length) == 0 && (name[length] == '\0' || name[length] == ':');
}

static void warn(const struct buf *text)
{
    const char *warning = buf_string(text);

    talk_warnings(&warning, 1);
}

/* warn_driver() - @device is of this GPU, and was measured with another driver */
static void warn_driver(struct cli *cli, const struct plm_device *device, const char *driver)
{
    struct buf text = { .arena = &cli->arena };

    buf_printf(&text,
               "%s was measured with driver %s, and the driver here is %s; "
               "'plimsoll calibrate' measures anew",
               device->name, device->driver, driver);
    warn(&text);
}

/* find_of() - a calibrated profile of the GPU @uuid (NULL: of any), one for @driver before others; *ret_count is how many there are */
static const struct plm_device *find_of(const struct plm_device_list *list,
                                        const char *uuid,
                                        const char *driver,
                                        size_t *ret_count)
{
    const struct plm_device *found = NULL;

    *ret_count = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct plm_device *d = &list->items[i];

        if (!d->uuid || (uuid && strcmp(d->uuid, uuid) != 0))
            continue;
        (*ret_count)++;
        if (!found || (driver && strcmp(d->driver, driver) == 0))
            found = d;
    }
    return found;
}

const struct plm_device *here_profile(struct cli *cli,
                                      const char *uuid,
                                      const char *title,
                                      const char *driver)
{
    struct plm_device_list list;
    const struct plm_device *found;
    size_t count;

    plm_devices(cli->context, &list);
    talk_left_out(list.wrong, list.wrong_count);
    found = find_of(&list, uuid, driver, &count);
    for (size_t i = 0; i < list.count && !found; i++)
        if (!list.items[i].uuid && strcmp(list.items[i].title, title) == 0)
            found = &list.items[i];
    return found;
}

/* wrong_of() - a file that `plimsoll calibrate` has named after the GPU @uuid, and that is no profile */
static const struct plm_error *wrong_of(const struct plm_device_list *list, const char *uuid)
{
    for (size_t i = 0; i < list->wrong_count; i++) {
        const char *file = list->wrong[i].file, *slash = strrchr(file, '/');

        if (strncmp(slash ? slash + 1 : file, uuid, strlen(uuid)) == 0)
            return &list->wrong[i];
    }
    return NULL;
}

/* without_gpu() - no driver or no GPU: the only calibrated profile, if it is the only one */
static enum plm_status without_gpu(struct cli *cli,
                                   const struct plm_device_list *list,
                                   const struct plm_device **ret_device,
                                   struct plm_error *reterr)
{
    struct buf text = { .arena = &cli->arena };
    size_t count;
    const struct plm_device *device = find_of(list, NULL, NULL, &count);

    talk_left_out(list->wrong, list->wrong_count);
    if (count != 1)
        return plm_fail(
            reterr, PLM_E_DEVICE,
            "there is no GPU here, and %s: name the device ('plimsoll devices' lists them)",
            count ? "several profiles are calibrated" : "no profile is calibrated");
    buf_printf(&text, "there is no GPU here; the calibrated profile of %s (%s) is taken",
               device->title, device->uuid);
    warn(&text);
    *ret_device = device;
    return PLM_OK;
}

/* of_gpu() - its calibrated profile; where that one's file is wrong, this is the mistake */
static enum plm_status of_gpu(struct cli *cli,
                              const struct plm_device_list *list,
                              const struct plm_gpu *gpu,
                              const struct plm_device **ret_device,
                              struct plm_error *reterr)
{
    size_t count;
    const struct plm_device *device = find_of(list, gpu->uuid, gpu->driver, &count);
    const struct plm_error *wrong = device ? NULL : wrong_of(list, gpu->uuid);

    if (wrong) {
        *reterr = *wrong;
        return PLM_E_SYNTAX;
    }
    talk_left_out(list->wrong, list->wrong_count);
    if (!device)
        return plm_fail(reterr, PLM_E_DEVICE,
                        "no profile of the GPU here (%s, %s): 'plimsoll calibrate' measures it",
                        gpu->title, gpu->uuid);
    if (strcmp(device->driver, gpu->driver) != 0)
        warn_driver(cli, device, gpu->driver);
    *ret_device = device;
    return PLM_OK;
}

enum plm_status here_number(const char *name, int64_t *ret_number, struct plm_error *reterr)
{
    const char *number = name + strlen(local);

    *ret_number = 0;
    if (*number && (!units_parse_int(number + 1, ret_number) || *ret_number < 0))
        return plm_fail(reterr, PLM_E_USAGE,
                        "--device: '%.40s' is not accepted; accepted: local or local:N, from 0",
                        name);
    return PLM_OK;
}

enum plm_status here_find(struct cli *cli,
                          const char *name,
                          const struct plm_device **ret_device,
                          struct plm_error *reterr)
{
    struct plm_gpu gpus[GPUS_MAX];
    struct plm_device_list list;
    int64_t n = 0;
    size_t gpu_count = 0;
    enum plm_status status = here_number(name, &n, reterr);

    if (status != PLM_OK)
        return status;
    plm_devices(cli->context, &list);
    if (plm_gpus(gpus, GPUS_MAX, &gpu_count, reterr) != PLM_OK || gpu_count == 0)
        return without_gpu(cli, &list, ret_device, reterr);
    if ((size_t)n >= gpu_count)
        return plm_fail(reterr, PLM_E_DEVICE, "there is no GPU %lld: there are %zu", (long long)n,
                        gpu_count);
    return of_gpu(cli, &list, &gpus[n], ret_device, reterr);
}

void here_compare(struct cli *cli, const struct plm_device *device)
{
    struct plm_gpu gpus[GPUS_MAX];
    struct plm_error error;
    struct buf text = { .arena = &cli->arena };
    size_t count = 0;

    if (!device->uuid || plm_gpus(gpus, GPUS_MAX, &count, &error) != PLM_OK || count == 0)
        return;
    for (size_t i = 0; i < count; i++)
        if (strcmp(gpus[i].uuid, device->uuid) == 0) {
            if (strcmp(gpus[i].driver, device->driver) != 0)
                warn_driver(cli, device, gpus[i].driver);
            return;
        }
    buf_printf(&text, "%s was measured on another GPU (%s) than %s here (%s)", device->name,
               device->uuid, count > 1 ? "those" : "the one", gpus[0].uuid);
    warn(&text);
}
