/*
 * report/report_csv.c - the answer as rows (RFC 4180, with plain line feeds)
 *
 * An estimate is one row, or one for each class of ranks that differ; a plan one row for each candidate, so that runs can be appended to each other and read
 * into a table. The header line is always there; bytes are integers.
 */
#include <inttypes.h>
#include <string.h>

#include "report/csv.h"
#include "report/recipe.h"

void csv_field(struct buf *out, const char *text)
{
    bool quote;

    if (!text)
        return;
    quote = strpbrk(text, ",\"\r\n") != NULL;
    if (quote)
        buf_char(out, '"');
    for (; *text; text++) {
        if (*text == '"')
            buf_char(out, '"');
        buf_char(out, *text);
    }
    if (quote)
        buf_char(out, '"');
}

static void number(struct buf *out, uint64_t value)
{
    buf_printf(out, "%" PRIu64, value);
}

static void recipe_value(struct buf *out, const struct recipe_item *item)
{
    switch (item->kind) {
    case RECIPE_TEXT:
        csv_field(out, item->text);
        break;
    case RECIPE_COUNT:
        buf_printf(out, "%" PRId64, item->count);
        break;
    case RECIPE_REAL:
        buf_printf(out, "%.6g", item->real);
        break;
    case RECIPE_BOOL:
        buf_text(out, item->count ? "true" : "false");
        break;
    case RECIPE_ABSENT:
        break;
    }
}

/* settings() - all of --set in one field: "layers=24 heads=16" */
static void settings(struct buf *out, const struct plm_strategy *strategy)
{
    struct buf text = { .arena = out->arena };

    for (size_t i = 0; i < strategy->setting_count; i++)
        buf_printf(&text, "%s%s=%s", i ? " " : "", strategy->settings[i].name,
                   strategy->settings[i].value);
    csv_field(out, buf_string(&text));
}

static void recipe_header(struct buf *out,
                          const struct recipe_item *items,
                          size_t item_count,
                          bool batches)
{
    buf_text(out, "model,parameters,trainable_parameters");
    for (size_t i = 0; i < item_count; i++)
        if (batches ||
            (strcmp(items[i].key, "batch") != 0 && strcmp(items[i].key, "accumulate") != 0))
            buf_printf(out, ",%s", items[i].key);
    buf_text(out, ",set,capacity_bytes,context_bytes");
}

static void recipe_row(struct buf *out,
                       const struct report *report,
                       const struct recipe_item *items,
                       size_t item_count,
                       bool batches)
{
    const struct plm_result *r = report->result;

    csv_field(out, r->model);
    buf_printf(out, ",%" PRIu64 ",%" PRIu64, r->parameters, r->trainable_parameters);
    for (size_t i = 0; i < item_count; i++)
        if (batches ||
            (strcmp(items[i].key, "batch") != 0 && strcmp(items[i].key, "accumulate") != 0)) {
            buf_char(out, ',');
            recipe_value(out, &items[i]);
        }
    buf_char(out, ',');
    settings(out, report->strategy);
    buf_char(out, ',');
    if (r->capacity)
        number(out, r->capacity);
    buf_printf(out, ",%" PRIu64, r->context);
}

static void memory(struct buf *out, const struct plm_memory *m)
{
    buf_printf(out, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, m->requested, m->allocated,
               m->reserved, m->device);
}

static const char memory_header[] = ",requested_bytes,allocated_bytes,reserved_bytes,device_bytes";

/* estimate_row() - of one class of ranks, or of all when they are alike */
static void estimate_row(const struct report *report,
                         const struct plm_rank *rank,
                         const struct recipe_item *items,
                         size_t count,
                         struct buf *out)
{
    const struct plm_result *r = report->result;
    bool oom = rank ? rank->out_of_memory : r->out_of_memory, worst = !rank || rank->worst;
    int step = rank ? rank->step : r->at.step;

    recipe_row(out, report, items, count, true);
    memory(out, rank ? &rank->peak : &r->peak);
    buf_char(out, ',');
    if (r->has_minimum_capacity && worst)
        number(out, r->minimum_capacity);
    buf_printf(out, ",%s,%s,", r->fits < 0 ? "" : (oom ? "false" : "true"), oom ? "true" : "false");
    csv_field(out, rank ? rank->phase : r->at.phase);
    buf_char(out, ',');
    if (step >= 0)
        number(out, (uint64_t)step);
    buf_char(out, ',');
    csv_field(out, worst ? r->at.op : "");
    buf_char(out, ',');
    csv_field(out, worst ? r->at.block : "");
    buf_printf(out, ",%s", r->workspace_unknown ? "true" : "false");
    if (rank) {
        buf_char(out, ',');
        csv_field(out, rank->name);
        buf_printf(out, ",%" PRId64 ",%s", rank->rank, worst ? "true" : "false");
    }
    buf_char(out, '\n');
}

static void csv_estimate(const struct report *report, struct buf *out)
{
    const struct plm_result *r = report->result;
    size_t count;
    const struct recipe_item *items = recipe_items(report, out->arena, &count);

    recipe_header(out, items, count, true);
    buf_printf(out, "%s,minimum_capacity_bytes,fits,out_of_memory", memory_header);
    buf_text(out, ",phase,step,operator,block,workspace_unknown");
    buf_text(out, r->rank_count ? ",rank_class,rank,worst\n" : "\n");
    for (size_t i = 0; i < r->rank_count; i++)
        estimate_row(report, &r->ranks[i], items, count, out);
    if (r->rank_count == 0)
        estimate_row(report, NULL, items, count, out);
}

static void csv_plan(const struct report *report, struct buf *out)
{
    const struct plm_plan_result *plan = report->plan;
    size_t count;
    const struct recipe_item *items = recipe_items(report, out->arena, &count);

    buf_text(out, "batch,accumulate,chosen,finishes,safe");
    buf_printf(out, "%s,margin_bytes,reserve_bytes,", memory_header);
    recipe_header(out, items, count, false);
    buf_char(out, '\n');
    for (size_t i = 0; i < plan->candidate_count; i++) {
        const struct plm_candidate *c = &plan->candidates[i];

        buf_printf(out, "%" PRId64 ",%" PRId64 ",%s,%s,%s", c->batch, c->accumulate,
                   c->batch == plan->batch ? "true" : "false", c->finishes ? "true" : "false",
                   c->safe ? "true" : "false");
        memory(out, &c->peak);
        buf_printf(out, ",%" PRIu64 ",%" PRIu64 ",", plan->margin, plan->reserve);
        recipe_row(out, report, items, count, false);
        buf_char(out, '\n');
    }
}

static void csv_list(const struct list *list, struct buf *out)
{
    for (size_t i = 0; i < list->column_count; i++)
        buf_printf(out, "%s%s", i ? "," : "", list->columns[i].key);
    buf_char(out, '\n');
    for (size_t row = 0; row < list->row_count; row++) {
        for (size_t i = 0; i < list->column_count; i++) {
            const struct cell *cell = &list->cells[row * list->column_count + i];

            if (i > 0)
                buf_char(out, ',');
            if (list->columns[i].kind == CELL_TEXT)
                csv_field(out, cell->text);
            else
                number(out, cell->number);
        }
        buf_char(out, '\n');
    }
}

const struct renderer renderer_csv = {
    csv_estimate, csv_plan, csv_list, csv_compare, csv_difference,
};
