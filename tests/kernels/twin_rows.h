/* What the twins share: rows of a run, elements of tensors, and the check against a bound. */
#ifndef CLATTN_TESTS_KERNELS_TWIN_ROWS_H
#define CLATTN_TESTS_KERNELS_TWIN_ROWS_H

#include <math.h>

#include "base/stored_types.h"
#include "reference/visibility.h"
#include "twins.h"

#define C 4.0
#define U(run) ((run)->is_double ? 0x1p-53 : 0x1p-24)
#define TINY(run) ((run)->is_double ? 0x1p-1022 : 0x1p-126) /* what may be flushed to zero */

/* One row of a run. */
struct row {
    const struct kernel_run *run;
    const struct problem *problem;
    const struct call *host;
    struct sequence sequence;
    int64_t plane, b, h, kv_head, i;
    int exists;
};

typedef void visit_row(const struct row *row, void *context);
void for_each_row(const struct kernel_run *run, visit_row *visit, void *context);

/* Contexts of visits. */
struct preparing {
    struct kernel_run *run;
    struct random *random;
};
struct judging {
    const struct kernel_run *run;
    const struct kernel_inputs *inputs;
    struct verdict_of_kernel *verdict;
};
void judge(visit_row *visit, const struct kernel_run *run, const struct kernel_inputs *inputs,
           struct verdict_of_kernel *verdict);

int is_allowed(const struct row *row, int64_t j);
int64_t at(const struct row *row, int64_t j); /* index of the row's score for key j */

/* Element of query, key, value, out or lse: its index, its value. `key` counts for keys and values. */
int64_t element_at(const struct row *row, enum tensor_id id, int64_t key, int64_t column);
double element(const struct row *row, enum tensor_id id, int64_t key, int64_t column);
double weight_out(const struct row *row, int64_t j);

void fail(struct judging *judging, const struct row *row, const char *what, int64_t j, double is, double should);
/* Where the twin is not finite, the kernel must not be either. */
void check(struct judging *judging, const struct row *row, const char *what, int64_t j, double is, double should,
           double bound);
/* What storing in the problem's type may add to a bound. */
double storage_bound(const struct row *row, double value);

#endif
