#include "play.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heads.h"

clattn_status play_fails(struct failure *failure, clattn_status status, const char *text)
{
    failure->status = status;
    snprintf(failure->text, sizeof(failure->text), "%s", text);
    return status;
}

/* ---- beginning ---------------------------------------------------------------------------------- */

static clattn_status make_ring(struct play *play)
{
    const struct rank_call *c = play->c;
    clattn_ring_options options = CLATTN_RING_OPTIONS_INIT;
    options.rank = play->carrier->rank;
    options.ranks = play->carrier->ranks;
    options.layout = c->layout;
    options.algorithm = c->algorithm;
    options.gradients = c->backward != NULL;
    options.key_lengths = integers_of(&play->given.tensors.key_lengths);
    options.query_offsets = integers_of(&play->given.tensors.query_offsets);
    clattn_status status = clattn_ring_create(&play->given.whole, &options, &play->ring);
    if (status == CLATTN_OK && c->backward && clattn_ring_chosen(play->ring) == CLATTN_RING_QUERIES) {
        if (c->algorithm == CLATTN_RING_QUERIES) {
            return play_fails(play->failure, CLATTN_UNSUPPORTED,
                              "algorithm CLATTN_RING_QUERIES: has no gradients over MPI; take CLATTN_RING_KEYS");
        }
        clattn_ring_destroy(play->ring);
        options.algorithm = CLATTN_RING_KEYS;
        status = clattn_ring_create(&play->given.whole, &options, &play->ring);
    }
    return status == CLATTN_OK ? status : play_fails(play->failure, status, clattn_last_error());
}

static void set_shapes(struct play *play)
{
    clattn_problem *p = &play->given.whole;
    p->head_dim_v = p->head_dim_v ? p->head_dim_v : p->head_dim;
    p->key_type = p->key_type ? p->key_type : p->type;
    p->value_type = p->value_type ? p->value_type : p->type;
    p->out_type = p->out_type ? p->out_type : p->type;
    const struct shard_shape keys = {
        p->batch, p->kv_heads, { p->key_type, p->value_type }, { p->head_dim, p->head_dim_v }
    };
    const struct shard_shape queries = { p->batch, p->query_heads, { p->type, CLATTN_TYPE_NONE }, { p->head_dim, 0 } };
    const struct shard_shape sums = {
        p->batch, p->query_heads, { CLATTN_FLOAT64, CLATTN_FLOAT64 }, { p->head_dim_v, 1 }
    };
    const struct shard_shape dquery = {
        p->batch, p->query_heads, { CLATTN_FLOAT32, CLATTN_TYPE_NONE }, { p->head_dim, 0 }
    };
    const struct shard_shape dkeys = {
        p->batch, p->kv_heads, { CLATTN_FLOAT32, CLATTN_FLOAT32 }, { p->head_dim, p->head_dim_v }
    };
    play->keys = keys;
    play->queries = queries;
    play->results = play->c->backward ? dquery : sums;
    play->key_results = dkeys;
}

static clattn_status check_call(struct play *play)
{
    const clattn_host_tensors *t = &play->given.tensors;
    const int64_t rows = clattn_ring_rows(play->ring, play->carrier->rank);
    const int64_t keys = clattn_ring_keys(play->ring, play->carrier->rank);
    const struct {
        const clattn_host_tensor *tensor;
        int64_t rows; /* of a shard without any there is no memory */
    } given[] = { { &t->query, rows }, { &t->out, rows }, { &t->key, keys }, { &t->value, keys } };
    const uint32_t all = CLATTN_GRADIENT_QUERY | CLATTN_GRADIENT_KEY | CLATTN_GRADIENT_VALUE;
    for (size_t n = 0; n < sizeof(given) / sizeof(given[0]); ++n) {
        if (given[n].rows > 0 && (!given[n].tensor->data || given[n].tensor->stride[3] != 1)) {
            return play_fails(play->failure, CLATTN_INVALID_ARGUMENT,
                              "query, key, value, out: must be given, with an innermost stride of 1");
        }
    }
    if (clattn_type_columns(play->given.whole.key_type) != 1 ||
        clattn_type_columns(play->given.whole.value_type) != 1) {
        return play_fails(play->failure, CLATTN_UNSUPPORTED, "key_type, value_type: of blocks are not sent over MPI");
    }
    if (!play->c->backward) {
        return CLATTN_OK;
    }
    const clattn_host_gradients *g = &play->given.gradients;
    if ((play->given.backward.gradients & all) != all || play->given.backward.accumulate) {
        return play_fails(play->failure, CLATTN_UNSUPPORTED,
                          "gradients: must have those of query, key and value, and accumulate be 0, over MPI");
    }
    if ((rows > 0 && (!g->dquery.data || !t->lse.data)) || (keys > 0 && (!g->dkey.data || !g->dvalue.data))) {
        return play_fails(play->failure, CLATTN_INVALID_ARGUMENT, "lse, dquery, dkey, dvalue: must be given");
    }
    return CLATTN_OK;
}

static int64_t largest_of(const struct play *play, int64_t (*count)(const clattn_ring *ring, int64_t rank))
{
    int64_t most = 0;
    for (int64_t rank = 0; rank < play->carrier->ranks; ++rank) {
        most = count(play->ring, rank) > most ? count(play->ring, rank) : most;
    }
    return most;
}

static int reserve(char **data, size_t bytes)
{
    *data = malloc(bytes > 0 ? bytes : 1);
    return *data != NULL;
}

/* What moves, and memory for what is on its way. */
static int reserve_all(struct play *play, int64_t rows, int64_t keys)
{
    const struct shard_shape *moving = play->moves_keys ? &play->keys : &play->queries;
    const struct shard_shape part = { play->given.whole.batch,
                                      play->given.whole.query_heads,
                                      { CLATTN_FLOAT32, CLATTN_FLOAT32 },
                                      { play->given.whole.head_dim_v, 1 } };
    const size_t sum_bytes = play->c->backward ? shard_bytes(&play->key_results, keys)
                                               : shard_bytes(&play->results, rows);
    int is_there = reserve(&play->own, shard_bytes(&play->results, rows)) &&
                   reserve(&play->part, shard_bytes(&part, rows));
    is_there = is_there && (!play->c->backward || reserve(&play->own_keys, sum_bytes));
    for (int n = 0; n < 2 && (play->moves_keys || play->moves_queries); ++n) {
        is_there = is_there && reserve(&play->slot[n], shard_bytes(moving, play->moves_keys ? keys : rows));
    }
    for (int n = 0; n < SUMS && (play->has_sums || !play->moves_keys); ++n) {
        is_there = is_there && reserve(&play->sum[n], sum_bytes);
    }
    return is_there;
}

static int reserve_lengths(struct play *play)
{
    const size_t batch = (size_t)(play->given.whole.batch > 0 ? play->given.whole.batch : 1);
    play->offsets = malloc(batch * sizeof(*play->offsets));
    play->lengths = malloc(batch * sizeof(*play->lengths));
    return play->offsets && play->lengths;
}

clattn_status play_begin(struct play *play)
{
    const int64_t rank = play->carrier->rank;
    const clattn_host_tensors *t = &play->given.tensors;
    clattn_status status = given_read(play->c, &play->given, play->failure);
    if (status == CLATTN_OK) {
        set_shapes(play);
        status = make_ring(play);
    }
    status = status == CLATTN_OK ? check_call(play) : status;
    if (status != CLATTN_OK) {
        return status;
    }
    if (!reserve_lengths(play)) {
        return play_fails(play->failure, CLATTN_OUT_OF_HOST_MEMORY, "out of memory for lengths");
    }
    const int64_t most_rows = largest_of(play, clattn_ring_rows), most_keys = largest_of(play, clattn_ring_keys);
    status = totals_begin(play, most_rows, most_keys);
    if (status != CLATTN_OK) {
        return status;
    }
    if (clattn_ring_chosen(play->ring) == CLATTN_RING_HEADS) {
        return heads_begin(play);
    }
    play->moves_keys = clattn_ring_chosen(play->ring) == CLATTN_RING_KEYS;
    play->moves_queries = clattn_ring_chosen(play->ring) == CLATTN_RING_QUERIES;
    play->has_sums = play->moves_queries || (play->moves_keys && play->c->backward);
    if (!reserve_all(play, most_rows, most_keys)) {
        return play_fails(play->failure, CLATTN_OUT_OF_HOST_MEMORY, "out of memory for shards");
    }
    sum_clear(&play->results, clattn_ring_rows(play->ring, rank), play->own);
    const clattn_host_tensor *const keys[2] = { &t->key, &t->value }, *const queries[2] = { &t->query, NULL };
    if (play->moves_keys) {
        shard_pack(&play->keys, clattn_ring_keys(play->ring, rank), keys, play->slot[0]);
    } else if (play->moves_queries) {
        shard_pack(&play->queries, clattn_ring_rows(play->ring, rank), queries, play->slot[0]);
    }
    return CLATTN_OK;
}

void play_end(struct play *play)
{
    char *const all[] = { play->slot[0], play->slot[1],  play->sum[0], play->sum[1],
                          play->sum[2],  play->own_keys, play->own,    play->part };
    for (size_t n = 0; n < sizeof(all) / sizeof(all[0]); ++n) {
        free(all[n]);
    }
    heads_end(play);
    totals_end(play);
    free(play->offsets);
    free(play->lengths);
    clattn_ring_destroy(play->ring);
}

/* ---- sums ---------------------------------------------------------------------------------------- */

static int is_of_results(const struct shard_shape *shape)
{
    return shape->types[0] == CLATTN_FLOAT64;
}

void sum_clear(const struct shard_shape *shape, int64_t rows, char *sum)
{
    memset(sum, 0, shard_bytes(shape, rows));
    double *lse = (double *)(void *)(sum + shard_at(shape, rows, 1));
    for (int64_t n = 0; n < shape->batch * shape->heads * rows && is_of_results(shape); ++n) {
        lse[n] = (double)-INFINITY;
    }
}

void sum_add(const struct shard_shape *shape, int64_t rows, char *first, const char *second)
{
    const size_t lse = shard_at(shape, rows, 1);
    if (is_of_results(shape)) {
        clattn_ring_merge_sums(shape->batch * shape->heads * rows, shape->columns[0],
                               (const double *)(const void *)second, (const double *)(const void *)(second + lse),
                               (double *)(void *)first, (double *)(void *)(first + lse));
        return;
    }
    for (size_t n = 0; n < shard_bytes(shape, rows) / sizeof(float); ++n) {
        ((float *)(void *)first)[n] += ((const float *)(const void *)second)[n];
    }
}

/* ---- one partial call ----------------------------------------------------------------------------- */

void play_lengths(const struct play *play, const clattn_problem *p, clattn_host_tensors *t)
{
    const clattn_host_tensor none = CLATTN_TENSOR_NONE;
    const clattn_host_tensor offsets = { play->offsets, 0, { 0, 0, 0, 1 } };
    const clattn_host_tensor lengths = { play->lengths, 0, { 0, 0, 0, 1 } };
    t->key_lengths = p->features & CLATTN_WITH_KEY_LENGTHS ? lengths : none;
    t->query_offsets = p->alignment == CLATTN_ALIGN_OFFSETS ? offsets : none;
}

/* The tensors of a task, but for its results. */
static void place_task(struct play *play, const clattn_ring_task *task, const clattn_problem *p, clattn_host_tensors *t)
{
    const clattn_host_tensors *given = &play->given.tensors;
    const clattn_host_tensor none = CLATTN_TENSOR_NONE;
    clattn_host_tensor *const by_key[] = { &t->mask, &t->bias };
    *t = *given;
    t->query = play->moves_queries ? shard_tensor(&play->queries, play->slot[play->here],
                                                  clattn_ring_rows(play->ring, task->row_shard), 0, task->rows.place)
                                   : rows_from(&given->query, task->rows.place);
    t->key = rows_from(&given->key, task->keys.place);
    t->value = rows_from(&given->value, task->keys.place);
    if (play->moves_keys) {
        const int64_t keys = clattn_ring_keys(play->ring, task->key_shard);
        t->key = shard_tensor(&play->keys, play->slot[play->here], keys, 0, task->keys.place);
        t->value = shard_tensor(&play->keys, play->slot[play->here], keys, 1, task->keys.place);
    }
    for (size_t n = 0; n < sizeof(by_key) / sizeof(by_key[0]) && !play->moves_queries; ++n) {
        by_key[n]->offset += task->rows.place * by_key[n]->stride[2] + task->keys.first * by_key[n]->stride[3];
        by_key[n]->stride[3] *= task->keys.step;
    }
    t->sinks = task->has_sinks ? t->sinks : none;
    play_lengths(play, p, t);
}

/* Each plane's rows into those of the sum. */
static void merge_part(struct play *play, const clattn_ring_task *task, char *sum, int64_t rows)
{
    const int64_t columns = play->given.whole.head_dim_v, count = task->rows.count;
    const int64_t planes = play->given.whole.batch * play->given.whole.query_heads;
    const float *out = (const float *)(void *)play->part, *lse = out + planes * count * columns;
    double *sum_out = (double *)(void *)sum;
    double *sum_lse = (double *)(void *)(sum + shard_at(&play->results, rows, 1));
    for (int64_t plane = 0; plane < planes; ++plane) {
        const int64_t at = plane * rows + task->rows.place;
        clattn_ring_merge(count, columns, out + plane * count * columns, lse + plane * count, sum_out + at * columns,
                          sum_lse + at);
    }
}

static clattn_status forward_task(struct play *play, const clattn_ring_task *task, const clattn_problem *p,
                                  const clattn_call *call, clattn_host_tensors *t)
{
    const int64_t columns = play->given.whole.head_dim_v, heads = play->given.whole.query_heads,
                  count = task->rows.count;
    float *out = (float *)(void *)play->part;
    t->out = clattn_host_tensor_bhsd(out, heads, count, columns);
    t->lse = clattn_host_tensor_bhsd(out + play->given.whole.batch * heads * count * columns, heads, count, 1);
    const clattn_status status = clattn_forward_host(play->c->context, p, call, t);
    if (status == CLATTN_OK) {
        merge_part(play, task, play->moves_queries ? play->sum[FRESH] : play->own,
                   clattn_ring_rows(play->ring, task->row_shard));
    }
    return status;
}

struct total_place play_place(const struct play *play, const clattn_ring_task *task)
{
    const clattn_problem *p = &play->given.whole;
    const int64_t group = p->kv_heads > 0 ? p->query_heads / p->kv_heads : 1;
    return (struct total_place){ task->rows.count, task->rows.place,       task->keys.count,           task->keys.first,
                                 task->keys.step,  task->kv_heads * group, task->first_kv_head * group };
}

static clattn_status backward_task(struct play *play, const clattn_ring_task *task, const clattn_problem *p,
                                   const clattn_call *call, clattn_host_tensors *t)
{
    const clattn_host_gradients *given = &play->given.gradients;
    const int64_t rows = clattn_ring_rows(play->ring, play->carrier->rank);
    const int64_t keys = clattn_ring_keys(play->ring, task->key_shard);
    clattn_backward_problem backward = play->given.backward;
    clattn_host_gradients g = CLATTN_HOST_GRADIENTS_INIT;
    backward.forward = p;
    backward.accumulate = CLATTN_GRADIENT_QUERY | CLATTN_GRADIENT_KEY | CLATTN_GRADIENT_VALUE;
    backward.gradients &= task->has_sinks ? ~(uint32_t)0 : ~(uint32_t)CLATTN_GRADIENT_SINKS;
    backward.gradient_type = CLATTN_FLOAT32;
    t->out = rows_from(&play->given.tensors.out, task->rows.place);
    t->lse = rows_from(&play->given.tensors.lse, task->rows.place);
    g.dout = rows_from(&given->dout, task->rows.place);
    g.dlse = rows_from(&given->dlse, task->rows.place);
    g.dquery = shard_tensor(&play->results, play->own, rows, 0, task->rows.place);
    g.dkey = shard_tensor(&play->key_results, play->sum[FRESH], keys, 0, task->keys.place);
    g.dvalue = shard_tensor(&play->key_results, play->sum[FRESH], keys, 1, task->keys.place);
    const struct total_place place = play_place(play, task);
    totals_place(play, &place, &g);
    g.dsinks.data = task->has_sinks ? g.dsinks.data : NULL;
    const clattn_status status = clattn_backward_host(play->c->context, &backward, call, t, &g);
    if (status == CLATTN_OK) {
        totals_add(play, &place, backward.gradients);
    }
    return status;
}

clattn_status play_task(struct play *play, const clattn_ring_task *task)
{
    clattn_problem p = CLATTN_PROBLEM_INIT;
    clattn_call call = play->given.call;
    clattn_host_tensors t;
    clattn_status status = clattn_ring_call(play->ring, task, &p, &call, play->offsets, play->lengths);
    if (status == CLATTN_OK) {
        place_task(play, task, &p, &t);
        status = play->c->backward ? backward_task(play, task, &p, &call, &t) : forward_task(play, task, &p, &call, &t);
    }
    return status == CLATTN_OK ? status : play_fails(play->failure, status, clattn_last_error());
}

/* ---- ending ---------------------------------------------------------------------------------------- */

static int give_gradients(struct play *play, int64_t rows, int64_t keys)
{
    const clattn_problem *p = &play->given.whole;
    const clattn_host_gradients *g = &play->given.gradients;
    const clattn_type wanted = play->given.backward.gradient_type;
    const float *dkey = (const float *)(void *)play->own_keys;
    const float *dvalue = (const float *)(void *)(play->own_keys + shard_at(&play->key_results, keys, 1));
    const int64_t of_query[4] = { p->batch, p->query_heads, rows, p->head_dim };
    const int64_t of_key[4] = { p->batch, p->kv_heads, keys, p->head_dim };
    const int64_t of_value[4] = { p->batch, p->kv_heads, keys, p->head_dim_v };
    return rows_give(wanted ? wanted : p->type, of_query, NULL, (const float *)(void *)play->own, &g->dquery) |
           rows_give(wanted ? wanted : p->key_type, of_key, NULL, dkey, &g->dkey) |
           rows_give(wanted ? wanted : p->value_type, of_value, NULL, dvalue, &g->dvalue);
}

static int give_results(struct play *play, int64_t rows)
{
    const clattn_problem *p = &play->given.whole;
    const clattn_host_tensors *t = &play->given.tensors;
    const double *out = (const double *)(void *)play->own;
    const double *lse = (const double *)(void *)(play->own + shard_at(&play->results, rows, 1));
    const int64_t of_out[4] = { p->batch, p->query_heads, rows, p->head_dim_v };
    const int64_t of_lse[4] = { p->batch, p->query_heads, rows, 1 };
    return rows_give(p->out_type, of_out, out, NULL, &t->out) |
           (p->features & CLATTN_WITH_LSE ? rows_give(CLATTN_FLOAT32, of_lse, lse, NULL, &t->lse) : 0);
}

clattn_status play_give(struct play *play)
{
    const int64_t rank = play->carrier->rank, rows = clattn_ring_rows(play->ring, rank);
    const int failed = play->c->backward ? give_gradients(play, rows, clattn_ring_keys(play->ring, rank))
                                         : give_results(play, rows);
    return failed ? play_fails(play->failure, CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a row") : CLATTN_OK;
}
