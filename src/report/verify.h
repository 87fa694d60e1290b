/* report/verify.h - plans that were played on the GPU */
#ifndef PLM_REPORT_VERIFY_H
#define PLM_REPORT_VERIFY_H

#include "plimsoll/verify.h"
#include "report/layout.h"

/* struct verify_rung - one batch; several make a ladder */
struct verify_rung {
    int64_t batch;
    plm_bytes planned;        /* on the device, at the peak */
    const char *failed_phase; /* of the request that failed; NULL: none did */
    int failed_step;
    plm_bytes failed_bytes;
    struct plm_verified verified;
};

struct verify_report {
    const char *model;
    const char *gpu, *uuid;          /* what was played on */
    const char *device;              /* the profile that was planned for */
    const struct verify_rung *rungs; /* [rung_count], by batch */
    size_t rung_count;
    size_t asked;                    /* index of the batch that was asked for */
    bool has_profile;                /* the one that was planned for was measured on this GPU */
    const char *profile;             /* where it was kept; NULL: nowhere */
    plm_bytes margin_before, margin; /* of plans for that profile */
    const char *margin_reason;
};

void verify_text(const struct verify_report *report, struct layout *layout);
void verify_json(const struct verify_report *report, struct buf *out);

#endif
