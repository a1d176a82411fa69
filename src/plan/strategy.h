/* What a strategy is: one row of the table in strategies.c. The planner asks each; a strategy never sees another one.
 * Each lives in a file of its own in src/strategy/. */
#ifndef CLATTN_SRC_STRATEGY_H
#define CLATTN_SRC_STRATEGY_H

#include "operation/operands.h"
#include "plan/ask.h"
#include "plan/estimates.h"
#include "plan/rates.h"
#include "plan/wisdom.h"
#include "program/launch.h"

struct clattn_plan {
    clattn_context *context;
    struct any_problem *problem; /* owned; its struct is that of strategy->operation (attention_problem) */
    const struct strategy *strategy;
    uint32_t groups;        /* of tensors, that its programs take (attention_groups) */
    void *state;            /* the strategy's own, of strategy->state_bytes: kernels, tiles; const after creation */
    size_t workspace_bytes; /* set by strategy->plan */
    double weight_rounding; /* likewise: relative error of softmax weights as they meet the values; 0: float32's */
    double factor_rounding; /* likewise, of queries, keys and values */
    double sum_roundings;   /* likewise: the strategy's, or fewer */
    char *explain;
    int without_wisdom; /* what it proposed could not be built */
    int took_wisdom;
    struct estimates estimates; /* of all strategies of the operation */
    double create_ms;           /* what making it took */
    double compile_ms;          /* of that, compiling and loading what the context did not have: so many programs */
    uint64_t programs;
};

/* What wisdom may choose for a problem. */
struct tunable {
    struct wisdom_class of;
    struct wisdom_tile table; /* the tile that is taken without it */
    int is_smallest;          /* that tile is the smallest, since the device does not say what it has */
};

#define STRATEGY_TYPE(type) (1u << (type))
#define STRATEGY_16_BITS (STRATEGY_TYPE(CLATTN_FLOAT16) | STRATEGY_TYPE(CLATTN_BFLOAT16))
#define STRATEGY_32_BITS (STRATEGY_16_BITS | STRATEGY_TYPE(CLATTN_FLOAT32))
#define STRATEGY_64_BITS (STRATEGY_32_BITS | STRATEGY_TYPE(CLATTN_FLOAT64))

struct strategy {
    const struct operation *operation; /* that it computes */
    const char *name;
    const char *summary; /* one line for people */
    uint32_t knows;      /* flags of problems that its kernels read, or that its `applicable` looks at. The planner
                          * declines a problem with any other flag. Operations without flags: 0 */

    uint32_t takes; /* groups of tensors (CLATTN_TAKES_*) that its programs take also where a problem has none of them:
                     * one program then serves problems with and without. Operations without groups: 0 */

    uint32_t types; /* of queries that it may take, bits of STRATEGY_TYPE; not those that a problem must allow (tf32) */

    double sum_roundings; /* L of docs/numbers.md: how often a term of a sum over keys (of gradients: over rows or keys)
                           * is rounded on its way to the result, at most, however many terms there are. Operations
                           * without such sums: 0 */

    /* 1: takes the problem on this device. 0: does not (ask_declines). */
    int (*applicable)(struct ask *ask);

    /* What one call takes of the device, for a guess of its time that only compares strategies on one device; of a
     * problem that is applicable. */
    struct work (*work)(struct ask *ask);

    /* Fills plan->state, which has state_bytes zeros, and plan->workspace_bytes; compiles; appends its tiles and
     * choices to ask->explain, a line each ("  tile: 64 queries x 32 keys\n"). */
    size_t state_bytes;
    clattn_status (*plan)(struct ask *ask, struct clattn_plan *plan);

    /* Enqueues one call, whose operands the call of the operation begins with. Something is written: of attention
     * batch, query_heads and query_len are > 0; key_len may be 0. */
    clattn_status (*enqueue)(const struct clattn_plan *plan, const struct operands *operands, struct chain *chain);

    /* What wisdom may choose for a problem that is applicable, 0: nothing; and whether the kernels are right with a
     * tile, in bounds, and give the bits that they give with the tuning table's. Both NULL: there are no tiles. Plans
     * call tile_choose (plan/tile_choice.h), not these. */
    int (*tunable)(struct ask *ask, struct tunable *tunable);
    int (*is_legal)(struct ask *ask, const struct wisdom_tile *tile);
};

/* What a plan's strategy is asked later, of its problem. */
struct ask plan_ask(const struct clattn_plan *plan);

extern const struct strategy *const strategy_table[];
extern const size_t strategy_count;

#endif
