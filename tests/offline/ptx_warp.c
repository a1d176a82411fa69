/* Runs a warp of PTX (ptx.h): which lanes go, what a lane computes, loads and stores. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx_lane.h"

uint64_t ptx_value(const struct ptx_warp *warp, const struct ptx_operand *o, int lane)
{
    return o->kind == PTX_REGISTER ? warp->r[o->reg][lane] : o->number;
}

uint64_t ptx_address(const struct ptx_warp *warp, const struct ptx_operand *o, int lane)
{
    return (o->reg >= 0 ? warp->r[o->reg][lane] : 0) + o->number;
}

static void compute(struct ptx_warp *warp, const struct ptx_instruction *i, uint32_t lanes)
{
    struct ptx_operand none = { 0 };
    const struct ptx_operand *o[4] = { &none, &none, &none, &none };
    for (int n = 0; n < i->n_operands && n < 4; ++n) {
        o[n] = &i->operand[n];
    }
    if (o[0]->kind != PTX_REGISTER || (i->op == OP_SETP && i->n_words > 3)) {
        ptx_fail(i, "form");
    }
    const uint64_t mask = ptx_mask(ptx_result_bits(i));
    for (int lane = 0; lane < PTX_LANES; ++lane) {
        if (lanes >> lane & 1) {
            warp->r[o[0]->reg][lane] = mask & ptx_lane_result(i, ptx_value(warp, o[1], lane),
                                                              ptx_value(warp, o[2], lane), ptx_value(warp, o[3], lane));
        }
    }
}

/* ---- memory -------------------------------------------------------------------------------------- */

static unsigned char *place(struct ptx_warp *warp, const struct ptx_instruction *i, const struct ptx_operand *o,
                            int lane)
{
    const uint64_t at = ptx_address(warp, o, lane);
    const struct ptx_group *g = warp->group;
    if (ptx_is(i, 1, "shared")) {
        if (at >= (uint64_t)g->text->shared_bytes) {
            ptx_fail(i, "outside of local memory");
        }
        return g->shared + at;
    }
    if (ptx_is(i, 1, "param")) {
        return (unsigned char *)(uintptr_t)(g->params + at);
    }
    if (at >= PTX_LOCAL_AT) {
        if (at - PTX_LOCAL_AT >= (uint64_t)g->text->local_bytes) {
            ptx_fail(i, "outside of private memory");
        }
        return warp->local + (size_t)lane * (size_t)g->text->local_bytes + (at - PTX_LOCAL_AT);
    }
    if (!ptx_is(i, 1, "const") && !ptx_memory_is_there(at, (size_t)BITS(i->type) / 8)) {
        ptx_fail(i, "outside of all buffers");
    }
    return (unsigned char *)(uintptr_t)at;
}

static void load_or_store(struct ptx_warp *warp, const struct ptx_instruction *i, uint32_t lanes)
{
    const int is_load = i->op == OP_LD, bytes = BITS(i->type) / 8;
    const struct ptx_operand *value = &i->operand[!is_load], *address = &i->operand[is_load];
    const int count = value->kind == PTX_LIST ? value->count : 1;
    for (int lane = 0; lane < PTX_LANES; ++lane) {
        if (!(lanes >> lane & 1)) {
            continue;
        }
        unsigned char *at = place(warp, i, address, lane);
        for (int n = 0; n < count; ++n, at += bytes) {
            const int reg = value->kind == PTX_LIST ? value->list[n] : value->kind == PTX_REGISTER ? value->reg : -1;
            uint64_t x = reg < 0 ? value->number : warp->r[reg][lane];
            if (is_load) {
                x = 0;
                memcpy(&x, at, (size_t)bytes);
                warp->r[reg][lane] = KIND(i->type) == SIGNED ? (uint64_t)ptx_signed(x, 8 * bytes) : x;
            } else {
                memcpy(at, &x, (size_t)bytes);
            }
        }
    }
}

/* ---- the warp ------------------------------------------------------------------------------------ */

/* The lanes that are furthest behind, of those that do not wait for the others; and where they are. */
static uint32_t next_lanes(const struct ptx_warp *warp, int *pc)
{
    uint32_t lanes = 0;
    *pc = -1;
    for (int lane = 0; lane < PTX_LANES; ++lane) {
        if (((warp->ended | warp->held) >> lane & 1) == 0 && (*pc < 0 || warp->pc[lane] <= *pc)) {
            lanes = warp->pc[lane] == *pc ? lanes : 0;
            *pc = warp->pc[lane];
            lanes |= (uint32_t)1 << lane;
        }
    }
    return lanes;
}

static int is_together(const struct ptx_instruction *i)
{
    return ptx_is(i, 0, "bar") || ptx_is(i, 0, "wgmma") || ptx_has(i, "sync");
}

static uint32_t guarded(const struct ptx_warp *warp, const struct ptx_instruction *i, uint32_t lanes)
{
    uint32_t taken = lanes;
    for (int lane = 0; i->guard >= 0 && lane < PTX_LANES; ++lane) {
        if ((int)(warp->r[i->guard][lane] & 1) == i->guard_is_not) {
            taken &= ~((uint32_t)1 << lane);
        }
    }
    return taken;
}

static void go_on(struct ptx_warp *warp, uint32_t lanes, int pc)
{
    for (int lane = 0; lane < PTX_LANES; ++lane) {
        if (lanes >> lane & 1) {
            warp->pc[lane] = pc;
        }
    }
}

int ptx_warp_go(struct ptx_warp *warp, int most)
{
    for (int count = 0; count < most; ++count) {
        int pc;
        uint32_t lanes = next_lanes(warp, &pc);
        if (!lanes) {
            ptx_fail(&warp->group->text->code[0], "lanes meet at different places");
        }
        struct ptx_instruction *i = &warp->group->text->code[pc];
        if (!i->is_decoded) {
            ptx_decode(i);
        }
        ptx_products_some(warp);
        if (is_together(i)) {
            warp->held |= lanes;
            if ((warp->held | warp->ended) != ~(uint32_t)0) {
                continue;
            }
            for (int lane = 0; lane < PTX_LANES; ++lane) {
                if (warp->held >> lane & 1 && warp->pc[lane] != pc) {
                    ptx_fail(i, "lanes meet at different places");
                }
            }
            lanes = warp->held;
            warp->held = 0;
        }
        const uint32_t taken = guarded(warp, i, lanes);
        if (i->op == OP_BRA) {
            go_on(warp, lanes, pc + 1);
            go_on(warp, taken, (int)i->operand[0].number);
            continue;
        }
        if (i->op == OP_OTHER && taken) {
            const int done = ptx_unit_step(warp, i, taken);
            if (done == 0) {
                ptx_fail(i, "is not known");
            }
            if (done == 2) {
                return count;
            }
        }
        go_on(warp, lanes, pc + 1);
        if (i->op == OP_OTHER && (ptx_is(i, 0, "atom") || ptx_has(i, "commit_group")) && ptx_random(warp->group, 2)) {
            return count + 1; /* others go on between a count, or a product's issue, and what follows */
        }
        if (!taken || i->op == OP_OTHER) {
            continue;
        }
        if (i->op == OP_RET) {
            warp->ended |= taken;
            if (warp->ended == ~(uint32_t)0) {
                warp->is_done = 1;
                return count + 1;
            }
        } else if (i->op == OP_TRAP) {
            ptx_fail(i, "the kernel trapped");
        } else if (i->op == OP_LD || i->op == OP_ST) {
            load_or_store(warp, i, taken);
        } else {
            compute(warp, i, taken);
        }
    }
    return most;
}
