/* The mask predicate, one rule after the other, as semantics has them. */
#include "reference/visibility.h"

#include <math.h>

#include "base/stored_types.h"
#include "cl/forward/forward_params.h"
#include "reference/philox.h"
#include "reference/score_terms.h"
#include "reference/user_pairs.h"

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

static int64_t read_int(const struct call *call, enum tensor_id id, int64_t index)
{
    return operand_int(&call->operands, (int)id, index);
}

struct sequence sequence_of(const struct problem *problem, const struct call *call, int64_t b)
{
    struct sequence sequence = { call->query_len, call->key_len, call->key_len, 0, 0, 0 };
    if (problem->flags & CLATTN_FLAG_VARLEN) {
        sequence.query_row = read_int(call, TENSOR_CU_QUERY, b);
        sequence.query_len = clamp(read_int(call, TENSOR_CU_QUERY, b + 1) - sequence.query_row, 0, call->query_len);
    }
    if ((problem->flags & (CLATTN_FLAG_VARLEN | CLATTN_FLAG_PAGES)) == CLATTN_FLAG_VARLEN) {
        sequence.key_row = read_int(call, TENSOR_CU_KEY, b);
        sequence.stored_keys = clamp(read_int(call, TENSOR_CU_KEY, b + 1) - sequence.key_row, 0, call->key_len);
        sequence.key_len = sequence.stored_keys;
    }
    if (problem->flags & CLATTN_FLAG_KEY_LENGTHS) {
        sequence.key_len = clamp(read_int(call, TENSOR_KEY_LENGTHS, b), 0, sequence.stored_keys);
    }
    if (problem->flags & (CLATTN_FLAG_PAGES | CLATTN_FLAG_RING)) {
        sequence.stored_keys = sequence.key_len;
    }
    if (problem->p.alignment == CLATTN_ALIGN_BOTTOM_RIGHT) {
        sequence.offset = sequence.key_len - sequence.query_len;
    } else if (problem->p.alignment == CLATTN_ALIGN_OFFSETS) {
        sequence.offset = read_int(call, TENSOR_QUERY_OFFSETS, b);
    }
    return sequence;
}

int64_t place_index(const struct tensor_place *place, int64_t b, int64_t h, int64_t i, int64_t c)
{
    return place->offset + b * place->stride[0] + h * place->stride[1] + i * place->stride[2] + c * place->stride[3];
}

int64_t key_row_of(const struct problem *problem, int64_t j)
{
    const int64_t pinned = problem->p.always_visible_keys, ring = problem->p.ring;
    return problem->flags & CLATTN_FLAG_RING && j >= pinned ? pinned + (j - pinned) % (ring - pinned) : j;
}

int key_is_kept(const struct problem *problem, const struct sequence *sequence, int64_t j)
{
    const int64_t pinned = problem->p.always_visible_keys, ring = problem->p.ring;
    return !(problem->flags & CLATTN_FLAG_RING) || j < pinned || j >= sequence->key_len - (ring - pinned);
}

int64_t key_page(const struct problem *problem, const struct call *call, int64_t b, int64_t kv_head, int64_t j)
{
    const int64_t page = call_page(&call->operands, b, kv_head, key_row_of(problem, j) / problem->p.page_size);
    return page >= 0 && page < problem->p.pages ? page : -1;
}

int key_is_stored(const struct problem *problem, const struct call *call, const struct sequence *sequence, int64_t b,
                  int64_t kv_head, int64_t j)
{
    return key_is_kept(problem, sequence, j) &&
           (!(problem->flags & CLATTN_FLAG_PAGES) || key_page(problem, call, b, kv_head, j) >= 0);
}

void dropout_of_row(const struct problem *problem, const struct call *call, int64_t b, int64_t h, int64_t i,
                    int64_t count, unsigned char *kept)
{
    const uint32_t key[2] = { (uint32_t)call->dropout_seed, (uint32_t)(call->dropout_seed >> 32) };
    uint32_t words[4] = { 0, 0, 0, 0 };
    for (int64_t j = 0; j < count; ++j) {
        const uint32_t number = call->first_key + (uint32_t)j;
        if (j == 0 || number % 4 == 0) {
            const uint32_t plane = call->first_plane + (uint32_t)b * call->whole_heads + (uint32_t)h;
            const uint32_t counter[4] = { number / 4, call->first_row + (uint32_t)i, plane, call->dropout_offset };
            philox_4x32_10(counter, key, words);
        }
        kept[j] = words[number % 4] >= problem->p.dropout * 4294967296.0;
    }
}

static int range_allows(const struct problem *problem, const struct call *call, const struct sequence *sequence,
                        int64_t b, int64_t h, int64_t i, int64_t j)
{
    const struct tensor_place *low = &call->operands.tensor[TENSOR_ROW_LOW];
    const struct tensor_place *high = &call->operands.tensor[TENSOR_ROW_HIGH];
    const int64_t batch = problem->flags & CLATTN_FLAG_VARLEN ? 0 : b, row = sequence->query_row + i;
    return j >= ((const int32_t *)low->data)[place_index(low, batch, h, row, 0)] &&
           j < ((const int32_t *)high->data)[place_index(high, batch, h, row, 0)];
}

static int window_allows(const clattn_problem *p, int64_t position, int64_t j)
{
    int after_left = p->window_left < 0 || j >= position - p->window_left;
    int before_right = p->window_right < 0 || j <= position + p->window_right;
    return (after_left && before_right) || j < p->always_visible_keys;
}

static int mask_allows(const struct problem *problem, const struct call *call, int64_t b, int64_t h, int64_t i,
                       int64_t j)
{
    const int is_bits = (problem->flags & CLATTN_FLAG_MASK_BITS) != 0;
    const struct tensor_place *mask = &call->operands.tensor[TENSOR_MASK];
    const int64_t column = j - call->mask_first_key;
    if (column < 0 || column >= call->mask_key_len) {
        return column < 0;
    }
    const uint8_t byte = ((const uint8_t *)mask->data)[place_index(mask, b, h, i, is_bits ? column / 8 : column)];
    return is_bits ? byte >> column % 8 & 1 : byte != 0;
}

static int bias_allows(const struct problem *problem, const struct call *call, int64_t b, int64_t h, int64_t i,
                       int64_t j)
{
    const double value = bias_of_pair(problem, call, b, h, i, j);
    return !(isinf(value) && value < 0);
}

/* What the block mask says, and where it leaves a text to say it, the text. */
static int blocks_and_text_allow(const struct problem *problem, const struct call *call,
                                 const struct sequence *sequence, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const struct tensor_place *blocks = &call->operands.tensor[TENSOR_BLOCK_MASK];
    int block = CLATTN_BLOCK_PARTIAL;
    if (problem->flags & CLATTN_FLAG_BLOCK_MASK) {
        block = ((const uint8_t *)blocks
                     ->data)[place_index(blocks, b, h, i / problem->p.block_mask_rows, j / problem->p.block_mask_keys)];
    }
    return block != CLATTN_BLOCK_EMPTY &&
           (block == CLATTN_BLOCK_FULL || !(problem->flags & CLATTN_FLAG_MASK_TEXT) ||
            user_pair_is_visible(&(const struct user_pair){ problem, call, sequence, b, h, i, j }));
}

/* Whether key j stands in the list of the row. */
static int list_allows(const struct problem *problem, const struct call *call, int64_t b, int64_t h, int64_t i,
                       int64_t j)
{
    const clattn_problem *p = &problem->p;
    const struct tensor_place *lists = &call->operands.tensor[TENSOR_KEY_LISTS];
    const int64_t kv_head = h / problem_group(p);
    for (int64_t n = 0; n < p->key_list_keys; ++n) {
        const int32_t key = ((const int32_t *)lists->data)[place_index(lists, b, kv_head, i / p->key_list_rows, n)];
        if (key < 0 || key == j) {
            return key == j;
        }
    }
    return 0;
}

int key_is_allowed(const struct problem *problem, const struct call *call, const struct sequence *sequence, int64_t b,
                   int64_t h, int64_t i, int64_t j)
{
    uint32_t flags = problem->flags;
    int64_t position = i + sequence->offset;
    return j < sequence->key_len && (!(flags & CLATTN_FLAG_CAUSAL) || j <= position) &&
           (!(flags & CLATTN_FLAG_WINDOW) || window_allows(&problem->p, position, j)) &&
           key_is_stored(problem, call, sequence, b, h / problem_group(&problem->p), j) &&
           (!(flags & CLATTN_FLAG_ROW_RANGES) || range_allows(problem, call, sequence, b, h, i, j)) &&
           (!(flags & CLATTN_FLAG_MASK) || mask_allows(problem, call, b, h, i, j)) &&
           (!(flags & CLATTN_FLAG_BIAS) || bias_allows(problem, call, b, h, i, j)) &&
           (!(flags & CLATTN_FLAG_KEY_LISTS) || list_allows(problem, call, b, h, i, j)) &&
           blocks_and_text_allow(problem, call, sequence, b, h, i, j);
}
