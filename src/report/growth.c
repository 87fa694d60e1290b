/* report/growth.c - a result against one that was written before */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "report/growth.h"
#include "report/recipe.h"

static const char *find(const struct plm_baseline_entry *entry, const char *key)
{
    for (size_t i = 0; i < entry->recipe_count; i++)
        if (strcmp(entry->recipe[i].name, key) == 0)
            return entry->recipe[i].value;
    return NULL;
}

/* is_outcome() - in the recipe, and not an option */
static bool is_outcome(const char *key)
{
    return strcmp(key, "checkpoint_chosen") == 0;
}

/* value_is() - does the item have the value @text, as JSON has it? */
static bool value_is(const struct recipe_item *item, const char *text)
{
    char number[32];

    switch (item->kind) {
    case RECIPE_TEXT:
        return strcmp(item->text, text) == 0;
    case RECIPE_COUNT:
        snprintf(number, sizeof number, "%" PRId64, item->count);
        return strcmp(number, text) == 0;
    case RECIPE_REAL:
        snprintf(number, sizeof number, "%.6g", item->real);
        return strcmp(number, text) == 0;
    case RECIPE_BOOL:
        return strcmp(item->count ? "true" : "false", text) == 0;
    case RECIPE_ABSENT:
        break;
    }
    return false;
}

static bool has_item(const struct recipe_item *items, size_t count, const char *key)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(items[i].key, key) == 0)
            return true;
    return false;
}

/* struct unlike - in how many options a strategy and an entry differ, and one of them */
struct unlike {
    size_t count;
    const char *key;
};

static void differs(struct unlike *unlike, const char *key)
{
    if (unlike->count++ == 0)
        unlike->key = key;
}

static bool has_setting(const struct plm_strategy *strategy, const char *name)
{
    for (size_t i = 0; i < strategy->setting_count; i++)
        if (strcmp(strategy->settings[i].name, name) == 0)
            return true;
    return false;
}

static void compare_settings(const struct plm_strategy *strategy,
                             const struct plm_baseline_entry *entry,
                             struct arena *arena,
                             struct unlike *unlike)
{
    for (size_t i = 0; i < strategy->setting_count; i++) {
        struct buf key = { .arena = arena };

        buf_printf(&key, "set.%s", strategy->settings[i].name);
        const char *value = find(entry, buf_string(&key));

        if (!value || strcmp(value, strategy->settings[i].value) != 0)
            differs(unlike, buf_string(&key));
    }
    for (size_t i = 0; i < entry->recipe_count; i++) {
        const char *key = entry->recipe[i].name;

        if (strncmp(key, "set.", 4) == 0 && !has_setting(strategy, key + 4))
            differs(unlike, key);
    }
}

static struct unlike compare_entry(const struct report *report,
                                   const struct recipe_item *items,
                                   size_t item_count,
                                   const struct plm_baseline_entry *entry,
                                   struct arena *arena)
{
    struct unlike unlike = { 0 };

    if (strcmp(entry->model, report->result->model) != 0)
        differs(&unlike, "model");
    for (size_t i = 0; i < item_count; i++) {
        const char *value = find(entry, items[i].key);

        if (is_outcome(items[i].key))
            continue;
        if (value ? !value_is(&items[i], value) : items[i].kind != RECIPE_ABSENT && !items[i].usual)
            differs(&unlike, items[i].key);
    }
    for (size_t i = 0; i < entry->recipe_count; i++) {
        const struct plm_setting *pair = &entry->recipe[i];

        if (strncmp(pair->name, "set.", 4) != 0 && !is_outcome(pair->name) &&
            strcmp(pair->value, "false") != 0 && !has_item(items, item_count, pair->name))
            differs(&unlike, pair->name);
    }
    compare_settings(report->strategy, entry, arena, &unlike);
    return unlike;
}

const struct plm_baseline_entry *growth_find(const struct report *report,
                                             const struct plm_baseline_entry *entries,
                                             size_t entry_count,
                                             struct arena *arena)
{
    size_t count;
    const struct recipe_item *items = recipe_items(report, arena, &count);

    const struct plm_baseline_entry *first = NULL;

    for (size_t i = 0; i < entry_count; i++) {
        if (compare_entry(report, items, count, &entries[i], arena).count > 0)
            continue;
        if (entries[i].capacity == report->result->capacity &&
            entries[i].context == report->result->context)
            return &entries[i];
        first = first ? first : &entries[i];
    }
    return first;
}

const char *growth_unlike(const struct report *report,
                          const struct plm_baseline_entry *entries,
                          size_t entry_count,
                          struct arena *arena)
{
    struct unlike least = { SIZE_MAX, NULL };
    size_t count;
    const struct recipe_item *items = recipe_items(report, arena, &count);

    for (size_t i = 0; i < entry_count; i++) {
        struct unlike unlike = compare_entry(report, items, count, &entries[i], arena);

        if (unlike.count < least.count)
            least = unlike;
    }
    return least.key;
}

static double share_of(plm_bytes from, plm_bytes to)
{
    if (from == 0)
        return to > 0 ? 1 : 0;
    return ((double)to - (double)from) / (double)from;
}

struct growth growth_of(const struct plm_result *result,
                        const struct plm_baseline_entry *before,
                        double allow)
{
    const struct plm_memory *a = &before->peak, *b = &result->peak;
    const struct {
        const char *name;
        plm_bytes from, to;
    } figures[] = {
        { "allocated", a->allocated, b->allocated },
        { "reserved", a->reserved, b->reserved },
        { "requested", a->requested, b->requested },
        { "device", a->device, b->device },
    };
    struct growth growth = { .before = before };

    if (before->out_of_memory)
        return growth;
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        double share = share_of(figures[i].from, figures[i].to);

        if (growth.figure && share <= growth.share)
            continue;
        growth.figure = figures[i].name;
        growth.from = figures[i].from;
        growth.to = figures[i].to;
        growth.share = share;
    }
    growth.grew = growth.share > allow;
    if (result->out_of_memory) {
        growth.figure = "out of memory";
        growth.grew = true;
    }
    return growth;
}
