/* The small calls that a plan's programs are tried with before any result of theirs reaches a caller, and whether what
 * came out is right. Knows problems and the reference, no plan: plan/self_check.c lets a plan compute them. */
#ifndef CLATTN_SRC_SELF_CHECK_CALL_H
#define CLATTN_SRC_SELF_CHECK_CALL_H

#include "operation/backward.h"
#include "operation/call.h"

/* A small call of a plan's problem: every tensor it asks for, filled; owned. Its turn decides sizes and numbers: */
enum check_turn {
    CHECK_TILES, /* several tiles of rows, few of keys; memory as kernels like it */
    CHECK_FEW,   /* few rows and keys; elements apart, at odd places; some sequence has no row, or a length below 0 */
    CHECK_LONG,  /* few rows, many blocks and splits of keys, most of them behind a window or a range, and many holes */
    CHECK_TALL, /* more rows than keys, so that some see none; values that are not finite; broadcast masks and biases */
    CHECK_NONE, /* nothing to see, where a mask, a bias or lengths can have it so */
    CHECK_DROPPED, /* hardly a weight is kept, where there is dropout, of logits that are not all finite */
    CHECK_EQUAL,   /* one row and thousands of keys that are all alike (a text tells them apart); for gradients, as many
                    * rows and two keys */
    CHECK_TURNS
};

struct check_call {
    enum check_turn turn;
    int of_gradients;       /* that are computed of it: what is not finite would leave few of them a number */
    struct problem problem; /* the plan's, but for sizes that no kernel is built for */
    clattn_call values;
    struct call call;
    clattn_host_tensors tensors;
    void *memory[FORWARD_TENSOR_COUNT];     /* what is between, before and behind elements is 0xff */
    int64_t elements[FORWARD_TENSOR_COUNT]; /* that fit into that */
    int64_t sequence_pages;
    int32_t *page_of; /* which page of the table, counted over all sequences, a page of the pool is; -1: none */
};

/* A small call of gradients: those that the plan's problem asks for, of a forward call whose out and lse are the
 * reference's. */
struct check_gradients {
    struct check_call forward;
    struct backward_problem problem;
    struct call call;
    clattn_host_gradients tensors;
    void *memory[BACKWARD_TENSOR_COUNT]; /* of what the forward does not have */
    void *before[BACKWARD_TENSOR_COUNT]; /* likewise: what a gradient is added to */
    int64_t elements[BACKWARD_TENSOR_COUNT];
};

/* Sizes, at most. Rows and keys are more than one tile of most kernels, and no multiple of any; the long turn has more
 * than three splits of keys. */
#define CHECK_ROWS 150
#define CHECK_KEYS 149
#define CHECK_LONG_KEYS 1700
#define CHECK_WINDOW 220 /* keys before a row */
#define CHECK_PINNED 530
#define CHECK_PAGE_ROWS 4096     /* the largest pages, of which a check fills a few */
#define CHECK_MANY_PAGE_ROWS 550 /* the largest pages of turns that fill several */

/* Keys of the long turn: one of few numbers, so that verdicts are on few classes of problems. 0: no such turn. */
int64_t check_long_keys(const clattn_problem *p);

/* Rows and keys of the turn of equal terms. Returns 0 where there is none: not enough of them, too much work, something
 * hides them, or results have too few bits to tell. */
int check_equal_lengths(const clattn_problem *p, int of_gradients, int64_t *rows, int64_t *keys);

/* An element of queries, keys or values in that turn. */
double check_equal_value(const struct check_call *check, int id, int64_t stored_row, int64_t column);

/* What of a problem a check sees, after the number of what checks ask; problems that it says the same of share a
 * verdict. */
void check_describe(const struct any_problem *problem, struct text *text);

/* Whether a problem is one of gradients. */
static inline int check_is_of_gradients(const struct any_problem *problem)
{
    return problem->operation == &operation_backward;
}

int check_has_turn(const struct problem *problem, enum check_turn turn, int of_gradients);
clattn_status check_call_create(const struct problem *problem, enum check_turn turn, int of_gradients,
                                struct check_call *check);
void check_call_free(struct check_call *check);
clattn_status check_gradients_create(const struct backward_problem *problem, enum check_turn turn,
                                     struct check_gradients *check);
void check_gradients_free(struct check_gradients *check);

/* Where a tensor of the call lies, in memory of its own that is all 0xff. `like`: the tensor of the forward's that it
 * is, or lies like. */
clattn_status check_place(const struct check_call *check, const struct operands *operands, int id, int like,
                          clattn_host_tensor *tensor, void **memory, int64_t *elements);

/* In [-1, 1), different for each turn, tensor and element; the same in every process. */
double check_number(const struct check_call *check, int id, int64_t i);

/* The elements of an input. */
clattn_status check_fill(const struct check_call *check, const struct operands *operands, int id, const int64_t n[4],
                         const clattn_host_tensor *to);

/* The further buffers of a pool are as its first one. */
static inline int check_first_of(int id)
{
    return id < ALL_TENSOR_COUNT ? id : id < TENSOR_VALUE_POOL_1 ? TENSOR_KEY : TENSOR_VALUE;
}

static inline int check_asks(const struct check_call *check, uint32_t feature)
{
    return (check->problem.p.features & feature) != 0;
}

/* Rows, or keys, of all packed sequences before sequence b; the sequence of a packed row, and the row in it. */
int64_t check_seam(const struct check_call *check, int of_keys, int64_t b);
void check_find_packed(const struct check_call *check, int of_keys, int64_t row, int64_t *b, int64_t *i);
int check_packs_keys(const struct check_call *check);

/* As many keys of the long turn as leave rows that see none of the last split. */
int64_t check_before_last_split(int64_t keys);

/* What key_lengths says, which may be below 0 or beyond the keys; the keys that it leaves. */
int64_t check_key_length(const struct check_call *check, int64_t b);
int64_t check_seen_keys(const struct check_call *check, int64_t b);

/* Where the first row of a sequence stands among the keys, where the problem lets the call say so. */
int64_t check_query_offset(const struct check_call *check, int64_t b);

/* One of a whole split of keys that rows see and whose logits are all -infinity, of the last head of the long turn. */
int check_is_lost_key(const struct check_call *check, int64_t b, int64_t kv_head, int64_t j);

/* Which page of the pool is page n, counted over all sequences. Where a table of one line has page n of sequence b, and
 * what the table says of it. */
int64_t check_page(const struct check_call *check, int64_t n);
int64_t check_table_page(const struct check_call *check, int64_t b, int64_t n);
double check_table_entry(const struct check_call *check, int64_t b, int64_t n);

/* The range of a row, which may be a packed one. */
double check_range_bound(const struct check_call *check, int is_high, int64_t b, int64_t h, int64_t row);

/* Keys and values that no row of the call sees, or only some do, become NaN and infinities: all of the former, a few
 * columns of a few of the latter. */
clattn_status check_hide(const struct check_call *check);

/* What a plan rounds: clattn_plan_weight_rounding, _factor_rounding and _sum_roundings. */
struct check_rounding {
    double weights, factors, sums;
};

/* Holds the outputs against the reference. Appends the first that is wrong to `bad`. What is between the elements of
 * outputs must be as it was. */
clattn_status check_answers(const struct check_rounding *rounding, const struct check_call *check, struct text *bad);
clattn_status check_gradient_answers(const struct check_rounding *rounding, const struct check_gradients *check,
                                     struct text *bad);

/* Appends the first that is wrong: an element of an output, unless `bad` has one already; whatever is between the
 * elements, which become 0xff themselves. */
void check_says_wrong(const struct operands *operands, int id, const int64_t at[4], double got, double want,
                      struct text *bad);
void check_gaps(const struct operands *operands, int id, int64_t elements, struct text *bad);

#endif
