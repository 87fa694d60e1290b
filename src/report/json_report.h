/* report/json_report.h - the pieces of renderer_json's documents, in two files for their length */
#ifndef PLM_REPORT_JSON_REPORT_H
#define PLM_REPORT_JSON_REPORT_H

#include "report/json.h"
#include "report/report.h"

/* json_document() - open one and say what it is */
void json_document(struct json *json, const char *command);

/* Members of the object that is open. */
void json_recipe(struct json *json, const struct report *report);      /* "recipe" */
void json_memory(struct json *json, const struct plm_memory *memory);  /* the four figures */
void json_peak(struct json *json, const struct plm_result *result);    /* "peak" */
void json_ledger(struct json *json, const struct plm_result *result);  /* "ledger" */
void json_failure(struct json *json, const struct plm_result *result); /* "failure" */
void json_texts(struct json *json, const char *key, const char *const *texts, size_t text_count);

void json_compare(const struct compare_report *report, struct buf *out);
void json_difference(const struct difference_report *report, struct buf *out);

#endif
