/* What a rank has while it plays a schedule. */
#ifndef CLATTN_MPI_PLAY_H
#define CLATTN_MPI_PLAY_H

#include "given.h"
#include "shards.h"
#include "totals.h"

enum { FRESH, RECEIVED, SENDING, SUMS };

struct play {
    const struct carrier *carrier;
    const struct rank_call *c;
    struct given given; /* the problem with its types and head_dim_v */
    clattn_ring *ring;
    struct failure *failure; /* of this rank, so far */
    struct shard_shape keys, queries, results, key_results;
    int moves_keys, moves_queries; /* or neither: a tree */
    int has_sums;                  /* of what moves */
    char *slot[2];                 /* shards that move: slot[here] is computed with, the other one comes */
    int here;
    char *sum[SUMS];                 /* for what moves, or of a tree what comes */
    char *own;                       /* for this rank's rows */
    char *own_keys;                  /* gradients: for its keys */
    char *part;                      /* a partial result: out, then lse */
    struct total total[TOTALS_MOST]; /* gradients of what is added to scores, and of the scale: those asked for */
    int totals;
    int32_t *offsets, *lengths;
    void *sending;       /* what has sum[SENDING] on its way; NULL: none */
    struct heads *heads; /* heads.h; NULL but where heads go apart */
};

clattn_status play_fails(struct failure *failure, clattn_status status, const char *text);

/* A schedule, memory for it, and what moves at first; what it has is given back by play_end, after failures too. */
clattn_status play_begin(struct play *play);
void play_end(struct play *play);

/* Sums begin as nothing. */
void sum_clear(const struct shard_shape *shape, int64_t rows, char *sum);

/* Adds `second` to `first`. */
void sum_add(const struct shard_shape *shape, int64_t rows, char *first, const char *second);

/* Key lengths and offsets of a partial call, which clattn_ring_call made. */
void play_lengths(const struct play *play, const clattn_problem *p, clattn_host_tensors *t);

/* A partial call, added to the sums. */
clattn_status play_task(struct play *play, const clattn_ring_task *task);

/* Where gradients of a task belong. */
struct total_place play_place(const struct play *play, const clattn_ring_task *task);

/* Sums into the caller's tensors. */
clattn_status play_give(struct play *play);

#endif
