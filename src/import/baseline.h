/*
 * import/baseline.h - results that `compare --json` or `estimate --json` wrote before
 *
 * Only what identifies a strategy and its peak is read; further keys are passed over, so that documents of later versions
 * can be read as long as their schema_version is the same.
 */
#ifndef PLM_IMPORT_BASELINE_H
#define PLM_IMPORT_BASELINE_H

#include "plimsoll/plimsoll.h"
#include "yaml/document.h"

enum { BASELINE_SCHEMA = 1 }; /* the schema_version that is understood */

/* baseline_read() - the strategies of a document, in its order; those that were refused are left out */
PLM_MUST_CHECK enum plm_status baseline_read(const struct yaml_node *root,
                                             struct arena *arena,
                                             const struct plm_baseline_entry **ret_entries,
                                             size_t *ret_count,
                                             struct plm_error *reterr);

#endif
