/*
 * import/deepspeed_sections.h - the parts of a DeepSpeed configuration that have a file of their own
 *
 * Each is a reader of the value under its key, which the errors name.
 */
#ifndef PLM_IMPORT_DEEPSPEED_SECTIONS_H
#define PLM_IMPORT_DEEPSPEED_SECTIONS_H

#include "import/deepspeed_keys.h"

/* deepspeed_zero.c */
keys_reader section_zero_optimization;

/* deepspeed_training.c */
keys_reader section_bf16, section_fp16, section_data_types, section_optimizer;
keys_reader section_clipping, section_communication_type;

/* section_check_offload() - what "offload_param" wants of the stage and of "offload_optimizer"; @zero may be NULL */
PLM_MUST_CHECK enum plm_status section_check_offload(struct keys_context *c,
                                                     const struct yaml_node *zero);

#endif
