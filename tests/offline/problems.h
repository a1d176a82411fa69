/* The problems whose kernels are compiled for devices that are not at hand: of GPUs for tests/offline/run, of CPUs for
 * tests/offline/run-cpus. Read by programs.c. */
#ifndef CLATTN_TESTS_OFFLINE_PROBLEMS_H
#define CLATTN_TESTS_OFFLINE_PROBLEMS_H

#include "clattn.h"

enum {
    ROW_QUICK = 1,     /* in ./check too, not only in make check-offline */
    ROW_MAY_SPILL = 2, /* a kernel for CPUs, which no GPU takes by itself, one with totals in private memory,
                        * or one without a bar yet */
    ROW_SMALL = 4      /* planned as for a device of small work-groups, with the table's next tile */
};

#define TYPE_BIT(type) (1u << (type))

struct problem_row {
    const char *name;
    unsigned types, flags;
    clattn_problem problem; /* its type is set to each of `types` */
    const char *targets;    /* names of null_devices.c, blanks between, that must plan it; NULL: all */
};

struct problem_table {
    const struct problem_row *rows;
    size_t count;
};

extern const struct problem_table gpu_problems, cpu_problems;

#endif
