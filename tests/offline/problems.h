/* The problems whose kernels tests/offline/run gives to the compilers of GPU vendors. Read by programs.c. */
#ifndef CLATTN_TESTS_OFFLINE_PROBLEMS_H
#define CLATTN_TESTS_OFFLINE_PROBLEMS_H

#include "clattn.h"

enum {
    ROW_QUICK = 1,   /* in ./check too, not only in make check-offline */
    ROW_FOR_CPU = 2, /* a kernel that no GPU takes by itself: it must build, but may spill */
    ROW_SMALL = 4    /* planned for a device of small work-groups, so with the table's next tile */
};

#define TYPE_BIT(type) (1u << (type))

struct problem_row {
    const char *name;
    unsigned types, flags;
    clattn_problem problem; /* its type is set to each of `types` */
    const char *targets;    /* names of null_devices.c, blanks between, that must plan it; NULL: all */
};

extern const struct problem_row problem_rows[];
extern const size_t problem_row_count;

#endif
