/*
 * import/config_json.h - a Hugging Face config.json as a zoo model and values for its dims and options
 *
 * The zoo's files say which architectures they stand for and which keys fill what (`config_json:`); nothing
 * about a particular architecture is known here.
 */
#ifndef PLM_IMPORT_CONFIG_JSON_H
#define PLM_IMPORT_CONFIG_JSON_H

#include "model/model.h"

/* struct config_import - what a config.json means; everything in the arena that was given */
struct config_import {
    const struct model *model;
    const struct model_setting *settings; /* [setting_count]: before those of `--set` */
    size_t setting_count;
    const char *const *warnings; /* [warning_count]: what the config has and the model has not */
    size_t warning_count;
};

/* config_json_is() - does this document look like a config.json rather than a model file? */
bool config_json_is(const struct yaml_node *root);

/* config_json_import() - choose among @models by the architecture, and translate; models without a section are skipped */
PLM_MUST_CHECK enum plm_status config_json_import(const struct yaml_node *root,
                                                  const struct model *const *models,
                                                  size_t model_count,
                                                  struct arena *arena,
                                                  struct config_import *ret_import,
                                                  struct plm_error *reterr);

#endif
