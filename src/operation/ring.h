/* A schedule of attention over ranks, as data: who has which rows and keys, which of them see each other, and what each
 * rank sends, receives and computes. No transport and no device. */
#ifndef CLATTN_SRC_RING_H
#define CLATTN_SRC_RING_H

#include "clattn_ring.h"

#define RING_RANKS_MOST 65536
#define RING_PIECES 2 /* of a shard, at most */

struct ring_range {
    int64_t first_message, messages, first_task, tasks;
};

/* A list that grows: steps, and behind one another what they have. */
struct ring_list {
    struct ring_range *step;
    clattn_ring_message *message;
    clattn_ring_task *task;
    int64_t steps, messages, tasks, step_room, message_room, task_room;
    int failed; /* no memory */
};

struct clattn_ring {
    clattn_problem whole; /* with its defaults; no pointers */
    clattn_ring_options options;
    int64_t *offset, *length;             /* [batch]: where row 0 stands, and how many keys there are */
    double cost_s[CLATTN_RING_HEADS + 1]; /* estimated; 0: was not asked for */
    struct ring_list list;
    char *explain;
};

/* ---- who has what (ring_pieces.c) ---- */

/* The pieces of a rank's shard; how many there are. Some may be empty. */
int ring_pieces(clattn_ring_layout layout, int64_t ranks, int64_t rank, int64_t length,
                clattn_ring_piece pieces[RING_PIECES]);
int64_t ring_shard(clattn_ring_layout layout, int64_t ranks, int64_t rank, int64_t length);

clattn_status ring_check_layout(clattn_ring_layout layout, int64_t ranks, int64_t rank);

clattn_status ring_permute(clattn_ring_layout layout, int64_t ranks, int64_t outer, int64_t rows, size_t row_bytes,
                           int back, const void *from, void *to);

/* ---- who sees whom (ring_visible.c) ---- */

/* Row i of a piece may see key j of another where i + low <= j <= i + high, as causal and window have it. */
struct ring_band {
    int has_low, has_high;
    int64_t low, high;
    int64_t causal_high; /* of causal alone, which keys that are always visible obey too */
};
void ring_band(const clattn_ring *ring, int64_t b, const clattn_ring_piece *rows, const clattn_ring_piece *keys,
               struct ring_band *band);

/* Whether some row sees some key, by causal, window and lengths. */
int ring_sees(const clattn_ring *ring, const clattn_ring_piece *rows, const clattn_ring_piece *keys);

/* How many elements of a piece are before element `end` of the whole. */
int64_t ring_before(const clattn_ring_piece *piece, int64_t end);

/* Pairs of a row and a key that a task computes, over batch and heads, as causal, window and lengths leave them; of
 * more than 4,096 rows at most so many are looked at, evenly. */
double ring_pairs(const clattn_ring *ring, const clattn_ring_task *task);

/* What clattn_ring_call says. `problem` and `call` are whole structs of any version. */
clattn_status ring_call(const clattn_ring *ring, const clattn_ring_task *task, clattn_problem *problem,
                        clattn_call *call, int32_t *offsets, int32_t *lengths);

/* ---- what is done (ring_steps.c), and by which algorithm (ring_choice.c) ---- */

/* Whether an algorithm can take the problem: an error that says why not. */
clattn_status ring_check(const clattn_ring *ring, clattn_ring_algorithm algorithm);

/* Replaces CLATTN_RING_AUTO in the options. */
clattn_status ring_choose(clattn_ring *ring);
clattn_status ring_explain(clattn_ring *ring);

/* What a message takes. */
double ring_bytes(const clattn_ring *ring, const clattn_ring_message *message);

void ring_add_step(struct ring_list *list);
void ring_add_message(struct ring_list *list, const clattn_ring_message *message);
void ring_add_task(struct ring_list *list, const clattn_ring_task *task);

clattn_status ring_build(clattn_ring *ring);

/* ---- the life of one, and sums (ring.c): what clattn_ring_create and clattn_ring_merge say ---- */

clattn_status ring_new(const clattn_problem *whole, const clattn_ring_options *options, clattn_ring **ring);
void ring_free(clattn_ring *ring);

void ring_merge(int64_t rows, int64_t columns, const float *out, const float *lse, double *sum_out, double *sum_lse);
void ring_merge_sums(int64_t rows, int64_t columns, const double *out, const double *lse, double *sum_out,
                     double *sum_lse);

#endif
