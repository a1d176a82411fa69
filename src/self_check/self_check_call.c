/* The small calls that a plan is checked by: their sizes, and the memory of their tensors. What is in it:
 * self_check_values.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/stored_types.h"
#include "operation/pools.h"
#include "self_check/self_check_call.h"

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

#define EVEN_COLUMNS 32 /* rows as many apart begin at a line of memory */

/* ---- sizes ---------------------------------------------------------------------------------- */

/* Multiply-adds that the reference may be asked for in a turn, by whose 3 nanoseconds each a check is long; and where
 * it has gradients, by whose 30 nanoseconds. */
static const double work_most[CHECK_TURNS][2] = {
    [CHECK_TILES] = { 4e6, 2.5e6 },         [CHECK_FEW] = { 1e6, 4e5 },  [CHECK_LONG] = { 3e6, 5e5 },
    [CHECK_TALL] = { 2e6, 1.2e6 },          [CHECK_NONE] = { 1e5, 5e4 }, [CHECK_DROPPED] = { 1e5, 5e4 },
    [CHECK_EQUAL] = { INFINITY, INFINITY }, /* bounds itself */
};

int64_t check_long_keys(const clattn_problem *p)
{
    static const int64_t steps[] = { CHECK_LONG_KEYS, 1100, 600, 300 };
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && p->page_size <= CHECK_MANY_PAGE_ROWS; ++i) {
        if (p->key_len >= steps[i]) {
            return steps[i];
        }
    }
    return 0;
}

int check_has_turn(const struct problem *problem, enum check_turn turn, int of_gradients)
{
    const clattn_problem *p = &problem->p;
    const uint32_t hiding = CLATTN_WITH_MASK | CLATTN_WITH_KEY_LENGTHS | CLATTN_WITH_ROW_RANGES |
                            CLATTN_WITH_BLOCK_MASK;
    int64_t rows, keys;
    return turn == CHECK_LONG    ? check_long_keys(p) > 0
           : turn == CHECK_EQUAL ? !problem->any.code && check_equal_lengths(p, of_gradients, &rows, &keys)
           : turn == CHECK_TALL  ? p->page_size <= CHECK_MANY_PAGE_ROWS
           : turn == CHECK_NONE  ? (p->features & hiding) != 0 || p->bias_type != CLATTN_TYPE_NONE
                                 : turn != CHECK_DROPPED || p->dropout > 0;
}

static int64_t tall_keys(const clattn_problem *p, int64_t rows)
{
    return min64(p->key_len, max64(rows - rows / 15 - 1, 1));
}

static void choose_lengths(const clattn_problem *p, enum check_turn turn, int of_gradients, int64_t *rows,
                           int64_t *keys)
{
    static const int64_t most[CHECK_TURNS][2] = {
        [CHECK_TILES] = { 70, CHECK_KEYS }, [CHECK_FEW] = { 9, 67 }, [CHECK_LONG] = { 5, CHECK_LONG_KEYS },
        [CHECK_TALL] = { CHECK_ROWS, 0 },   [CHECK_NONE] = { 2, 5 }, [CHECK_DROPPED] = { 4, 11 },
    };
    if (turn == CHECK_EQUAL) {
        check_equal_lengths(p, of_gradients, rows, keys);
        return;
    }
    *rows = min64(p->query_len, most[turn][0]);
    *keys = turn == CHECK_TALL   ? tall_keys(p, *rows)
            : turn == CHECK_LONG ? check_long_keys(p)
                                 : min64(p->key_len, most[turn][1]);
}

/* Rows that see another key than row 0 by where they stand, counted from the first: as many as reach over a block. */
static int64_t rows_kept(const clattn_problem *p, enum check_turn turn)
{
    const int is_moving = p->alignment == CLATTN_ALIGN_TOP_LEFT && (p->causal || p->window_left >= 0);
    return turn == CHECK_LONG ? 3 : turn == CHECK_TALL && is_moving ? 135 : 24;
}

/* Fewer of what costs the reference time, in the order in which they can be spared. Kernels are built for a group, not
 * for how many heads or sequences there are. Gradients add up over rows too, of which there must be several tiles. */
static void fit(clattn_problem *p, enum check_turn turn, int of_gradients, int64_t *rows, int64_t *keys)
{
    const int64_t group = p->query_heads / p->kv_heads;
    const int keeps_rows = of_gradients && (turn == CHECK_TILES || turn == CHECK_TALL);
    const double work = work_most[turn][of_gradients];
    const struct {
        int64_t *extent, least;
    } spared[] = { { rows, keeps_rows ? *rows : rows_kept(p, turn) },
                   { &p->kv_heads, 1 },
                   { &p->batch, 1 },
                   { keys, keeps_rows ? 70 : *keys },
                   { rows, 3 },
                   { keys, turn == CHECK_LONG ? 600 : 70 },
                   { rows, 1 },
                   { keys, 40 } };
    for (size_t i = 0; i < sizeof(spared) / sizeof(spared[0]); ++i) {
        const double cost = (double)p->batch * (double)p->kv_heads * (double)group * (double)*rows * (double)*keys *
                            (double)(p->head_dim + p->head_dim_v);
        int64_t *extent = spared[i].extent;
        if (cost > work && *extent > spared[i].least) {
            *extent = max64((int64_t)((double)*extent * (work / cost)), spared[i].least);
            *keys = turn == CHECK_TALL && extent == rows ? tall_keys(p, *rows) : *keys;
        }
    }
    p->query_heads = group * p->kv_heads;
}

/* A window, a ring or a pool of the problem's size would hide what the check is to see; kernels take them as numbers of
 * the call. A window over few rows must be narrower still to hide anything, where it moves on from key 0; behind all
 * keys it begins before the last block of 96 or 128. Keys that are always visible are more than one tile, and between
 * them and a window at the end lie others, some splits where there are many keys; otherwise it reaches over two. */
static void shrink(clattn_problem *p, enum check_turn turn, int64_t rows, int64_t keys)
{
    const int64_t few = min64(p->alignment == CLATTN_ALIGN_TOP_LEFT ? rows / 2 : keys * 2 / 5, keys * 2 / 5);
    const int has_gap = p->always_visible_keys > 0 && p->ring == 0;
    const int64_t left[CHECK_TURNS] = {
        [CHECK_TILES] = has_gap ? keys / 11 : few,
        [CHECK_FEW] = rows / 2,
        [CHECK_LONG] = min64(few, p->always_visible_keys > 0 ? 60 : CHECK_WINDOW),
        [CHECK_TALL] = 3,
        [CHECK_NONE] = 1,
        [CHECK_DROPPED] = 3,
        [CHECK_EQUAL] = keys,
    };
    const int64_t right[CHECK_TURNS] = {
        [CHECK_TILES] = rows / 4, [CHECK_FEW] = rows / 4, [CHECK_LONG] = min64(rows / 2, 1),
        [CHECK_TALL] = 1,         [CHECK_NONE] = 1,       [CHECK_DROPPED] = 1,
        [CHECK_EQUAL] = 1,
    };
    const int64_t pinned[CHECK_TURNS] = {
        [CHECK_TILES] = has_gap ? keys / 2 : 5,
        [CHECK_FEW] = 1,
        [CHECK_LONG] = has_gap ? CHECK_PINNED : 5,
        [CHECK_TALL] = 7,
        [CHECK_NONE] = 1,
        [CHECK_DROPPED] = 1,
        [CHECK_EQUAL] = 1,
    };
    p->window_left = min64(p->window_left, left[turn]);
    p->window_right = min64(p->window_right, right[turn]);
    p->always_visible_keys = min64(p->always_visible_keys, pinned[turn]);
    if (p->dropout > 0 && (turn == CHECK_TALL || turn == CHECK_DROPPED)) { /* infinite keys are dropped, and seen */
        p->dropout = turn == CHECK_TALL ? 0.5 : 0.98;
    }
    if (forward_ring_turns(p)) { /* kernels are built for one that does, or for one that keeps all keys */
        p->ring = max64(min64(p->ring, min64(keys, CHECK_KEYS) / 2), p->always_visible_keys + 1);
    }
}

/* Several buffers have as many pages each, and the last one has them all. */
static void choose_pages(struct check_call *check, int64_t keys)
{
    clattn_problem *p = &check->problem.p;
    const int pools = pools_of(p);
    check->sequence_pages = groups_of(forward_kept_rows(p, keys), p->page_size);
    p->pages = p->batch * check->sequence_pages + 3;
    if (pools > 1) {
        p->pool_pages = groups_of(p->pages, pools);
        p->pages = p->pool_pages * pools;
    }
}

/* ---- tensors -------------------------------------------------------------------------------- */

/* Elements behind the last one, where nothing may be written either. */
#define TAIL 256

/* In which a gradient that may be the sum over an axis is: over sequences, heads, rows, columns. */
static const enum check_turn turn_that_sums[4] = { CHECK_FEW, CHECK_FEW, CHECK_TALL, CHECK_LONG };

/* Each tensor has strides of its own: of every other one the heads lie within the rows, rows are apart by another
 * number of elements for each. In some turns everything begins at odd places, and elements that may be apart are; in
 * one, heads and sequences share masks and biases, and values alone, some of which are not finite, lie even. */
static void choose_strides(const struct check_call *check, const struct operands *operands, int id, int first,
                           const int64_t n[4], clattn_host_tensor *tensor)
{
    const int is_forward = operands->operation == &operation_forward; /* pages lie alike in all buffers of a pool */
    const struct tensor_row *row = &operands->operation->rows[is_forward ? first : id];
    const int is_odd = check->turn == CHECK_FEW || (check->turn == CHECK_TALL && first != TENSOR_VALUE);
    const int64_t of_block = operand_columns(operands, id);
    const int may_step = row->strides == 4 && (!row->columns || (check->problem.p.strided_columns && of_block == 1));
    const int64_t step = may_step && (check->turn == CHECK_FEW || first == TENSOR_PAGE_TABLE) ? 2 + first % 2 : 1;
    const int64_t unit = of_block > 1 ? of_block : is_odd ? 1 : EVEN_COLUMNS;
    const int64_t gap = first <= TENSOR_OUT ? (first + 1) * unit + (is_odd && of_block == 1) * (first % 2) * 2
                                            : 1 + first % 3;
    const int64_t pitch = n[3] * of_block * step + gap;
    const int is_shared = check->turn == CHECK_TALL && (first == TENSOR_MASK || first == TENSOR_BIAS);
    const int heads_within = first % 2;
    tensor->stride[0] = is_shared ? 0 : n[1] * n[2] * pitch;
    tensor->stride[1] = is_shared ? 0 : heads_within ? pitch : n[2] * pitch;
    tensor->stride[2] = heads_within && !is_shared ? n[1] * pitch : pitch;
    tensor->stride[3] = row->dense ? 1 : step;
    for (int axis = 0; axis < 4; ++axis) {
        tensor->stride[axis] *= !(row->role == TENSOR_SUMMED && check->turn == turn_that_sums[axis]);
    }
    tensor->offset = of_block > 1 ? 3 * of_block : 2 * EVEN_COLUMNS + (is_odd ? 5 + id : 0);
}

clattn_status check_place(const struct check_call *check, const struct operands *operands, int id, int like,
                          clattn_host_tensor *tensor, void **memory, int64_t *elements)
{
    int64_t n[4], last = 0;
    operand_shape(operands, id, n);
    choose_strides(check, operands, id, like, n, tensor);
    for (int axis = 0; axis < 3; ++axis) {
        last += n[axis] > 0 ? (n[axis] - 1) * tensor->stride[axis] : 0;
    }
    last += n[3] * tensor->stride[3] * operand_columns(operands, id);
    *elements = groups_of(tensor->offset + last, operand_columns(operands, id)) + TAIL;
    const size_t bytes = (size_t)*elements * operand_bytes(operands, id);
    *memory = tensor->data = malloc(bytes);
    if (!tensor->data) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a self-check");
    }
    memset(tensor->data, 0xff, bytes); /* of floating-point types: NaN */
    return CLATTN_OK;
}

static clattn_status make_tensor(struct check_call *check, const struct operands *operands, int id)
{
    int64_t n[4];
    clattn_host_tensor tensor = CLATTN_TENSOR_NONE;
    clattn_status status =
        check_place(check, operands, id, check_first_of(id), &tensor, &check->memory[id], &check->elements[id]);
    memcpy((char *)&check->tensors + operation_forward.rows[id].host_at, &tensor, sizeof(tensor));
    operand_shape(operands, id, n);
    return status == CLATTN_OK && !forward_is_output(id) ? check_fill(check, operands, id, n, &tensor) : status;
}

/* Masks and biases end before the keys do, in turn, and in one begin after the first. */
static void choose_values(struct check_call *check, int64_t rows, int64_t keys)
{
    const enum check_turn turn = check->turn;
    const clattn_problem *p = &check->problem.p;
    clattn_call *values = &check->values;
    values->query_len = rows;
    values->key_len = keys;
    const int64_t fewer = keys > 2 ? keys - keys / 5 - 1 : keys, hardly_fewer = keys - keys / 20;
    values->mask_key_len = turn == CHECK_TILES ? fewer : turn == CHECK_LONG ? check_before_last_split(keys) : keys;
    values->bias_key_len = turn == CHECK_FEW ? fewer : turn == CHECK_TALL ? hardly_fewer : keys;
    if (turn == CHECK_TALL && !check->of_gradients &&
        (p->features & CLATTN_WITH_MASK || p->bias_type != CLATTN_TYPE_NONE)) {
        values->mask_first_key = keys / 3;
        values->mask_key_len -= keys / 3;
        values->bias_key_len -= keys / 3;
    }
    values->has_scale = 1;
    values->scale = 0.9 / sqrt((double)p->head_dim);
    values->dropout_seed = 0x0123456789abcdefu + (uint64_t)turn;
    values->dropout_offset = 7 + (uint32_t)turn;
    values->first_batch = 3;
    values->first_head = 2;
    values->first_row = 5;
    values->first_key = turn == CHECK_TILES ? 0 : 4 * turn + 1;
    values->whole_heads = p->query_heads + 5;
    if (check->problem.any.code) { /* a text may load by these numbers, out of tensors for the caller's */
        values->first_batch = values->first_head = values->first_row = values->first_key = 0;
        for (int i = 0; i < check->problem.any.code->p.scalar_count; ++i) {
            values->code_scalars[i] = 1;
        }
    }
}

clattn_status check_call_create(const struct problem *problem, enum check_turn turn, int of_gradients,
                                struct check_call *check)
{
    memset(check, 0, sizeof(*check));
    check->problem = *problem;
    check->problem.any.operation = &operation_forward;
    check->turn = turn;
    check->of_gradients = of_gradients;
    check->values = (clattn_call)CLATTN_CALL_INIT;
    check->tensors = (clattn_host_tensors)CLATTN_HOST_TENSORS_INIT;
    clattn_problem *p = &check->problem.p;
    p->value_in_key = 0; /* kernels are the same: values of its own tell them apart */
    int64_t rows, keys;
    const int64_t most = turn == CHECK_EQUAL ? 1 : 2, kv_heads = min64(p->kv_heads, most);
    p->query_heads = p->query_heads / p->kv_heads * kv_heads;
    p->kv_heads = kv_heads;
    p->batch = min64(p->batch, most);
    choose_lengths(p, turn, of_gradients, &rows, &keys);
    fit(p, turn, of_gradients, &rows, &keys);
    shrink(p, turn, rows, keys);
    choose_values(check, rows, keys);
    check->call.query_len = rows;
    check->call.key_len = keys;
    if (p->features & CLATTN_WITH_VARLEN) { /* the problem's lengths are those that count */
        p->query_len = rows;
        p->key_len = keys;
    }
    if (p->page_size > 0) {
        choose_pages(check, keys);
        check->page_of = malloc((size_t)p->pages * sizeof(*check->page_of));
        if (!check->page_of) {
            return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a self-check");
        }
        memset(check->page_of, 0xff, (size_t)p->pages * sizeof(*check->page_of));
        for (int64_t n = 0; n < p->batch * check->sequence_pages; ++n) {
            check->page_of[check_page(check, n)] = (int32_t)n;
        }
    }
    const struct forward_lengths lengths = { rows,
                                             keys,
                                             check->values.mask_key_len,
                                             check->values.bias_key_len,
                                             check_seam(check, 0, p->batch),
                                             check_seam(check, 1, p->batch),
                                             check_table_page(check, p->batch, 0) };
    struct operands operands;
    operands_begin(&operands, &operation_forward);
    operands.asked = forward_asked(p, problem->any.code);
    forward_measure(p, problem->any.code, &lengths, &operands);
    clattn_status status = CLATTN_OK;
    for (int id = 0; id < FORWARD_TENSOR_COUNT && status == CLATTN_OK; ++id) {
        status = operand_is_asked(&operands, id) ? make_tensor(check, &operands, id) : CLATTN_OK;
    }
    if (status == CLATTN_OK) {
        status = call_from_host(&check->problem, &check->values, &check->tensors, &check->call);
    }
    return status == CLATTN_OK ? check_hide(check) : status;
}

void check_call_free(struct check_call *check)
{
    for (int id = 0; id < FORWARD_TENSOR_COUNT; ++id) {
        free(check->memory[id]);
    }
    free(check->page_of);
}
