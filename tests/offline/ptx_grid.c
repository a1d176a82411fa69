/* Runs the groups of a grid of PTX (ptx.h), one after the other: which warp goes on, and when copies arrive. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx.h"

static void run_group(struct ptx_group *g)
{
    int running = g->n_warps, idle = 0;
    while (running > 0) {
        static const int lengths[] = { 1, 3, 30, 300 };
        ptx_land(g, (int)ptx_random(g, 1u << ptx_random(g, 7)));
        struct ptx_warp *w = &g->warps[ptx_random(g, (unsigned)g->n_warps)];
        if (w->is_done || w->waits_at >= 0) {
            if (++idle > 10000000) {
                ptx_fail(&g->text->code[w->pc[0]], "all warps wait");
            }
            continue;
        }
        idle = 0;
        ptx_warp_go(w, lengths[ptx_random(g, 4)]);
        running -= w->is_done;
    }
    if (g->n_copies > 0) {
        fprintf(stderr, "ptx: %d copies are under way when the group has ended\n", g->n_copies);
        exit(1);
    }
}

/* Special registers of one axis for the warp's lanes; `before`: items of a group along the axes before it. */
static void set_axis(struct ptx_warp *w, int axis, size_t before, size_t items, size_t group, size_t groups)
{
    for (int lane = 0; lane < PTX_LANES; ++lane) {
        w->r[PTX_TID + axis][lane] = ((size_t)(w->number * PTX_LANES + lane) / before) % items;
        w->r[PTX_CTAID + axis][lane] = group;
        w->r[PTX_NTID + axis][lane] = items;
        w->r[PTX_NCTAID + axis][lane] = groups;
    }
}

void ptx_run(const struct ptx_text *text, const unsigned char *params, const size_t groups[3], const size_t items[3],
             unsigned seed)
{
    struct ptx_group *g = calloc(1, sizeof(*g));
    g->text = text;
    g->params = params;
    g->random = seed;
    const size_t all = items[0] * items[1] * items[2];
    g->n_warps = (int)((all + PTX_LANES - 1) / PTX_LANES);
    if (g->n_warps < 1 || g->n_warps > PTX_WARPS_MOST) {
        fprintf(stderr, "ptx: %zu work-items a group\n", all);
        exit(1);
    }
    g->shared = malloc((size_t)text->shared_bytes + 16);
    for (int n = 0; n < g->n_warps; ++n) {
        g->warps[n].r = malloc((size_t)text->n_registers * sizeof(*g->warps[n].r));
        g->warps[n].local = malloc((size_t)(text->local_bytes * PTX_LANES + 1));
    }
    for (size_t group = 0; group < groups[0] * groups[1] * groups[2]; ++group) {
        const size_t at[3] = { group % groups[0], group / groups[0] % groups[1], group / groups[0] / groups[1] };
        memset(g->shared, 0xff, (size_t)text->shared_bytes); /* NaN in every type */
        memset(g->met, 0, sizeof(g->met));
        memset(g->some, 0, sizeof(g->some));
        g->n_barriers = 0;
        for (int n = 0; n < g->n_warps; ++n) {
            struct ptx_warp *w = &g->warps[n];
            *w = (struct ptx_warp){ .group = g, .number = n, .r = w->r, .local = w->local, .waits_at = -1 };
            memset(w->r, 0xff, (size_t)text->n_registers * sizeof(*w->r));
            for (size_t lane = 0; lane < PTX_LANES; ++lane) { /* those that are not there */
                w->ended |= (uint32_t)((size_t)n * PTX_LANES + lane >= all) << lane;
            }
            for (int axis = 0; axis < 3; ++axis) {
                const size_t before = axis == 0 ? 1 : axis == 1 ? items[0] : items[0] * items[1];
                set_axis(w, axis, before, items[axis], at[axis], groups[axis]);
            }
        }
        run_group(g);
    }
    for (int n = 0; n < g->n_warps; ++n) {
        free(g->warps[n].r);
        free(g->warps[n].local);
    }
    free(g->copies);
    free(g->shared);
    free(g);
}
