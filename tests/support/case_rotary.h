/* Cases of the operation rotary: rows that are turned, and tables. */
#ifndef CLATTN_TESTS_SUPPORT_CASE_ROTARY_H
#define CLATTN_TESTS_SUPPORT_CASE_ROTARY_H

#include "case_meta.h"
#include "clattn_cache.h"

/* 0, -1 and a failure, or 1: the strategy declines. */
int case_rotary_solve(const struct case_run *run, struct failure *failure);

/* The tensors that tell by how much rows are turned, as the case of either operation has them. */
struct case_turning {
    struct tensor cosine, sine, positions, starts, cu_query;
    uint32_t features;
    int64_t table_rows; /* 0: the tables have a row for each row */
};
int case_turning_read(const struct case_run *run, struct case_turning *turning, struct failure *failure);
void case_turning_free(struct case_turning *turning);

/* The turning as tensors of a call; `rows` of a sequence. */
struct case_turning_places {
    clattn_host_tensor cosine, sine, positions, starts, cu_query;
};
struct case_turning_places case_turning_place(const struct case_turning *turning);

/* Adds the bits of the norm that the case has as params.`name`, and sets its epsilon. */
void case_norm_read(const cJSON *params, const char *name, uint32_t feature, double *epsilon, uint32_t *features);

clattn_rotary_pairs case_pairs(const cJSON *params);
int64_t case_longest(const struct tensor *seams);

#endif
