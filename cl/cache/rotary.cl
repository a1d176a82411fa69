/* rotary: rows turned by their positions (cache/rotary.clh), every head of a row by the same angles.
 *
 *     global id 0: a unit of TOKENS rows, UNIT_ITEMS work-items side by side        1: head, and every so many-th
 *
 * CPUs: one work-item has the whole of TOKENS rows of a head, so that rows that follow one another are read in one go.
 * GPUs: TOKENS 1, and a work-item has one unit of it. */
#include "cache/rotary.clh"

#ifndef TOKENS
#define TOKENS 1
#endif

DEFINE_TURN_ROW(turn_row, WITH(NORM), TYPE, TYPE)
DEFINE_NORM_OF_ROW(norm_of_row, TYPE)

__kernel void rotary(const clattn_rotary_params params CLATTN_ROTARY_TENSORS(ARGUMENT_OF_ROW))
{
    LEAVE_REHEARSAL(params.batch)
    const clattn_rotary_params *p = &params;
    const clattn_turn_params *turn = (const clattn_turn_params *)p;
    const turn_buffers in = { cosine, sine, positions, starts, cu_query };
    const size_t id = get_global_id(0), first = id / UNIT_ITEMS * TOKENS;
    const int unit = (int)(id % UNIT_ITEMS);
    NORM_PARTS
    const int stays = (p->in_place != 0) & !WITH(NORM);
    const int units = stays ? TURN_UNITS : TURN_UNITS + (HEAD_DIM - ROTARY_COLUMNS) / RUN;
    for (int t = 0; t < TOKENS; ++t) {
        const token at = token_of(turn, &in, first + t);
        for (int h = (int)get_global_id(1); h < p->heads && (HAS_BARRIERS || at.is_there);
             h += (int)get_global_size(1)) {
            const norm by = NORM_OF(NORM, x, at, at.is_there, h, HEAD_DIM, NORM_WEIGHTS(norm_weight));
            if (at.is_there) {
                FETCH_NEXT(x, at, h, HEAD_DIM);
                turn_row(turn, &in, &at, &by, x, ROW_AT(x, at, h), p->x_stride[3], out, ROW_AT(out, at, h),
                         p->out_stride[3], unit, units, UNIT_ITEMS);
            }
        }
    }
}
