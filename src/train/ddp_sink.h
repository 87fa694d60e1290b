/* train/ddp_sink.h - the outputs of DistributedDataParallel when it looks for unused parameters */
#ifndef PLM_TRAIN_DDP_SINK_H
#define PLM_TRAIN_DDP_SINK_H

#include "train/wrapper.h"

/* ddp_sink() - copy all tensors among the call's outputs, so that the backward begins at one node */
void ddp_sink(struct run *run, struct wrapped_call *call);

#endif
