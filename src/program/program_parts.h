/* What programs and kernels are made of: for program.c, which makes and changes them, rehearsal.c, which launches them
 * first, and program_costs.c, which tells of them. */
#ifndef CLATTN_SRC_PROGRAM_PARTS_H
#define CLATTN_SRC_PROGRAM_PARTS_H

#include "program/program.h"
#include "program/program_file.h"

enum build_state { BUILDING, BUILT };

/* What PoCL compiles a kernel anew for: the work-items of a work-group, and whether the range is a wide one. */
struct rehearsed_range {
    size_t local[3];
    int is_wide;
};

#define REHEARSED_MOST 4

struct kernel {
    struct kernel *next;
    struct program *program;
    char *name;
    pthread_mutex_t lock;
    struct taken_kernel *free_list;
    size_t free_count, made_count;                    /* free_list has room for made_count */
    struct rehearsed_range rehearsed[REHEARSED_MOST]; /* guarded by the context's rehearsal lock */
    int rehearsed_count;
};

struct program {
    struct program *next;
    char *file, *options;
    enum build_state state;
    cl_program cl;
    cl_device_id device;
    struct program_key key;   /* in the cache on disk */
    struct program_key tried; /* of verdicts on it, where programs are checked */
    int store_at_end;         /* there, when the context is destroyed */
    int is_compiled;          /* from source; 0: loaded */
    int has_barriers;         /* in its source */
    double compile_ms;        /* that either took */
    struct kernel *kernels;
};

#endif
