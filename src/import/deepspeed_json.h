/*
 * import/deepspeed_json.h - a DeepSpeed configuration file as a strategy
 *
 * Keys and defaults are those of deepspeed/runtime/config.py, precision_config.py and zero/config.py (DeepSpeed 0.19.8). What
 * takes no memory on the device is accepted and does nothing; what would, and is not modelled, is an error where it stands.
 */
#ifndef PLM_IMPORT_DEEPSPEED_JSON_H
#define PLM_IMPORT_DEEPSPEED_JSON_H

#include "plimsoll/plimsoll.h"
#include "yaml/document.h"

/*
 * deepspeed_json_import() - what the file does not say, or says is "auto", stays in @strategy as it is
 *
 * What @strategy has already was asked for: a file that says otherwise is refused. Of values whose zero is a choice too, has_precision,
 * has_optimizer and has_offload tell.
 */
PLM_MUST_CHECK enum plm_status deepspeed_json_import(const struct yaml_node *root,
                                                     struct plm_strategy *strategy,
                                                     struct plm_error *reterr);

#endif
