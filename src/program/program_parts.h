/* What programs and kernels are made of: for program.c, which makes and changes them, and program_costs.c, which tells
 * of them. */
#ifndef CLATTN_SRC_PROGRAM_PARTS_H
#define CLATTN_SRC_PROGRAM_PARTS_H

#include "program/program.h"
#include "program/program_file.h"

enum build_state { BUILDING, BUILT };

struct kernel {
    struct kernel *next;
    struct program *program;
    char *name;
    pthread_mutex_t lock;
    struct taken_kernel *free_list;
    size_t free_count, made_count; /* free_list has room for made_count */
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
    double compile_ms;        /* that either took */
    struct kernel *kernels;
};

#endif
