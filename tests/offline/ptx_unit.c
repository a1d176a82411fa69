/* What warps of PTX do with each other, and what is done aside (ptx.h): barriers, arrivals, copies, exchanges, products
 * of warps and warpgroups. Fragments, descriptors and the exchange of 16 bytes are stated from the PTX manual. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "ptx.h"

/* Tries of lanes, without an arrival, after which the ring stands still. */
#define TRIES_MOST 20000000L

unsigned ptx_random(struct ptx_group *group, unsigned below)
{
    group->random = group->random * 1664525u + 1013904223u;
    return (group->random >> 8) % below;
}

/* ---- arrivals and copies ------------------------------------------------------------------------- */

static struct ptx_barrier *barrier_at(struct ptx_group *g, uint64_t at)
{
    for (int n = 0; n < g->n_barriers; ++n) {
        if (g->barriers[n].at == at) {
            return &g->barriers[n];
        }
    }
    g->barriers[g->n_barriers] = (struct ptx_barrier){ .at = (uint32_t)at };
    return &g->barriers[g->n_barriers++];
}

static void arrive(struct ptx_group *g, uint64_t at)
{
    struct ptx_barrier *b = barrier_at(g, at);
    g->tries = 0;
    if (b->pending == 0) {
        fprintf(stderr, "ptx: an arrival at a barrier that expects none: a place is filled twice\n");
        exit(1);
    }
    if (--b->pending == 0) {
        b->phase ^= 1;
        b->pending = b->count;
    }
}

/* Copy number n, where nothing of its lane that must come before is under way. */
static void land_one(struct ptx_group *g, int n)
{
    const struct ptx_copy c = g->copies[n];
    for (int before = 0; c.is_arrival && before < n; ++before) {
        if (g->copies[before].warp == c.warp && g->copies[before].lane == c.lane) {
            return;
        }
    }
    memmove(g->copies + n, g->copies + n + 1, (size_t)(g->n_copies - n - 1) * sizeof(c));
    --g->n_copies;
    if (c.is_arrival) {
        arrive(g, c.to);
    } else {
        memcpy(g->shared + c.to, c.from, 16);
    }
}

void ptx_land(struct ptx_group *g, int most)
{
    for (int i = 0; i < most && g->n_copies > 0; ++i) {
        land_one(g, (int)ptx_random(g, (unsigned)g->n_copies));
    }
}

static void issue(struct ptx_group *g, struct ptx_copy copy)
{
    if (g->n_copies == g->copies_room) {
        g->copies_room = g->copies_room * 2 + 256;
        g->copies = realloc(g->copies, (size_t)g->copies_room * sizeof(copy));
    }
    g->copies[g->n_copies++] = copy;
}

static void wait_for_copies(struct ptx_warp *w, uint32_t lanes)
{
    struct ptx_group *g = w->group;
    for (int n = 0; n < g->n_copies;) {
        const struct ptx_copy *c = &g->copies[n];
        if (!c->is_arrival && c->warp == w->number && lanes >> c->lane & 1) {
            land_one(g, n);
        } else {
            ++n;
        }
    }
}

static int copy_step(struct ptx_warp *w, const struct ptx_instruction *i, uint32_t lanes)
{
    for (int lane = 0; lane < PTX_LANES; ++lane) {
        if (!(lanes >> lane & 1)) {
            continue;
        }
        struct ptx_copy copy = { .warp = w->number, .lane = lane, .is_arrival = ptx_is(i, 2, "mbarrier") };
        copy.to = (uint32_t)ptx_address(w, &i->operand[0], lane);
        if (!copy.is_arrival) {
            copy.from = (const unsigned char *)(uintptr_t)ptx_address(w, &i->operand[1], lane);
            if (!ptx_memory_is_there((uint64_t)(uintptr_t)copy.from, 16)) {
                ptx_fail(i, "outside of all buffers");
            }
            if (copy.to % 16 || (uintptr_t)copy.from % 16 || copy.to + 16 > (uint32_t)w->group->text->shared_bytes) {
                ptx_fail(i, "a copy that is not aligned, or outside of local memory");
            }
        }
        issue(w->group, copy);
    }
    return 1;
}

static int arrival_step(struct ptx_warp *w, const struct ptx_instruction *i, uint32_t lanes)
{
    for (int lane = 0; lane < PTX_LANES; ++lane) {
        if (!(lanes >> lane & 1)) {
            continue;
        }
        if (ptx_is(i, 1, "init")) {
            struct ptx_barrier *b = barrier_at(w->group, ptx_address(w, &i->operand[0], lane));
            b->count = b->pending = (uint32_t)ptx_value(w, &i->operand[1], lane);
        } else if (ptx_is(i, 1, "arrive")) {
            arrive(w->group, ptx_address(w, &i->operand[1], lane));
        } else {
            const struct ptx_barrier *b = barrier_at(w->group, ptx_address(w, &i->operand[1], lane));
            w->r[i->operand[0].reg][lane] = b->phase != (ptx_value(w, &i->operand[2], lane) & 1);
            if (++w->group->tries > TRIES_MOST) {
                ptx_fail(i, "nobody arrives");
            }
        }
    }
    return 1;
}

/* ---- meetings ------------------------------------------------------------------------------------ */

static int count_of(uint32_t bits)
{
    int count = 0;
    for (; bits; bits &= bits - 1) {
        ++count;
    }
    return count;
}

/* bar.sync ID, ITEMS; or bar.red.or.pred SOME, ID, ITEMS, IS: whether some item that meets there says so, for each. */
static int meet(struct ptx_warp *w, const struct ptx_instruction *i)
{
    struct ptx_group *g = w->group;
    const int asks = ptx_is(i, 1, "red");
    const int id = (int)ptx_value(w, &i->operand[asks], 0) & 15;
    const int warps = i->n_operands > asks + 1 ? (int)ptx_value(w, &i->operand[asks + 1], 0) / PTX_LANES : g->n_warps;
    for (int lane = 0; asks && lane < PTX_LANES; ++lane) {
        g->some[id] |= (int)(ptx_value(w, &i->operand[3], lane) & 1);
    }
    g->met[id] |= (uint32_t)1 << w->number;
    w->waits_at = id;
    if (count_of(g->met[id]) < warps) {
        return 2;
    }
    for (int n = 0; n < g->n_warps; ++n) {
        if (g->met[id] >> n & 1) {
            g->warps[n].waits_at = -1;
            for (int lane = 0; lane < PTX_LANES; ++lane) {
                g->warps[n].pc[lane] += n != w->number;
                if (asks) {
                    g->warps[n].r[i->operand[0].reg][lane] = (uint64_t)g->some[id];
                }
            }
        }
    }
    g->met[id] = 0;
    g->some[id] = 0;
    return 1;
}

static int exchange_step(struct ptx_warp *w, const struct ptx_instruction *i)
{
    uint64_t from[PTX_LANES], some = 0;
    for (int lane = 0; lane < PTX_LANES; ++lane) {
        from[lane] = ptx_value(w, &i->operand[1], lane);
        some |= from[lane] & 1;
    }
    for (int lane = 0; lane < PTX_LANES; ++lane) {
        const int other = (int)ptx_value(w, &i->operand[2], lane);
        w->r[i->operand[0].reg][lane] = ptx_is(i, 0, "vote")   ? some
                                        : ptx_is(i, 2, "bfly") ? from[(lane ^ other) & 31]
                                                               : from[other & 31];
    }
    return ptx_is(i, 0, "vote") ? ptx_is(i, 2, "any") : ptx_is(i, 2, "bfly") || ptx_is(i, 2, "idx");
}

/* atom.shared: inc (back to 0 after the second operand), min, max, add, of 32 bits. */
static int atom_step(struct ptx_warp *w, const struct ptx_instruction *i, uint32_t lanes)
{
    for (int lane = 0; lane < PTX_LANES; ++lane) {
        const uint64_t at = ptx_address(w, &i->operand[1], lane);
        uint32_t old, with = (uint32_t)ptx_value(w, &i->operand[2], lane);
        if (!(lanes >> lane & 1)) {
            continue;
        }
        if (!ptx_has(i, "shared") || at + 4 > (uint64_t)w->group->text->shared_bytes) {
            return 0;
        }
        memcpy(&old, w->group->shared + at, 4);
        const int less = (int32_t)old < (int32_t)with;
        const uint32_t new = ptx_has(i, "inc")   ? (old >= with ? 0 : old + 1)
                             : ptx_has(i, "min") ? (less ? old : with)
                             : ptx_has(i, "max") ? (less ? with : old)
                                                 : old + with;
        memcpy(w->group->shared + at, &new, 4);
        w->r[i->operand[0].reg][lane] = old;
    }
    return 1;
}

/* ldmatrix.x4: lane 8 j + r says where row r of matrix j begins; a lane gets two neighbours of row lane / 4. */
static int matrices_step(struct ptx_warp *w, const struct ptx_instruction *i)
{
    const int turned = ptx_has(i, "trans");
    for (int j = 0; j < 4; ++j) {
        for (int lane = 0; lane < PTX_LANES; ++lane) {
            uint16_t two[2];
            for (int n = 0; n < 2; ++n) {
                const int row = turned ? lane % 4 * 2 + n : lane / 4, column = turned ? lane / 4 : lane % 4 * 2 + n;
                const uint64_t at = ptx_address(w, &i->operand[1], 8 * j + row) + 2 * (uint64_t)column;
                memcpy(&two[n], w->group->shared + (at & 0xffffff), 2);
            }
            w->r[i->operand[0].list[j]][lane] = two[0] | (uint32_t)two[1] << 16;
        }
    }
    return ptx_has(i, "x4");
}

/* ---- products of a warpgroup --------------------------------------------------------------------- */

static float number_of(uint16_t bits, int is_bfloat)
{
    return (float)(is_bfloat ? bfloat16_to_double(bits) : half_to_double(bits));
}

/* A warp's sixteen rows of wgmma m64nNk16. A descriptor has, in sixteenths: bits 0 to 13 the start, 16 to 29 from 64
 * columns to the next, 32 to 45 from eight rows to the next; 62, 63: 1 is the 128-byte swizzle. */
static void product(struct ptx_warp *w, const struct ptx_product *p)
{
    const struct ptx_instruction *i = p->at;
    const int is_bfloat = ptx_has(i, "bf16"), turned = i->operand[6].number == 1;
    const int n = atoi(strchr(i->words[4], 'n') + 1);
    const uint32_t start = (uint32_t)(p->descriptor & 0x3fff) * 16,
                   across = (uint32_t)(p->descriptor >> 16 & 0x3fff) * 16;
    const uint32_t eight = (uint32_t)(p->descriptor >> 32 & 0x3fff) * 16;
    float a[16][16];
    if (p->descriptor >> 62 != 1 || !strstr(i->words[4], "k16")) {
        ptx_fail(i, "another layout");
    }
    for (int lane = 0; lane < PTX_LANES; ++lane) {
        for (int e = 0; e < 8; ++e) {
            const uint32_t word = (uint32_t)w->r[i->operand[1].list[e / 2]][lane];
            a[lane / 4 + e / 2 % 2 * 8][lane % 4 * 2 + e % 2 + e / 4 * 8] =
                number_of((uint16_t)(word >> 16 * (e % 2)), is_bfloat);
        }
    }
    for (int column = 0; column < n; ++column) {
        float b[16];
        for (int k = 0; k < 16; ++k) {
            uint32_t at = turned ? start + (uint32_t)(k / 8) * eight + (uint32_t)(k % 8 * 128) +
                                       (uint32_t)(column / 64) * across + (uint32_t)(column % 64 * 2)
                                 : start + (uint32_t)(column / 8) * eight + (uint32_t)(column % 8 * 128 + k * 2);
            uint16_t bits;
            at ^= (at >> 7 & 7) << 4;
            memcpy(&bits, w->group->shared + (at & 0x3ffff), 2);
            b[k] = number_of(bits, is_bfloat);
        }
        for (int row = 0; row < 16; ++row) {
            const int lane = row % 8 * 4 + column % 8 / 2,
                      reg = i->operand[0].list[column / 8 * 4 + row / 8 * 2 + column % 2];
            const uint32_t old = (uint32_t)w->r[reg][lane];
            float sum = 0;
            uint32_t new;
            if (p->adds) {
                memcpy(&sum, &old, sizeof(sum));
            }
            for (int k = 0; k < 16; ++k) {
                sum = fmaf(a[row][k], b[k], sum);
            }
            memcpy(&new, &sum, sizeof(sum));
            w->r[reg][lane] = new;
        }
    }
}

/* The oldest group of products is done. */
static void finish_group(struct ptx_warp *w)
{
    const int group = w->products[0].group;
    int n = 0;
    while (n < w->n_products && w->products[n].group == group) {
        product(w, &w->products[n++]);
    }
    memmove(w->products, w->products + n, (size_t)(w->n_products - n) * sizeof(w->products[0]));
    w->n_products -= n;
}

void ptx_products_some(struct ptx_warp *w)
{
    if (w->n_products > 0 && w->products[0].group > 0 && ptx_random(w->group, 64) == 0) {
        finish_group(w);
    }
}

static int warpgroup_step(struct ptx_warp *w, const struct ptx_instruction *i)
{
    if (ptx_is(i, 1, "mma_async")) {
        if (w->n_products == 64 || i->operand[0].count * 2 != atoi(strchr(i->words[4], 'n') + 1)) {
            ptx_fail(i, "registers");
        }
        w->products[w->n_products++] = (struct ptx_product){ .at = i,
                                                             .descriptor = ptx_value(w, &i->operand[2], 0),
                                                             .adds = (int)(ptx_value(w, &i->operand[3], 0) & 1) };
    } else if (ptx_is(i, 1, "commit_group")) {
        ++w->groups_committed;
        for (int n = 0; n < w->n_products; ++n) {
            w->products[n].group = w->products[n].group ? w->products[n].group : w->groups_committed;
        }
    } else if (ptx_is(i, 1, "wait_group")) {
        while (w->n_products > 0 && w->products[0].group > 0) { /* 0 are left under way */
            finish_group(w);
        }
        return i->operand[0].number == 0;
    }
    return 1;
}

int ptx_unit_step(struct ptx_warp *w, const struct ptx_instruction *i, uint32_t lanes)
{
    if (ptx_is(i, 0, "bar")) {
        return ptx_is(i, 1, "warp") ? 1 : ptx_is(i, 1, "red") && !ptx_is(i, 2, "or") ? 0 : meet(w, i);
    }
    if (ptx_is(i, 0, "cp")) {
        if (ptx_is(i, 2, "wait_all")) {
            wait_for_copies(w, lanes);
            return 1;
        }
        return copy_step(w, i, lanes);
    }
    return ptx_is(i, 0, "wgmma")                          ? warpgroup_step(w, i)
           : ptx_is(i, 0, "mbarrier")                     ? arrival_step(w, i, lanes)
           : ptx_is(i, 0, "shfl") || ptx_is(i, 0, "vote") ? exchange_step(w, i)
           : ptx_is(i, 0, "atom")                         ? atom_step(w, i, lanes)
           : ptx_is(i, 0, "ldmatrix")                     ? matrices_step(w, i)
                                                          : ptx_is(i, 0, "fence");
}
