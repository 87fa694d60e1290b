/* report/text_ranks.c - the ranks of a parallel run by class, for people */
#include <stdio.h>

#include "report/text.h"

enum { NAME = 20, PHASE = 14 };

static void row(struct layout *layout, const struct plm_rank *rank)
{
    buf_text(layout->out, "  ");
    if (rank->worst)
        layout_style(layout, STYLE_BOLD);
    layout_left(layout, rank->name, NAME);
    layout_bytes(layout, rank->peak.allocated, "-", 12);
    layout_bytes(layout, rank->peak.reserved, "-", 12);
    layout_bytes(layout, rank->peak.device, "-", 12);
    buf_text(layout->out, "  ");
    layout_left(layout, rank->out_of_memory ? "out of memory" : rank->phase,
                rank->worst ? PHASE : 0);
    if (rank->worst) {
        buf_text(layout->out, "worst");
        layout_style(layout, STYLE_PLAIN);
    }
    buf_char(layout->out, '\n');
    if (!*rank->about)
        return;
    layout_style(layout, STYLE_DIM);
    buf_text(layout->out, "    ");
    layout_wrap(layout, rank->about, 4, 4);
    layout_style(layout, STYLE_PLAIN);
}

void text_ranks(struct layout *layout, const struct plm_result *r)
{
    struct buf text = { .arena = layout->out->arena };

    if (r->rank_count < 2)
        return;
    layout_heading(layout, "Ranks");
    layout_style(layout, STYLE_DIM);
    buf_printf(layout->out, "%*s%12s%12s%12s  %s\n", NAME + 2 - 5, "", "allocated", "reserved",
               "device", "peak in");
    layout_style(layout, STYLE_PLAIN);
    for (size_t i = 0; i < r->rank_count; i++)
        row(layout, &r->ranks[i]);
    if (!r->rank_reason)
        return;
    buf_printf(&text, "the worst has %s; everything else here is of it", r->rank_reason);
    buf_text(layout->out, "  ");
    layout_wrap(layout, buf_string(&text), 2, 2);
}
