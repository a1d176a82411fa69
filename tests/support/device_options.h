/* What all device tests can be told: --strategy S,S... --type T,T... --device D, and CLATTN_TEST_STRATEGIES in the
 * environment. As a strategy, "all" is those of the library's table and auto, "-S" leaves one out again, "-gpus" those
 * for GPUs. With CLATTN_TEST_SLOW_UNITS in the environment, instructions that are slower than multiply-adds on this
 * device are taken too (AVX512-BF16 is, on some CPUs). */
#ifndef CLATTN_TESTS_SUPPORT_DEVICE_OPTIONS_H
#define CLATTN_TESTS_SUPPORT_DEVICE_OPTIONS_H

#include "clattn.h"

#define OPTIONS_STRATEGIES_MAX 16
#define OPTIONS_TYPES_MAX 4

struct device_options {
    const char *device;                             /* NULL: CLATTN_DEVICE, then the best */
    const char *strategies[OPTIONS_STRATEGIES_MAX]; /* NULL among them: the automatic choice */
    int n_strategies;
    clattn_type types[OPTIONS_TYPES_MAX];
    int n_types;
    int types_named;  /* on the command line */
    char memory[512]; /* behind the strategies */
};

/* Other options of a program: what follows --NAME goes to *text. */
struct device_option {
    const char *name;
    const char **text;
};

/* -1: misuse. `strategies` and `types` (NULL: every one) are the lists for when none is given; `more` ends with a
 * NULL name. */
int device_options_parse_more(int argc, char **argv, const char *strategies, const char *types,
                              const struct device_option *more, struct device_options *options);
int device_options_parse(int argc, char **argv, const char *strategies, struct device_options *options);

/* Prints the usage; returns the exit status of misuse. */
int device_options_usage(const char *program);

/* A context on the device, or NULL and a message; float64 goes from the types where there is no fp64. */
clattn_context *device_options_open(struct device_options *options);

/* "staged/clblast" is strategy staged with CLBlast's matrix multiply; NULL the automatic choice. */
void strategy_set(clattn_problem *problem, const char *name);

/* The names of the table's strategies for attention, from index 0 on; NULL ends. */
const char *strategy_of_table(size_t index);

/* The strategies of another operation. */
struct operation;
const char *strategy_of_operation(const struct operation *operation, size_t index);

/* Whether it is made for GPUs. CPUs compute it too, but its programs take a CPU's compiler long. */
int strategy_is_for_gpus(const char *name);

/* Whether it takes calls of this type at all on this device: a tiny one, with no feature. */
int strategy_takes(clattn_context *context, const char *name, clattn_type type);

/* "auto" for NULL. */
const char *strategy_label(const char *strategy);

#endif
