/* report/text_ranks.c - the ranks of a parallel run by class, for people */
#include <stdio.h>

#include "report/table.h"
#include "report/text.h"

static void row(struct table *table, const struct plm_rank *rank)
{
    enum style style = rank->worst ? STYLE_BOLD : STYLE_PLAIN;

    table_text(table, style, rank->name);
    table_bytes(table, style, rank->peak.allocated, "-");
    table_bytes(table, style, rank->peak.reserved, "-");
    table_bytes(table, style, rank->peak.device, "-");
    table_text(table, style, rank->out_of_memory ? "out of memory" : rank->phase);
    table_text(table, style, rank->worst ? "worst" : "");
}

static void about(struct layout *layout, const struct plm_rank *rank)
{
    if (!*rank->about)
        return;
    layout_style(layout, STYLE_DIM);
    buf_text(layout->out, "    ");
    layout_wrap(layout, rank->about, 4, 4);
    layout_style(layout, STYLE_PLAIN);
}

void text_ranks(struct layout *layout, const struct plm_result *r)
{
    static const struct table_column columns[] = {
        { .width = 20, .shortens = true },
        { .title = "allocated", .align = TABLE_RIGHT, .width = 11 },
        { .title = "reserved", .align = TABLE_RIGHT, .width = 11 },
        { .title = "device", .align = TABLE_RIGHT, .width = 11 },
        { .title = "peak in", .width = 13, .gap = 2 },
        { .width = 0 },
    };
    struct table table = TABLE(layout, 2, columns);
    struct buf text = { .arena = layout->out->arena };

    if (r->rank_count < 2)
        return;
    for (size_t i = 0; i < r->rank_count; i++)
        row(&table, &r->ranks[i]);
    table_measure(&table);
    buf_char(layout->out, '\n');
    table_titles(&table, layout, "Ranks");
    for (size_t i = 0; i < r->rank_count; i++) {
        table_row(&table, layout, i);
        about(layout, &r->ranks[i]);
    }
    if (!r->rank_reason)
        return;
    buf_printf(&text, "the worst has %s; everything else here is of it", r->rank_reason);
    buf_text(layout->out, "  ");
    layout_wrap(layout, buf_string(&text), 2, 2);
}
