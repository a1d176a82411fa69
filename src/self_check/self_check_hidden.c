/* What is in the keys of a check that some rows do not see: numbers that would show wherever they went. All of a key
 * and of its value where no row sees it; one element of a few values where some rows do, which must be NaN or infinite
 * in those rows' outputs, and in no others. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/stored_types.h"
#include "cl/forward/forward_params.h"
#include "operation/pools.h"
#include "reference/stored_rows.h"
#include "self_check/self_check_call.h"

#define SPOILT_MOST 4 /* values of a head that some rows see: more would leave their columns nothing else to tell */

struct hidden {
    const struct check_call *check;
    struct sequence sequence;
    struct stored_place at; /* a key of the sequence, and of a key/value head */
    int64_t *seeing;        /* how many rows see each key */
    int64_t rows;           /* of all heads that share it */
};

static void count_seeing(struct hidden *h)
{
    const struct check_call *check = h->check;
    const int64_t group = problem_group(&check->problem.p), first = h->at.kv_head * group;
    h->rows = group * h->sequence.query_len;
    for (int64_t j = 0; j < h->sequence.stored_keys; ++j) {
        h->seeing[j] = 0;
        for (int64_t n = 0; n < h->rows; ++n) {
            h->seeing[j] +=
                key_is_allowed(&check->problem, &check->call, &h->sequence, h->at.b, first + n % group, n / group, j);
        }
    }
}

/* Kernels take other ways where all that they read is finite, which must be right there too: of tiles every other head
 * stays as it is, of many keys every other stretch. */
static int may_spoil(const struct hidden *h, int64_t j)
{
    const int64_t head = h->at.b + h->at.kv_head, stretch = h->check->call.key_len > 1024 ? 512 : 128;
    return h->check->turn == CHECK_TILES  ? head % 2 == 1
           : h->check->turn == CHECK_LONG ? (j / stretch + head) % 2 == 1
                                          : 1;
}

/* Elements of a row of keys, or of values. */
static int64_t elements_of(const struct check_call *check, enum tensor_id id)
{
    const clattn_problem *p = &check->problem.p;
    return (id == TENSOR_KEY ? p->head_dim : p->head_dim_v) / operand_columns(&check->call.operands, (int)id);
}

/* Elements [first, first + count) of the key or the value. What kernels look for may be either: NaN, or, not to be
 * overlooked beside it, infinity alone. Scores that are given out are sums, and not as infinite in one order as in
 * another. */
static void spoil(const struct hidden *h, enum tensor_id id, int64_t first, int64_t count)
{
    const struct check_call *check = h->check;
    const struct operands *operands = &check->call.operands;
    int64_t b, row;
    if (!stored_row_find(&h->at, &b, &row)) {
        return; /* in a hole, or another key's by now */
    }
    const int tensor = check->problem.flags & CLATTN_FLAG_POOLS ? pools_tensor_of(&check->problem.p, id, &b) : (int)id;
    const struct tensor_place *place = &operands->tensor[tensor];
    const clattn_type type = operands->element[operands->operation->rows[tensor].element];
    const size_t bytes = operand_bytes(operands, tensor);
    const int is_infinite = (h->at.b + h->at.kv_head + h->at.j / 128 + (check->turn == CHECK_TALL)) % 2 == 0 &&
                            type_is_float(type) &&
                            (id == TENSOR_VALUE || check->problem.p.weights == CLATTN_WEIGHTS_NONE);
    for (int64_t c = first; c < first + count; ++c) {
        const int64_t at = place_index(place, b, h->at.kv_head, row, c);
        if (is_infinite) {
            type_store(type, place->data, at, (double)INFINITY);
        } else {
            memset((char *)place->data + (size_t)at * bytes, 0xff, bytes);
        }
    }
}

static int is_seen_by_some(const struct hidden *h, int64_t j)
{
    return h->seeing[j] > 0 && h->seeing[j] < h->rows && may_spoil(h, j);
}

/* From the first of them to the last, in columns from the first to the last. Where there are few columns, one of which
 * may be all that a row has, in one call alone. Gradients have none: whoever sees it has none that are
 * numbers, and neither have the keys that it sees. */
static void spoil_some(struct hidden *h)
{
    const int64_t elements = elements_of(h->check, TENSOR_VALUE), most = elements < SPOILT_MOST ? 1 : SPOILT_MOST;
    int64_t candidates = 0, n = 0, spoilt = 0;
    for (int64_t j = 0; j < h->sequence.stored_keys; ++j) {
        candidates += is_seen_by_some(h, j);
    }
    if (h->check->of_gradients || (most == 1 && h->check->turn != CHECK_FEW)) {
        return;
    }
    for (int64_t j = 0; j < h->sequence.stored_keys && spoilt < most; ++j) {
        if (is_seen_by_some(h, j) && n++ >= spoilt * (candidates - 1) / (most > 1 ? most - 1 : 1)) {
            h->at.j = j;
            spoil(h, TENSOR_VALUE, most > 1 ? spoilt * (elements - 1) / (most - 1) : elements - 1, 1);
            ++spoilt;
        }
    }
}

static void spoil_unseen(struct hidden *h)
{
    for (int64_t j = 0; j < h->sequence.stored_keys; ++j) {
        if (h->seeing[j] == 0 && may_spoil(h, j)) {
            h->at.j = j;
            spoil(h, TENSOR_KEY, 0, elements_of(h->check, TENSOR_KEY));
            spoil(h, TENSOR_VALUE, 0, elements_of(h->check, TENSOR_VALUE));
        }
    }
}

clattn_status check_hide(const struct check_call *check)
{
    const clattn_problem *p = &check->problem.p;
    struct hidden h = { .check = check };
    h.seeing = malloc((size_t)(check->call.key_len + 1) * sizeof(*h.seeing));
    if (!h.seeing) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a self-check");
    }
    for (int64_t n = 0; n < p->batch * p->kv_heads; ++n) {
        h.sequence = sequence_of(&check->problem, &check->call, n / p->kv_heads);
        h.at = (struct stored_place){ &check->problem, &check->call, &h.sequence, n / p->kv_heads, n % p->kv_heads, 0 };
        count_seeing(&h);
        spoil_some(&h);
        spoil_unseen(&h);
    }
    free(h.seeing);
    return CLATTN_OK;
}
