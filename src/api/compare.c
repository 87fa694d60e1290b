/* api/compare.c - strategies side by side, and baselines, as the public interface gives them */
#include <string.h>

#include "api/internal.h"
#include "base/error.h"
#include "import/baseline.h"
#include "plan/compare.h"
#include "yaml/file.h"

struct plm_compare {
    struct arena own;     /* holds this struct, @items and differences */
    struct arena *arenas; /* [job_count]: what @items point to */
    unsigned job_count;
    struct plm_compared *items;
    size_t item_count;
};

struct plm_baseline {
    struct arena own; /* holds this struct, too */
    const struct plm_baseline_entry *entries;
    size_t entry_count;
};

enum plm_status plm_compare(struct plm_model *model,
                            const struct plm_comparison *comparison,
                            struct plm_compare **ret_compare,
                            struct plm_error *reterr)
{
    struct arena own = { 0 };
    struct plm_compare *compare;

    if (comparison->strategy_count > PLM_COMPARE_MOST)
        return plm_fail(reterr, PLM_E_USAGE, "%zu strategies: at most %d are compared",
                        comparison->strategy_count, PLM_COMPARE_MOST);
    compare = arena_new(&own, struct plm_compare);
    compare->item_count = comparison->strategy_count;
    compare->job_count = compare_jobs(comparison);
    compare->items = arena_array(&own, struct plm_compared, compare->item_count);
    compare->arenas = arena_array(&own, struct arena, compare->job_count);
    if (model->subject.cudnn)
        cudnn_prepare(model->subject.cudnn);
    compare_run(&model->subject, comparison, model->warnings, model->warning_count, compare->arenas,
                compare->job_count, compare->items);
    compare->own = own;
    *ret_compare = compare;
    return PLM_OK;
}

const struct plm_compared *plm_compare_results(const struct plm_compare *compare, size_t *ret_count)
{
    *ret_count = compare->item_count;
    return compare->items;
}

enum plm_status plm_compare_difference(struct plm_compare *compare,
                                       size_t a,
                                       size_t b,
                                       const struct plm_difference **ret,
                                       struct plm_error *reterr)
{
    if (a >= compare->item_count || b >= compare->item_count)
        return plm_fail(reterr, PLM_E_USAGE, "there are %zu strategies", compare->item_count);
    if (!compare->items[a].result || !compare->items[b].result)
        return plm_fail(reterr, PLM_E_USAGE, "a strategy that was refused has no memory");
    *ret = compare_difference(compare->items[a].result, compare->items[b].result, &compare->own);
    return PLM_OK;
}

void plm_compare_destroy(struct plm_compare *compare)
{
    if (!compare)
        return;
    struct arena own = compare->own; /* the struct itself is in there */

    for (unsigned i = 0; i < compare->job_count; i++)
        arena_finish(&compare->arenas[i]);
    arena_finish(&own);
}

enum plm_status plm_baseline_load(const char *file,
                                  struct plm_baseline **ret_baseline,
                                  struct plm_error *reterr)
{
    struct arena own = { 0 };
    struct plm_baseline *baseline = arena_new(&own, struct plm_baseline);
    const char *name = arena_copy(&own, file, strlen(file)), *text;
    const struct yaml_node *root;
    size_t length;
    enum plm_status status = file_read(name, YAML_BYTES_MAX, &own, &text, &length, reterr);

    if (status == PLM_OK)
        status = yaml_parse(name, text, length, &own, &root, reterr);
    if (status == PLM_OK)
        status = baseline_read(root, &own, &baseline->entries, &baseline->entry_count, reterr);
    if (status != PLM_OK) {
        arena_finish(&own);
        return status;
    }
    baseline->own = own;
    *ret_baseline = baseline;
    return PLM_OK;
}

const struct plm_baseline_entry *plm_baseline_entries(const struct plm_baseline *baseline,
                                                      size_t *ret_count)
{
    *ret_count = baseline->entry_count;
    return baseline->entries;
}

void plm_baseline_destroy(struct plm_baseline *baseline)
{
    if (!baseline)
        return;
    struct arena own = baseline->own; /* the struct itself is in there */

    arena_finish(&own);
}
