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

void ptx_run(const struct ptx_text *text, const unsigned char *params, const size_t groups[3], unsigned seed)
{
    struct ptx_group *g = calloc(1, sizeof(*g));
    g->text = text;
    g->params = params;
    g->random = seed;
    g->n_warps = (text->items + PTX_LANES - 1) / PTX_LANES;
    g->shared = malloc((size_t)text->shared_bytes + 16);
    for (int n = 0; n < g->n_warps; ++n) {
        g->warps[n].r = malloc((size_t)text->n_registers * sizeof(*g->warps[n].r));
        g->warps[n].local = malloc((size_t)(text->local_bytes * PTX_LANES + 1));
    }
    for (size_t group = 0; group < groups[0] * groups[1] * groups[2]; ++group) {
        const uint64_t at[3] = { group % groups[0], group / groups[0] % groups[1], group / groups[0] / groups[1] };
        memset(g->shared, 0xff, (size_t)text->shared_bytes); /* NaN in every type */
        memset(g->met, 0, sizeof(g->met));
        memset(g->some, 0, sizeof(g->some));
        g->n_barriers = 0;
        for (int n = 0; n < g->n_warps; ++n) {
            struct ptx_warp *w = &g->warps[n];
            *w = (struct ptx_warp){ .group = g, .number = n, .r = w->r, .local = w->local, .waits_at = -1 };
            memset(w->r, 0xff, (size_t)text->n_registers * sizeof(*w->r));
            for (int lane = 0; lane < PTX_LANES; ++lane) {
                w->r[PTX_TID_X][lane] = (uint64_t)(n * PTX_LANES + lane);
                for (int axis = 0; axis < 3; ++axis) {
                    w->r[PTX_CTAID_X + axis][lane] = at[axis];
                }
                w->r[PTX_NTID_X][lane] = (uint64_t)text->items;
                w->r[PTX_NCTAID_X][lane] = groups[0];
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
