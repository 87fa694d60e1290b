/*
 * device/cudnn_attention.h - scaled_dot_product_attention as the graphs that PyTorch 2.15 has cuDNN plan
 */
#ifndef PLM_DEVICE_CUDNN_ATTENTION_H
#define PLM_DEVICE_CUDNN_ATTENTION_H

#include "device/cudnn_call.h"
#include "device/cudnn_maker.h"

/* cudnn_attention_graph() - the finalized graph of @call for compute capability @cc (100 for 10.0); NULL after a failure */
backend_desc cudnn_attention_graph(struct maker *m, const struct cudnn_call *call, int cc);

/* cudnn_attention_is_fixed() - does the front end name an engine for @call instead of asking a heuristic? */
bool cudnn_attention_is_fixed(const struct cudnn_call *call, int cc);

/* cudnn_attention_config() - that engine with its settings, as the configuration of a plan; NULL after a failure */
backend_desc cudnn_attention_config(struct maker *m, backend_desc graph, backend_desc device);

/* cudnn_attention_kept() - bytes of tensors that the front end keeps in the workspace, beside what the plan wants */
plm_bytes cudnn_attention_kept(const struct cudnn_call *call, int cc);

#endif
