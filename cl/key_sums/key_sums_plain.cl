/* Sums of weights, and largest logits, a work-item a key of a head: any shape, stride, mask and type; no local memory.
 *
 *     global id 0: key      2: batch * head        walks over the rows that may see the key
 *
 *         row i    0 1 2 3 4 5 6 7
 *                  . . x x x x x x      the largest logit is of all that see the key,
 *                  . . . . x x x x      the sum of the last rows, in blocks of KEY_SUMS_ROWS from the first of them on
 *
 * Sums of blocks are added with what rounding takes away, so that no error grows with the number of rows. */
#include "forward/arguments.clh"
#include "forward/kv_rows.clh"
#include "key_sums/rows.clh"
#include "pair/logit.clh"
#include "common/sum_and_rest.clh"

#define COLUMN_BLOCK 64

DEFINE_ADD_EXACTLY(add_exactly, REAL)

/* A key, where it is. */
typedef struct key_place {
    kv_rows rows;
    int at; /* its number, or its place in a row's list */
#if IS_CODES(KEY_TYPE)
    kv_scales scales;
#endif
} key_place;

static inline REAL scaled_dot(const clattn_params *p, const attention_buffers *in, const sequence *s,
                              const pair_row *row, const key_place *key)
{
    const clattn_i64 query_at = query_row_at(p, s, row->b, row->h, row->i), key_at = kv_row(&key->rows, key->at);
    __global const ELEMENT_KEY *buffer = (__global const ELEMENT_KEY *)BUFFER_AT(in->key, &key->rows, key_at);
#if IS_CODES(KEY_TYPE)
    const scale_row scales = kv_scale_row(&key->scales, &key->rows, key->at);
#endif
    REAL sum = 0, total = 0;
    for (int c = 0; c < p->head_dim; ++c) {
        if (c % COLUMN_BLOCK == 0) {
            total += sum;
            sum = 0;
        }
#if IS_CODES(KEY_TYPE)
        const REAL element =
            kv_value(KEY_TYPE, STORED_OF(KEY_TYPE, buffer + IN_POOL(key_at), c, key->rows.column), &scales, c);
#else
        const REAL element = KEY_LOAD(buffer, IN_POOL(key_at) + c * key->rows.column);
#endif
        sum = FMA(LOAD(in->query, query_at + c * STRIDE(query, 3)), element, sum);
    }
    return (total + sum) * PARAM_REAL(p, scale);
}

/* The logit of row i and key j; 0: the row does not see it. */
static inline int logit_of_pair(const clattn_params *p, const attention_buffers *in, const sequence *of_batch, int b,
                                int h, int i, int j, REAL *logit)
{
    const int kv_head = h / (p->query_heads / p->kv_heads);
    sequence s = *of_batch;
    narrow_to_rows(p, in, &s, b, h, 1, i, i);
    const pair_row row = pair_row_of(p, in, &s, b, h, i);
    const int at = LISTED ? place_in_list(&s.list, j) : j;
    if (at < 0 || !key_allowed(p, in, &s, &row, j)) {
        return 0;
    }
    const key_place key = { key_rows_of(p, in, &s, b, kv_head), at
#if IS_CODES(KEY_TYPE)
                            ,
                            key_scales_of(p, in, &s, b, kv_head)
#endif
    };
    *logit = scaled_dot(p, in, &s, &row, &key);
    return finish_logit(p, in, &s, &row, j, logit);
}

__kernel LEAST_SUB_GROUP void key_sums_plain(KEY_SUMS_ARGUMENTS, int first_key, int first_plane)
{
    ATTENTION_INPUTS(p, in);
    const int j = first_key + (int)get_global_id(0), plane = first_plane + (int)get_global_id(2);
    const int b = plane / p->query_heads, h = plane % p->query_heads;
    if (j >= p->key_len) {
        return;
    }
    const sequence s = sequence_of(p, &in, b);
    const int first = first_summed_row(&s, &places);
    REAL total = 0, rest = 0, sum = 0, largest = -INFINITY;
    for (int i = WANTS_MAX ? 0 : first; i < s.query_len; ++i) {
        REAL logit = 0;
        if (i >= first && (i - first) % KEY_SUMS_ROWS == 0) {
            add_exactly(&total, &rest, sum);
            sum = 0;
        }
        if (logit_of_pair(p, &in, &s, b, h, i, j, &logit)) {
            const REAL lse = i >= first ? row_lse(p, &in, &s, b, h, i) : -(REAL)INFINITY;
            sum += lse != -(REAL)INFINITY ? exp(logit - lse) : 0;
            largest = larger_logit(largest, logit);
        }
    }
    add_exactly(&total, &rest, sum);
    if (WANTS_SUMS) {
        key_sums[key_sum_at(&places, b, h, j)] = total + rest;
    }
    if (WANTS_MAX) {
        maxima[(size_t)plane * p->key_len + j] = largest;
    }
}
