#include "shard.h"

#include <string.h>

#include "split_mix.h"

/* ---- numbers ---- */

/* From -1.7 to 1.7, of variance 1. */
static double number_at(enum shard_tensor id, uint64_t place)
{
    const uint64_t z = split_mix((place + 1) * SPLIT_MIX_STEP + ((uint64_t)id << 56));
    return ((double)(z >> 11) * 0x1p-52 - 1) * 1.7320508;
}

struct extents {
    int64_t heads, columns;
    int is_of_keys;
};

static struct extents extents_of(const clattn_problem *p, enum shard_tensor id)
{
    switch (id) {
    case SHARD_KEY:
    case SHARD_DKEY:
        return (struct extents){ p->kv_heads, p->head_dim, 1 };
    case SHARD_VALUE:
    case SHARD_DVALUE:
        return (struct extents){ p->kv_heads, p->head_dim_v, 1 };
    case SHARD_QUERY:
    case SHARD_DQUERY:
        return (struct extents){ p->query_heads, p->head_dim, 0 };
    case SHARD_LSE:
        return (struct extents){ p->query_heads, 1, 0 };
    default:
        return (struct extents){ p->query_heads, p->head_dim_v, 0 };
    }
}

/* One row, from element `at` of the tensor on. */
static void fill_row(const clattn_problem *p, enum shard_tensor id, int64_t b, int64_t head, int64_t row,
                     struct tensor *tensor, int64_t at)
{
    const struct extents e = extents_of(p, id);
    const int64_t length = e.is_of_keys ? p->key_len : p->query_len;
    const int64_t first = ((b * e.heads + head) * length + row) * e.columns;
    for (int64_t column = 0; column < e.columns; column++) {
        tensor_store(tensor, at + column, number_at(id, (uint64_t)(first + column)));
    }
}

int shard_make_heads(const clattn_problem *whole, enum shard_tensor id, int64_t b, int64_t first_head, int64_t heads,
                     struct tensor *tensor, struct failure *failure)
{
    const struct extents e = extents_of(whole, id);
    const int64_t length = e.is_of_keys ? whole->key_len : whole->query_len;
    const int64_t shape[] = { heads, length, e.columns };
    if (tensor_create(tensor, tensor_type_of_storage(whole->type), 3, shape, "heads of the whole", failure) != 0) {
        return -1;
    }
    for (int64_t h = 0; h < heads; h++) {
        for (int64_t row = 0; row < length; row++) {
            fill_row(whole, id, b, first_head + h, row, tensor, (h * length + row) * e.columns);
        }
    }
    return 0;
}

/* ---- the shard ---- */

int64_t shard_axis_at(const struct shard_axis *axis, int64_t place)
{
    const clattn_ring_piece *piece = &axis->piece[axis->pieces > 1 && place >= axis->piece[1].place];
    return piece->first + (place - piece->place) * piece->step;
}

static void find_axis(const clattn_ring_options *o, int64_t length, int has_all, struct shard_axis *axis)
{
    clattn_ring_pieces(o->layout, has_all ? 1 : o->ranks, has_all ? 0 : o->rank, length, axis->piece, &axis->pieces);
    axis->count = 0;
    for (int n = 0; n < axis->pieces; n++) {
        axis->count += axis->piece[n].count;
    }
}

static void fill(struct shard *shard, enum shard_tensor id)
{
    const clattn_problem *p = shard->whole;
    const struct extents e = extents_of(p, id);
    const struct shard_axis *axis = e.is_of_keys ? &shard->keys : &shard->rows;
    int64_t at = 0;
    for (int64_t b = 0; b < p->batch; b++) {
        for (int64_t h = 0; h < e.heads; h++) {
            for (int64_t place = 0; place < axis->count; place++, at += e.columns) {
                fill_row(p, id, b, h, shard_axis_at(axis, place), &shard->tensor[id], at);
            }
        }
    }
}

static int make_tensor(struct shard *shard, enum shard_tensor id, clattn_host_tensor *host, struct failure *failure)
{
    const clattn_problem *p = shard->whole;
    const struct extents e = extents_of(p, id);
    const int64_t shape[] = { p->batch, e.heads, e.is_of_keys ? shard->keys.count : shard->rows.count, e.columns };
    const enum tensor_type type = id == SHARD_LSE ? TENSOR_FLOAT32 : tensor_type_of_storage(p->type);
    if (tensor_create(&shard->tensor[id], type, 4, shape, "a shard", failure) != 0) {
        return -1;
    }
    if (id < SHARD_INPUTS) {
        fill(shard, id);
    }
    *host = clattn_host_tensor_bhsd(shard->tensor[id].data, shape[1], shape[2], shape[3]);
    return 0;
}

/* Slopes are ALiBi's own; sinks from -1.7 to 1.7. */
static int make_of_heads(struct shard *shard, enum shard_tensor id, clattn_host_tensor *host, struct failure *failure)
{
    const int64_t heads = shard->whole->query_heads;
    if (tensor_create(&shard->tensor[id], TENSOR_FLOAT32, 1, &heads, "a number a head", failure) != 0) {
        return -1;
    }
    for (int64_t h = 0; h < heads; h++) {
        tensor_store(&shard->tensor[id], h, number_at(id, (uint64_t)h));
    }
    if (id == SHARD_SLOPES && heads && clattn_alibi_slopes(heads, shard->tensor[id].data) != CLATTN_OK) {
        return failure_of_library(failure, EXIT_FAILED, clattn_last_error());
    }
    host->data = shard->tensor[id].data;
    host->stride[1] = 1;
    return 0;
}

int shard_make(const clattn_problem *whole, const clattn_ring_options *options, int has_all_rows, int with_gradients,
               struct shard *shard, struct failure *failure)
{
    const clattn_host_tensors host = CLATTN_HOST_TENSORS_INIT;
    const clattn_host_gradients gradients = CLATTN_HOST_GRADIENTS_INIT;
    memset(shard, 0, sizeof *shard);
    shard->whole = whole;
    shard->host = host;
    shard->gradients = gradients;
    find_axis(options, whole->query_len, has_all_rows, &shard->rows);
    find_axis(options, whole->key_len, 0, &shard->keys);
    clattn_host_tensors *t = &shard->host;
    clattn_host_gradients *g = &shard->gradients;
    if (make_tensor(shard, SHARD_QUERY, &t->query, failure) != 0 ||
        make_tensor(shard, SHARD_KEY, &t->key, failure) != 0 ||
        make_tensor(shard, SHARD_VALUE, &t->value, failure) != 0 ||
        make_tensor(shard, SHARD_OUT, &t->out, failure) != 0 || make_tensor(shard, SHARD_LSE, &t->lse, failure) != 0) {
        return -1;
    }
    if ((whole->features & CLATTN_WITH_SLOPES && make_of_heads(shard, SHARD_SLOPES, &t->slopes, failure) != 0) ||
        (whole->features & CLATTN_WITH_SINKS && make_of_heads(shard, SHARD_SINKS, &t->sinks, failure) != 0)) {
        return -1;
    }
    return with_gradients && (make_tensor(shard, SHARD_DOUT, &g->dout, failure) != 0 ||
                              make_tensor(shard, SHARD_DQUERY, &g->dquery, failure) != 0 ||
                              make_tensor(shard, SHARD_DKEY, &g->dkey, failure) != 0 ||
                              make_tensor(shard, SHARD_DVALUE, &g->dvalue, failure) != 0)
               ? -1
               : 0;
}

void shard_free(struct shard *shard)
{
    for (int id = 0; id < SHARD_TENSORS; id++) {
        tensor_free(&shard->tensor[id]);
    }
}
