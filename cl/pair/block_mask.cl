/* block_mask: what a text says of blocks of rows and keys (pair/block_mask.clh): EMPTY where it lets no row see any
 * key, FULL where it lets every row see every key, else PARTIAL. Asked about pairs within the sequence's lengths alone.
 *
 *     global id 0: block of a head, rows before keys        2: batch * head */
#define FLAGS (p->flags & ~(clattn_u32)CLATTN_FLAG_PAGE_STARTS) /* pages are nothing to a text */

#include "forward/arguments.clh"
#include "pair/mask.clh"
#include "user/lanes.clh"

#ifndef LANES
#define LANES 16
#endif

/* How many of keys [j, end), of which LANES are looked at, the row sees. */
static inline int keys_seen(const clattn_params *p, const attention_buffers *in, const pair_place *at, int end)
{
#if defined(CODE_WIDTH) && CODE_WIDTH == 16
    const int16 number = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const int16 keys = min(at->j + number, (int16)(end - 1));
    const pair_places places = { at->b, at->offset, at->h, at->i, keys };
    const int16 seen = text_mask_16(p, in, &places) & (at->j + number < (int16)end);
    int count = 0;
    for (int lane = 0; lane < LANES; ++lane) {
        count -= ((const int *)&seen)[lane];
    }
    return count;
#else
    pair_place next = *at;
    int count = 0;
    for (; next.j < min(at->j + LANES, end); ++next.j) {
        count += text_mask_1(p, in, &next) != 0;
    }
    return count;
#endif
}

__kernel void block_mask_of_text(ATTENTION_ARGUMENTS, __global uchar *blocks, clattn_i64 first, int first_head)
{
    ATTENTION_INPUTS(p, in);
    const int lines = (p->query_len + BLOCK_MASK_ROWS - 1) / BLOCK_MASK_ROWS;
    const int columns = (p->key_len + BLOCK_MASK_KEYS - 1) / BLOCK_MASK_KEYS;
    const clattn_i64 block = first + (clattn_i64)get_global_id(0);
    const int b = (first_head + (int)get_global_id(2)) / p->query_heads;
    const int h = (first_head + (int)get_global_id(2)) % p->query_heads;
    if (block >= (clattn_i64)lines * columns) {
        return;
    }
    const int line = (int)(block / columns), column = (int)(block % columns);
    const sequence s = sequence_of(p, &in, b);
    const int last_row = min((line + 1) * BLOCK_MASK_ROWS, s.query_len);
    const int last_key = min((column + 1) * BLOCK_MASK_KEYS, s.key_len);
    int seen = 0, hidden = 0;
    for (int i = line * BLOCK_MASK_ROWS; i < last_row && !(seen && hidden); ++i) {
        for (int j = column * BLOCK_MASK_KEYS; j < last_key && !(seen && hidden); j += LANES) {
            const pair_place place = { b, h, i, j, (int)s.offset };
            const int count = keys_seen(p, &in, &place, last_key);
            seen |= count > 0;
            hidden |= count < min(LANES, last_key - j);
        }
    }
    blocks[ROW_START(block_mask, b, h, line) + column * STRIDE(block_mask, 3)] =
        !seen ? BLOCK_IS_EMPTY : !hidden ? BLOCK_IS_FULL : 1;
}
