/* Known answers of a plan's own programs, before any result of theirs reaches a caller: where the device is none that
 * the tests run on (or CLATTN_SELF_CHECK says so), small calls of the plan are computed and held against the float64
 * reference. What came out is kept (program/verdicts.h), for the plan's kernels and the features that it asks for. */
#ifndef CLATTN_SRC_SELF_CHECK_H
#define CLATTN_SRC_SELF_CHECK_H

#include "operation/call.h"
#include "plan/strategy.h"
#include "program/program_uses.h"

/* Judges a plan that was just made of `uses`. CLATTN_OK: `bad` is empty where it may be used, else it says why it may
 * not; `explain` gets a line. A failure is one of memory, and the plan must not be used. */
clattn_status self_check(const struct clattn_plan *plan, const struct program_uses *uses, struct text *explain,
                         struct text *bad);

/* ---- between the files of the self-check ---- */

/* A small call of a plan's problem: every tensor it asks for, filled; owned. Its turn decides sizes and numbers:
 *
 *     0    several tiles, tails; most keys are seen
 *     1    few rows and keys; masks, scales and page tables have strides between their elements; other pages are not
 *          there, and rows begin before the keys */
struct check_call {
    int turn;
    struct problem problem; /* the plan's, but for sizes that no kernel is built for */
    struct call call;
    clattn_host_tensors tensors;
    void *memory[FORWARD_TENSOR_COUNT];
    int64_t sequence_pages;
};

#define CHECK_TURNS 2

/* Rows and keys of a call, at most: in the first turn more than one tile of most kernels, and no multiple of any. */
#define CHECK_ROWS 70
#define CHECK_KEYS 149
#define CHECK_FEW_ROWS 9
#define CHECK_FEW_KEYS 67
#define CHECK_PAGE_ROWS 4096 /* the largest pages, of which a check fills a few */

clattn_status check_call_create(const struct problem *problem, int turn, struct check_call *check);
void check_call_free(struct check_call *check);

/* Holds the outputs against the reference. Appends the first that is wrong to `bad`. */
clattn_status check_answers(const struct clattn_plan *plan, const struct check_call *check, struct text *bad);

#endif
