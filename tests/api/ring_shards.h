/* Calls cut into shards, and ranks that are threads (mpi/ranks.h) with a shard each. */
#ifndef CLATTN_TESTS_API_RING_SHARDS_H
#define CLATTN_TESTS_API_RING_SHARDS_H

#include "api/ring_mail.h"

#define DIM 8 /* of queries, keys and values */

struct setting {
    int64_t ranks;
    clattn_ring_layout layout;
    clattn_ring_algorithm algorithm;
};

/* A dense tensor of rows in the order of the layout; the rank's begin at row `begin`. */
struct permuted {
    clattn_host_tensor *field; /* of the whole; data NULL: is not there */
    int64_t outer, rows;
    size_t row_bytes;
    char *data;
};

enum { BY_ROW = 8, BY_KEY = 4, PERMUTED = 12, SHARED = 4 };

/* The tensors of a call and its gradients: eight with rows (dbias where it is not a sum over them), four with keys. */
void list_permuted(const clattn_problem *p, clattn_host_tensors *t, clattn_host_gradients *g,
                   struct permuted list[PERMUTED]);

/* All into the order of the layout; or outputs back, and what that took is freed. */
void permute_all(const struct setting *setting, struct permuted *list, int back);

/* Where a rank's shard begins. */
int64_t shard_begin(const struct setting *setting, int64_t rank, int64_t length);

struct rank {
    struct carrier carrier;
    struct rank_call call;
    clattn_host_tensors tensors;
    clattn_host_gradients gradients;
    struct failure failure;
    clattn_status status;
    char *explained; /* NULL: nothing was played */
    pthread_t thread;
    double shared[SHARED][512]; /* memory of shared_fields */
};

/* Gradients that all ranks get: dslopes, dsinks, dscale, dbias. */
void shared_fields(clattn_host_gradients *g, clattn_host_tensor *fields[SHARED]);

/* Tensors of rank `spoilt` lose what `spoil` takes from them; NULL: nobody's do. */
void run_ranks(const struct setting *setting, const struct rank_call *call, const clattn_host_tensors *t,
               const clattn_host_gradients *g, const struct permuted *list, void (*spoil)(struct rank *rank),
               struct rank *ranks);

#endif
