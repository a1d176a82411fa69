/* Random calls: every combination of shapes, layouts, masks, types and kinds of values that a problem
 * may have. */
#ifndef CLATTN_TESTS_SUPPORT_RANDOM_CALL_H
#define CLATTN_TESTS_SUPPORT_RANDOM_CALL_H

#include "test_call.h"

struct random_call_options {
    clattn_type type;         /* CLATTN_TYPE_NONE: any but float64 */
    int64_t work_limit;       /* multiply-adds, about; 0: a default that suits thousands of calls */
    uint64_t calls_a_program; /* so many neighbours differ only in what kernels are told at run time: lengths,
                                 batch, places, values; 0 or 1: every call is another problem */
    int dense;                /* no keys in pages */
    int on_device;            /* by plan and enqueue: packed sequences may be longer than the problem's maxima */
    int codes;                /* keys and values are of 8-bit or block types, or in rings; implies mixed */
    int gradients;            /* what has gradients: lse, no weights output, no pages */
    const char *with;         /* features that each problem shall have (random_features.h) */
    const char *code;         /* a text that it shall have (user_codes.h); "any": one or another; NULL: none */
    int mixed;                /* keys, values and outputs have types of their own; all else is as it would be without */
};

/* What kind of values a call has, for reports and for what can be concluded from it. */
enum value_family {
    VALUES_NORMAL,
    VALUES_SHARP,   /* logits of tens */
    VALUES_ONE_HOT, /* one key has all the weight */
    VALUES_EXTREME, /* logits of +-88, +-104, +-1e4: exp over- and underflows without the maximum */
    VALUES_INTEGER,
    VALUES_NOT_FINITE, /* some NaN and infinity where they are seen */
    VALUES_EQUAL,      /* terms that are equal, or small beside one, so that rounding errors all go one way */
    VALUES_ENDS,       /* biases, sinks, slopes, the scale or logits at the ends of their ranges */
    VALUE_FAMILIES
};
const char *value_family_name(enum value_family family);

/* Builds number `index` of `seed`: placed, filled, validated. Keys and values that no row may see are NaN
 * or infinite. Returns CLATTN_OK, else a bug in the generator or in validation. */
clattn_status random_call_create(struct test_call *test, uint64_t seed, uint64_t index,
                                 const struct random_call_options *options, enum value_family *family);

#endif
