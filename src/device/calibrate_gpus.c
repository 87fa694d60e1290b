/* device/calibrate_gpus.c - which GPUs are in this machine */
#include <stdio.h>
#include <string.h>

#include "device/calibrate.h"
#include "device/calibrate_child.h"

static const double PATIENCE = 30; /* seconds: the driver may have to start several GPUs */

/* after() - what follows @start in @line, which may be NULL; NULL when it begins otherwise */
static const char *after(const char *line, const char *start)
{
    size_t length = strlen(start);

    return line && strncmp(line, start, length) == 0 ? line + length : NULL;
}

enum plm_status calibrate_gpus(struct cuda_identity *gpus,
                               size_t most,
                               size_t *ret_count,
                               struct plm_error *reterr)
{
    struct child child;
    const char *line = NULL;
    size_t count = 0;
    enum plm_status status = child_start(&child, job_gpus, NULL, reterr);

    if (status != PLM_OK)
        return status;
    do {
        const char *rest;
        struct cuda_identity gpu = { 0 };

        status = child_line(&child, PATIENCE, &line, reterr);
        rest = status == PLM_OK ? after(line, "error ") : NULL;
        if (rest)
            status = plm_fail(reterr, PLM_E_DEVICE, "%s", rest);
        rest = status == PLM_OK ? after(line, "gpu ") : NULL;
        if (rest && count < most &&
            sscanf(rest, "%15s %15s %47s %127[^\n]", gpu.driver, gpu.cuda, gpu.uuid, gpu.name) ==
                4) {
            if (strcmp(gpu.uuid, "-") == 0)
                gpu.uuid[0] = '\0';
            gpus[count++] = gpu;
        }
    } while (status == PLM_OK && line);
    child_stop(&child);
    if (status == PLM_OK)
        *ret_count = count;
    return status;
}
