/* The command line of device tests. */
#include "device_options.h"

#include "operation/forward.h"
#include "plan/ladder.h"
#include "plan/strategy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_strategy(struct device_options *o, const char *name)
{
    if (o->n_strategies < OPTIONS_STRATEGIES_MAX) {
        o->strategies[o->n_strategies++] = strcmp(name, "auto") == 0 ? NULL : name;
    }
}

int strategy_is_for_gpus(const char *name)
{
    return strstr(name, "_simt") != NULL || strstr(name, "mma") != NULL;
}

static void drop_strategy(struct device_options *o, const char *name)
{
    int kept = 0;
    for (int i = 0; i < o->n_strategies; ++i) {
        const char *label = strategy_label(o->strategies[i]);
        if (strcmp(name, "gpus") == 0 ? !strategy_is_for_gpus(label) : strcmp(label, name) != 0) {
            o->strategies[kept++] = o->strategies[i];
        }
    }
    o->n_strategies = kept;
}

const char *strategy_of_operation(const struct operation *operation, size_t index)
{
    for (size_t i = 0; i < strategy_count; ++i) {
        if (strategy_table[i]->operation == operation && index-- == 0) {
            return strategy_table[i]->name;
        }
    }
    return NULL;
}

const char *strategy_of_table(size_t index)
{
    return strategy_of_operation(&operation_forward, index);
}

static int parse_strategies(const char *list, struct device_options *o)
{
    snprintf(o->memory, sizeof(o->memory), "%s", list);
    o->n_strategies = 0;
    for (char *name = strtok(o->memory, ","); name; name = strtok(NULL, ",")) {
        if (strcmp(name, "all") == 0) {
            const char *known;
            for (size_t i = 0; (known = strategy_of_table(i)); ++i) {
                add_strategy(o, known);
            }
            add_strategy(o, "auto");
        } else if (name[0] == '-') {
            drop_strategy(o, name + 1);
        } else {
            add_strategy(o, name);
        }
    }
    return o->n_strategies > 0 ? 0 : -1;
}

static int parse_types(const char *list, struct device_options *o)
{
    o->n_types = 0;
    for (const char *name = list; *name && o->n_types < OPTIONS_TYPES_MAX;) {
        size_t length = strcspn(name, ",");
        int before = o->n_types;
        for (int type = CLATTN_FLOAT32; type <= CLATTN_FLOAT64; ++type) {
            const char *known = clattn_type_name((clattn_type)type);
            if (strlen(known) == length && strncmp(known, name, length) == 0) {
                o->types[o->n_types++] = (clattn_type)type;
            }
        }
        if (o->n_types == before) {
            return -1;
        }
        name += length + (name[length] == ',');
    }
    return o->n_types > 0 ? 0 : -1;
}

static const char **find_more(const struct device_option *more, const char *argument)
{
    for (; more && more->name; ++more) {
        if (strncmp(argument, "--", 2) == 0 && strcmp(argument + 2, more->name) == 0) {
            return more->text;
        }
    }
    return NULL;
}

int device_options_parse_more(int argc, char **argv, const char *strategies, const char *types,
                              const struct device_option *more, struct device_options *o)
{
    const char *wanted = getenv("CLATTN_TEST_STRATEGIES");
    memset(o, 0, sizeof(*o));
    if (parse_strategies(wanted && *wanted ? wanted : strategies, o) != 0 ||
        parse_types(types ? types : "float32,float16,bfloat16,float64", o) != 0) {
        return -1;
    }
    for (int i = 1; i < argc; i += 2) {
        const char **text = find_more(more, argv[i]);
        if (i + 1 == argc) {
            return -1;
        } else if (text) {
            *text = argv[i + 1];
        } else if (strcmp(argv[i], "--device") == 0) {
            o->device = argv[i + 1];
        } else if (strcmp(argv[i], "--strategy") == 0) {
            if (parse_strategies(argv[i + 1], o) != 0) {
                return -1;
            }
        } else if (strcmp(argv[i], "--type") != 0 || parse_types(argv[i + 1], o) != 0) {
            return -1;
        } else {
            o->types_named = 1;
        }
    }
    return 0;
}

int device_options_parse(int argc, char **argv, const char *strategies, struct device_options *options)
{
    return device_options_parse_more(argc, argv, strategies, NULL, NULL, options);
}

int device_options_usage(const char *program)
{
    fprintf(stderr, "usage: %s [--strategy S,S...] [--type T,T...] [--device D]; more in its source\n", program);
    return 2;
}

static void drop_float64(struct device_options *o)
{
    int kept = 0;
    for (int i = 0; i < o->n_types; ++i) {
        if (o->types[i] != CLATTN_FLOAT64) {
            o->types[kept++] = o->types[i];
        }
    }
    if (kept < o->n_types) {
        printf("the device has no fp64: float64 is left out\n");
    }
    o->n_types = kept;
}

clattn_context *device_options_open(struct device_options *o)
{
    clattn_context *context = NULL;
    cl_device_fp_config fp64 = 0;
    if (clattn_context_open(o->device, NULL, &context) != CLATTN_OK) {
        fprintf(stderr, "%s\n", clattn_last_error());
        return NULL;
    }
    if (getenv("CLATTN_TEST_SLOW_UNITS")) {
        ladder_ignore_speed(context);
    }
    clGetDeviceInfo(clattn_context_device(context), CL_DEVICE_DOUBLE_FP_CONFIG, sizeof(fp64), &fp64, NULL);
    if (!fp64) {
        drop_float64(o);
    }
    return context;
}

void strategy_set(clattn_problem *problem, const char *name)
{
    const int with_clblast = name && strcmp(name, "staged/clblast") == 0;
    problem->strategy = with_clblast ? "staged" : name;
    problem->matmul = with_clblast ? CLATTN_MATMUL_CLBLAST : CLATTN_MATMUL_AUTO;
}

int strategy_takes(clattn_context *context, const char *name, clattn_type type)
{
    clattn_problem tiny = CLATTN_PROBLEM_INIT;
    clattn_plan *plan;
    tiny.type = type;
    tiny.query_len = 1;
    tiny.key_len = 16;
    tiny.head_dim = 8;
    strategy_set(&tiny, name);
    const clattn_status status = clattn_plan_create(context, &tiny, &plan);
    clattn_plan_destroy(plan);
    return status != CLATTN_UNSUPPORTED;
}

const char *strategy_label(const char *strategy)
{
    return strategy ? strategy : "auto";
}
