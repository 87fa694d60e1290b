/* import/baseline.c - results that were written before, from JSON (which is YAML) */
#include <string.h>

#include "base/buf.h"
#include "import/baseline.h"
#include "yaml/decode.h"

static const char *const expected =
    "the JSON that 'plimsoll compare' or 'plimsoll estimate' writes";

static enum plm_status fail(const struct yaml_node *node, const char *key, struct plm_error *reterr)
{
    return plm_fail_at(reterr, PLM_E_SYNTAX, node->at, "no '%s' here: a baseline is %s", key,
                       expected);
}

/* add_recipe() - the pairs of a mapping, but for null; names begin with @prefix */
static size_t add_recipe(const struct yaml_node *mapping,
                         const char *prefix,
                         struct arena *arena,
                         struct plm_setting *recipe)
{
    size_t count = 0;

    for (size_t i = 0; mapping && i < mapping->item_count; i++) {
        const struct yaml_node *value = mapping->items[i];
        struct buf name = { .arena = arena };

        if (value->kind != YAML_SCALAR || yaml_is_null(value))
            continue;
        buf_printf(&name, "%s%s", prefix, mapping->keys[i]->text);
        recipe[count++] = (struct plm_setting){ buf_string(&name), value->text };
    }
    return count;
}

static enum plm_status read_bytes(const struct yaml_node *peak,
                                  const char *key,
                                  plm_bytes *ret,
                                  struct plm_error *reterr)
{
    const struct yaml_node *node = yaml_get(peak, key);
    int64_t value;

    if (!node)
        return fail(peak, key, reterr);
    if (yaml_is_null(node)) /* none was given */
        return PLM_OK;
    enum plm_status status = decode_int(node, key, &value, reterr);

    if (status == PLM_OK && value < 0)
        status = plm_fail_at(reterr, PLM_E_RANGE, node->at, "'%s' must not be negative", key);
    if (status == PLM_OK)
        *ret = (plm_bytes)value;
    return status;
}

static enum plm_status read_entry(const struct yaml_node *node,
                                  const char *model,
                                  struct arena *arena,
                                  struct plm_baseline_entry *entry,
                                  struct plm_error *reterr)
{
    const struct yaml_node *recipe = yaml_get(node, "recipe"), *peak = yaml_get(node, "peak");
    const struct yaml_node *set = yaml_get(recipe, "set"), *failure = yaml_get(node, "failure");

    if (!recipe || recipe->kind != YAML_MAPPING)
        return fail(node, "recipe", reterr);
    if (!peak || peak->kind != YAML_MAPPING)
        return fail(node, "peak", reterr);
    struct plm_setting *pairs =
        arena_array(arena, struct plm_setting, recipe->item_count + (set ? set->item_count : 0));

    entry->model = model;
    entry->recipe = pairs;
    entry->recipe_count = add_recipe(recipe, "", arena, pairs);
    if (set && set->kind == YAML_MAPPING)
        entry->recipe_count += add_recipe(set, "set.", arena, pairs + entry->recipe_count);
    entry->out_of_memory = failure && !yaml_is_null(failure);
    enum plm_status status = read_bytes(peak, "requested_bytes", &entry->peak.requested, reterr);

    if (status == PLM_OK)
        status = read_bytes(peak, "allocated_bytes", &entry->peak.allocated, reterr);
    if (status == PLM_OK)
        status = read_bytes(peak, "reserved_bytes", &entry->peak.reserved, reterr);
    if (status == PLM_OK)
        status = read_bytes(peak, "device_bytes", &entry->peak.device, reterr);
    if (status == PLM_OK)
        status = read_bytes(node, "capacity_bytes", &entry->capacity, reterr);
    if (status == PLM_OK)
        status = read_bytes(node, "context_bytes", &entry->context, reterr);
    return status;
}

/* refused() - of a comparison: this strategy has no peak */
static bool refused(const struct yaml_node *node)
{
    const struct yaml_node *error = yaml_get(node, "refused");

    return error && !yaml_is_null(error);
}

static enum plm_status check_version(const struct yaml_node *root, struct plm_error *reterr)
{
    const struct yaml_node *node = yaml_get(root, "schema_version");
    int64_t version;

    if (!node)
        return fail(root, "schema_version", reterr);
    enum plm_status status = decode_int(node, "schema_version", &version, reterr);

    if (status == PLM_OK && version != BASELINE_SCHEMA)
        status = plm_fail_at(reterr, PLM_E_SYNTAX, node->at,
                             "'schema_version' is %lld, and %d is understood", (long long)version,
                             BASELINE_SCHEMA);
    return status;
}

enum plm_status baseline_read(const struct yaml_node *root,
                              struct arena *arena,
                              const struct plm_baseline_entry **ret_entries,
                              size_t *ret_count,
                              struct plm_error *reterr)
{
    const struct yaml_node *model = yaml_get(root, "model"), *list = yaml_get(root, "strategies");
    size_t count = list ? list->item_count : 1, kept = 0;
    enum plm_status status = check_version(root, reterr);

    if (status != PLM_OK)
        return status;
    if (!model || model->kind != YAML_SCALAR)
        return fail(root, "model", reterr);
    if (list && list->kind != YAML_SEQUENCE)
        return plm_fail_at(reterr, PLM_E_SYNTAX, list->at, "'strategies' must be a list");
    struct plm_baseline_entry *entries = arena_array(arena, struct plm_baseline_entry, count);

    for (size_t i = 0; i < count; i++) {
        const struct yaml_node *node = list ? list->items[i] : root;

        if (refused(node))
            continue;
        status = read_entry(node, model->text, arena, &entries[kept++], reterr);
        if (status != PLM_OK)
            return status;
    }
    *ret_entries = entries;
    *ret_count = kept;
    return PLM_OK;
}
