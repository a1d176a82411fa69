/* The kinds of problems that tests/fuzz/problems.c tries: what a problem of each begins with, its fields, and the
 * functions of its operation under one form. */
#ifndef CLATTN_TESTS_FUZZ_PROBLEM_KINDS_H
#define CLATTN_TESTS_FUZZ_PROBLEM_KINDS_H

#include "clattn_additive.h"
#include "clattn_cache.h"
#include "clattn_layers.h"
#include "operation/append.h"
#include "operation/backward.h"
#include "operation/rotary.h"

/* One try. The tensors of gradients are behind those of the forward, as their operation's rows count on. */
struct trial {
    struct {
        clattn_problem forward;
        clattn_backward_problem backward;
        clattn_append_problem append;
        clattn_rotary_problem rotary;
        clattn_mha_problem mha;
        clattn_additive_problem additive;
        int with_gradients; /* of layers: these instead of the layer itself */
        uint32_t gradients;
    } problem;
    clattn_call values;
    clattn_cache_call cache_values;
    union {
        struct {
            clattn_tensors forward;
            clattn_gradients gradients;
        };
        clattn_append_tensors append;
        clattn_rotary_tensors rotary;
    } device;
    union {
        struct {
            clattn_host_tensors forward;
            clattn_host_gradients gradients;
        };
        clattn_append_host_tensors append;
        clattn_rotary_host_tensors rotary;
    } host;
    union {
        struct call forward;
        struct append_call append;
        struct rotary_call rotary;
    } checked;
};

struct field {
    size_t at, bytes; /* in struct trial */
    int is_real, is_name;
};

struct kind {
    const struct field *fields;
    size_t field_count;
    void (*start)(struct trial *trial); /* a small problem that is right */
    clattn_status (*plan)(clattn_context *context, struct trial *trial, clattn_plan **plan);

    /* NULL: only planned. Checks the call; *operands is set where the problem is right, though the call may not be. */
    clattn_status (*look)(struct trial *trial, const struct operands **operands);
    clattn_status (*enqueue)(struct trial *trial, const clattn_plan *plan, cl_command_queue queue);
    clattn_status (*reference)(struct trial *trial);
};

extern const struct kind kinds[];
extern const size_t kind_count;

const char *fuzz_strategy(unsigned number); /* NULL among them */

#endif
