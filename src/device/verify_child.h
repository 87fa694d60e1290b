/* device/verify_child.h - the job of the process that plays */
#ifndef PLM_DEVICE_VERIFY_CHILD_H
#define PLM_DEVICE_VERIFY_CHILD_H

#include "device/verify.h"

/* struct verify_job - what it is given */
struct verify_job {
    const struct verify_plan *plan;
    const struct probe_options *options;
    plm_bytes total;       /* of the device */
    plm_bytes free_before; /* before its context, as another process saw it */
};

/*
 * job_verify() - says, in this order and as far as it comes,
 *
 *     context BYTES                       then it waits until it is let go
 *     before FREE HELD_BACK NEEDS ALLOWED free before its context; the plan's needs beside that, and what may be taken
 *     played COUNT                        now and then
 *     peak USED FREE LEFT AT_LEAST        at the peak
 *     verdict NUMBER PLAYED FREE          of enum plm_verdict
 */
child_job job_verify;

#endif
