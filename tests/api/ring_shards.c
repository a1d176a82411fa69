#include "api/ring_shards.h"

#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "operation/ring.h"

/* ---- shards --------------------------------------------------------------------------------------- */

static clattn_host_tensor nobodys; /* is not there */

static void permute(const struct setting *setting, struct permuted *of, int back)
{
    if (!back) {
        of->data = malloc((size_t)(of->outer * of->rows) * of->row_bytes + 1);
    }
    char *whole = (char *)of->field->data;
    EXPECT_OK(clattn_ring_permute(setting->layout, setting->ranks, of->outer, of->rows, of->row_bytes, back,
                                  back ? of->data : whole, back ? whole : of->data));
}

void list_permuted(const clattn_problem *p, clattn_host_tensors *t, clattn_host_gradients *g,
                   struct permuted list[PERMUTED])
{
    const int64_t of_rows = p->batch * p->query_heads, of_keys = p->batch * p->kv_heads;
    const int64_t of_bias = (g->dbias.stride[0] ? p->batch : 1) * (g->dbias.stride[1] ? p->query_heads : 1);
    const size_t row = DIM * clattn_type_size(p->type), key_row = (size_t)p->key_len;
    const struct permuted all[PERMUTED] = { { &t->query, of_rows, p->query_len, row, NULL },
                                            { &t->out, of_rows, p->query_len, row, NULL },
                                            { &t->lse, of_rows, p->query_len, sizeof(float), NULL },
                                            { &t->mask, of_rows, p->query_len, key_row, NULL },
                                            { &t->bias, of_rows, p->query_len, key_row * sizeof(float), NULL },
                                            { &g->dout, of_rows, p->query_len, row, NULL },
                                            { &g->dquery, of_rows, p->query_len, row, NULL },
                                            { &g->dbias, of_bias, p->query_len, key_row * sizeof(float), NULL },
                                            { &t->key, of_keys, p->key_len, row, NULL },
                                            { &t->value, of_keys, p->key_len, row, NULL },
                                            { &g->dkey, of_keys, p->key_len, row, NULL },
                                            { &g->dvalue, of_keys, p->key_len, row, NULL } };
    memcpy(list, all, sizeof(all));
    list[BY_ROW - 1].field = g->dbias.stride[2] != 0 ? &g->dbias : &nobodys;
}

void shared_fields(clattn_host_gradients *g, clattn_host_tensor *fields[SHARED])
{
    fields[0] = &g->dslopes;
    fields[1] = &g->dsinks;
    fields[2] = &g->dscale;
    fields[3] = g->dbias.stride[2] == 0 ? &g->dbias : &nobodys;
}

int64_t shard_begin(const struct setting *setting, int64_t rank, int64_t length)
{
    int64_t begin = 0;
    for (int64_t before = 0; before < rank; ++before) {
        begin += ring_shard(setting->layout, setting->ranks, before, length);
    }
    return begin;
}

/* ---- ranks, each a thread ---------------------------------------------------------------------------- */

static void *run_rank(void *argument)
{
    struct rank *rank = argument;
    rank->status = ranks_run(&rank->carrier, &rank->call, &rank->failure);
    return NULL;
}

/* The structs of a rank: those of the whole, in its shards. A tree's rows are all there. */
static void place_rank(const struct setting *setting, const struct permuted *list, const clattn_host_tensors *t,
                       const clattn_host_gradients *g, struct rank *rank)
{
    const char *const from[2] = { (const char *)t, (const char *)g };
    clattn_host_tensor *shared[SHARED];
    rank->tensors = *t;
    rank->gradients = *g;
    shared_fields(&rank->gradients, shared);
    memset(rank->shared, 0, sizeof(rank->shared));
    for (int n = 0; n < SHARED; ++n) {
        shared[n]->data = shared[n]->data ? rank->shared[n] : NULL;
    }
    for (int n = 0; n < PERMUTED; ++n) {
        if (!list[n].field->data) {
            continue;
        }
        const char *field = (const char *)list[n].field;
        const int is_gradient = field < from[0] || field >= from[0] + sizeof(*t);
        char *own = is_gradient ? (char *)&rank->gradients : (char *)&rank->tensors;
        clattn_host_tensor *tensor = (clattn_host_tensor *)(void *)(own + (field - from[is_gradient]));
        const int is_split = n >= BY_ROW || setting->algorithm != CLATTN_RING_TREE;
        tensor->data = list[n].data;
        tensor->offset = is_split ? shard_begin(setting, rank->carrier.rank, list[n].rows) * tensor->stride[2] : 0;
    }
}

void run_ranks(const struct setting *setting, const struct rank_call *call, const clattn_host_tensors *t,
               const clattn_host_gradients *g, const struct permuted *list, void (*spoil)(struct rank *rank),
               struct rank *ranks)
{
    struct post *post = post_open(setting->ranks);
    for (int64_t n = 0; n < setting->ranks; ++n) {
        struct rank *rank = &ranks[n];
        rank->carrier = post_carrier(post, n);
        place_rank(setting, list, t, g, rank);
        rank->call = *call;
        rank->call.tensors = &rank->tensors;
        rank->call.gradients = &rank->gradients;
        rank->explained = NULL;
        rank->call.explained = &rank->explained;
        if (spoil) {
            spoil(rank);
        }
        ck_assert_int_eq(pthread_create(&rank->thread, NULL, run_rank, rank), 0);
    }
    for (int64_t n = 0; n < setting->ranks; ++n) {
        pthread_join(ranks[n].thread, NULL);
        if (ranks[n].status == CLATTN_OK && setting->algorithm == CLATTN_RING_AUTO && !call->backward) {
            ck_assert_msg(strstr(ranks[n].explained, ": estimated ") != NULL, "%s", ranks[n].explained);
        }
        free(ranks[n].explained);
    }
    post_close(post);
}

void permute_all(const struct setting *setting, struct permuted *list, int back)
{
    for (int n = 0; n < PERMUTED; ++n) {
        const int is_output = n == 1 || n == 2 || n == BY_ROW - 2 || n == BY_ROW - 1 || n >= BY_ROW + 2;
        if (list[n].field->data && (!back || is_output)) {
            permute(setting, &list[n], back);
        }
        if (back) {
            free(list[n].data);
        }
    }
}
