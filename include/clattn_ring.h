/* Attention whose rows and keys lie on several ranks (processes, hosts), each with a part: who sends what to whom, and
 * which partial call each computes, step by step. A schedule without a transport: MPI, sockets or a test drive the same
 * list. What this shares with clattn.h (problems, errors, how structs grow) is said there.
 *
 *     clattn_ring *ring;
 *     clattn_ring_options options = CLATTN_RING_OPTIONS_INIT;
 *     options.ranks = 4, options.rank = 1, options.layout = CLATTN_RING_ZIGZAG;
 *     clattn_ring_create(&whole, &options, &ring);
 *     for (int64_t n = 0; n < clattn_ring_steps(ring); ++n)     what step n sends, receives and computes:
 *         clattn_ring_step_at(ring, n, &step);
 *
 * No function here blocks, needs a device or calls back. libclattn_mpi (clattn_mpi.h) drives it over MPI. */
#ifndef CLATTN_RING_H
#define CLATTN_RING_H

#include "clattn_backward.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- schedules of ranks --------------------------------------------------------------------- */

/* Which rows and keys of the whole are in a rank's shard, in the order in which they lie there. Lengths need not be
 * multiples: piece n of m of a length L begins at n * L / m, rounded down. */
typedef enum clattn_ring_layout {
    CLATTN_RING_CONTIGUOUS = 0, /* piece r of n */
    CLATTN_RING_ZIGZAG = 1,     /* pieces r and 2 n - 1 - r of 2 n: the work of causal masks is the same on all ranks */
    CLATTN_RING_STRIPED = 2     /* r, r + n, r + 2 n, ... */
} clattn_ring_layout;

typedef enum clattn_ring_algorithm {
    CLATTN_RING_AUTO = 0,    /* KEYS, QUERIES or HEADS, whichever the costs say is fastest; clattn_ring_explain tells */
    CLATTN_RING_KEYS = 1,    /* keys and values go around the ring (Liu, Zaharia and Abbeel, "Ring attention with
                              * blockwise transformers", 2023), gradients of them with them, and home at the end */
    CLATTN_RING_QUERIES = 2, /* queries and what was summed for them so far go around: few rows on many keys */
    CLATTN_RING_TREE = 3,    /* decoding: each rank has all rows and its part of the keys; partial results are merged by
                              * a butterfly (Shyam et al., "Tree attention", 2024), until all ranks have all of it */
    CLATTN_RING_HEADS = 4    /* heads apart (Jacobs et al., "DeepSpeed Ulysses", 2023): each rank gets all rows and keys
                              * of its heads; kv_heads must be a multiple of ranks */
} clattn_ring_algorithm;

/* Start from CLATTN_RING_OPTIONS_INIT. All ranks must say the same, but for `rank`. */
typedef struct clattn_ring_options {
    size_t struct_size;
    int64_t rank, ranks; /* 0 <= rank < ranks <= 65536 */
    clattn_ring_layout layout;
    clattn_ring_algorithm algorithm;
    int gradients;                /* nonzero: of clattn_enqueue_backward, not of the forward call */
    const int32_t *key_lengths;   /* [batch], of the whole, with CLATTN_WITH_KEY_LENGTHS; read at once, as the next */
    const int32_t *query_offsets; /* [batch], of the whole, with CLATTN_ALIGN_OFFSETS */
    double flop_per_s, bytes_per_s, latency_s; /* of a rank, a link and a message, for CLATTN_RING_AUTO; 0: 1e11,
                                                * 1.25e9 (10 Gbit/s) and 5e-5 */
} clattn_ring_options;

#define CLATTN_RING_OPTIONS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(clattn_ring_options), 0, 1, CLATTN_RING_CONTIGUOUS, CLATTN_RING_AUTO, 0, NULL, NULL, 0.0, 0.0, 0.0      \
    }
CLATTN_API void clattn_ring_options_init(clattn_ring_options *options, size_t struct_size);

typedef struct clattn_ring clattn_ring; /* the schedule of one rank: immutable */

/* Schedules `whole`, whose query_len and key_len are those of all ranks together. Reads `whole` and `options`, and
 * keeps none of them. The caller owns *ring. CLATTN_UNSUPPORTED, with the field in the message:
 *   always      packed sequences, pages, rings of caches, scales, row ranges, block masks, key lists, masks of bits,
 *               values in keys, texts of the user's own, a weights output; float64 but with HEADS (lse is float32, and
 *               partial results would be merged by its rounding)
 *   STRIPED     slopes, dropout, always_visible_keys; a window that ends on both sides (causal is an end too) where
 *               rows of the batch entries stand at places that are not alike modulo ranks
 *   QUERIES, HEADS   a mask or a bias, whose rows lie on one rank
 *   TREE        gradients; layouts but CONTIGUOUS */
CLATTN_API clattn_status clattn_ring_create(const clattn_problem *whole, const clattn_ring_options *options,
                                            clattn_ring **ring);
CLATTN_API void clattn_ring_destroy(clattn_ring *ring);

/* Rows and keys of a rank's shard. TREE: every rank has all rows. 0 for a rank that there is not. */
CLATTN_API int64_t clattn_ring_rows(const clattn_ring *ring, int64_t rank);
CLATTN_API int64_t clattn_ring_keys(const clattn_ring *ring, int64_t rank);

/* The algorithm that was taken: never CLATTN_RING_AUTO. */
CLATTN_API clattn_ring_algorithm clattn_ring_chosen(const clattn_ring *ring);

/* Several lines of text: the algorithm and why, and what this rank sends and computes. Owned by *ring. */
CLATTN_API const char *clattn_ring_explain(const clattn_ring *ring);

/* Rows (or keys) that are first, first + step, ... of the whole, and lie behind one another in their shard. */
typedef struct clattn_ring_piece {
    int64_t first, step, count;
    int64_t place; /* of the first one, in the shard */
} clattn_ring_piece;

/* Which rows (or keys, of a whole that long) are a rank's, without a problem or a schedule: who reads its own part of a
 * file needs no more. Into `pieces`, in the order of its shard; *count is how many, 0 to 2, none of them empty.
 * (TREE: rows are all on every rank.) */
CLATTN_API clattn_status clattn_ring_pieces(clattn_ring_layout layout, int64_t ranks, int64_t rank, int64_t length,
                                            clattn_ring_piece pieces[2], int *count);

/* A partial call: some rows against some keys, by clattn_ring_call. Both shards are there when its step begins. Its
 * results are added to those of its rows so far (clattn_ring_merge), of gradients also to those of its keys, in the
 * order of tasks. */
typedef struct clattn_ring_task {
    int64_t row_shard, key_shard; /* the ranks whose they are; HEADS: -1, all rows and keys in the order of the whole;
                                   * TREE: rows -1 */
    clattn_ring_piece rows, keys;
    int64_t first_kv_head, kv_heads; /* and the query heads of these */
    int has_sinks;                   /* sinks, and dsinks, are those of this task: of one for each row */
} clattn_ring_task;

/* What a message is of. Its heads are those of keys, or the query heads of these; its rows a whole shard. */
typedef enum clattn_ring_content {
    CLATTN_RING_OF_KEYS = 1,        /* key and value */
    CLATTN_RING_OF_QUERIES = 2,     /* query; of gradients also dout, out, lse and dlse */
    CLATTN_RING_OF_RESULTS = 3,     /* sums of out and lse, of gradients of dquery. HEADS: the results themselves */
    CLATTN_RING_OF_KEY_RESULTS = 4, /* sums of dkey and dvalue; HEADS: these themselves */
    CLATTN_RING_CONTENTS = 5
} clattn_ring_content;

typedef enum clattn_ring_when {
    CLATTN_RING_WHEN_BEGIN = 0, /* starts as the step begins: what is sent is as it is then. What is received is there
                                 * when the step ends */
    CLATTN_RING_WHEN_END = 1,   /* a send: starts once all of the step's tasks and received sums are added up */
    CLATTN_RING_WHEN_LAST = 2   /* received into where it stays: may start at once, and must, else a chain of ranks may
                                 * wait for itself; it is there when the last step ends */
} clattn_ring_when;

typedef enum clattn_ring_use {
    CLATTN_RING_USE_PUT = 0,    /* what is received is the shard, or the result */
    CLATTN_RING_USE_BEFORE = 1, /* it is a sum of what comes before this rank's own, which is added behind it */
    CLATTN_RING_USE_AFTER = 2   /* it is added behind this rank's own */
} clattn_ring_use;

typedef struct clattn_ring_message {
    int is_send; /* 0: is received */
    clattn_ring_content content;
    clattn_ring_when when;
    clattn_ring_use use;
    int64_t peer;  /* the other rank */
    int64_t shard; /* the rank whose rows or keys these are; TREE: -1 */
    int64_t first_kv_head, kv_heads;
    int tag; /* 1 to 15, the same on both sides. Messages of one tag between two ranks arrive in the order of sending */
} clattn_ring_message;

/* The arrays are owned by the schedule. */
typedef struct clattn_ring_step {
    int64_t messages, tasks; /* how many */
    const clattn_ring_message *message;
    const clattn_ring_task *task;
} clattn_ring_step;

CLATTN_API int64_t clattn_ring_steps(const clattn_ring *ring);
CLATTN_API clattn_status clattn_ring_step_at(const clattn_ring *ring, int64_t index, clattn_ring_step *step);

/* The problem and the call of a task, out of those of the whole: `call` holds the whole's values (scale, seed, ...) and
 * becomes the task's. `offsets` and `lengths` have room for [batch] each: what query_offsets and key_lengths are where
 * problem->alignment is CLATTN_ALIGN_OFFSETS and problem->features has CLATTN_WITH_KEY_LENGTHS. problem's lengths are
 * those of the largest task, so that tasks share plans; it and *call begin as CLATTN_PROBLEM_INIT and CLATTN_CALL_INIT.
 * Partial results have lse, and float32 out; those of HEADS the whole's, and gradients, whose forward problem this is,
 * too. Tensors are the caller's to place: rows begin at rows.place of row_shard, keys at keys.place of key_shard;
 * column j of a mask or bias, whose columns are all keys of the whole, is keys.first + j * keys.step. */
CLATTN_API clattn_status clattn_ring_call(const clattn_ring *ring, const clattn_ring_task *task,
                                          clattn_problem *problem, clattn_call *call, int32_t *offsets,
                                          int32_t *lengths);

/* Adds partial results of disjoint keys to a sum, in float64, in dense host memory: rows of `columns` numbers, and an
 * lse each.
 *     sum_lse' = ln(exp(sum_lse) + exp(lse)),  sum_out' = exp(sum_lse - sum_lse') sum_out + exp(lse - sum_lse') out
 * (as clattn_merge). A row whose lse is -inf adds nothing, and its out is not read. The first of them sums a partial
 * result, the second another sum. A sum begins as 0 with lse -inf. */
CLATTN_API void clattn_ring_merge(int64_t rows, int64_t columns, const float *out, const float *lse, double *sum_out,
                                  double *sum_lse);
CLATTN_API void clattn_ring_merge_sums(int64_t rows, int64_t columns, const double *out, const double *lse,
                                       double *sum_out, double *sum_lse);

/* Rows into the order in which the shards of all ranks have them, one shard behind the other (back: 0), or from there
 * into the whole's (1): `outer` runs of `rows` dense rows of `row_bytes` bytes. `from` and `to` must not overlap. */
CLATTN_API clattn_status clattn_ring_permute(clattn_ring_layout layout, int64_t ranks, int64_t outer, int64_t rows,
                                             size_t row_bytes, int back, const void *from, void *to);

#ifdef __cplusplus
}
#endif

#endif
