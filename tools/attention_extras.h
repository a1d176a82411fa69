/* The optional tensors of a call, and a check that both files need. */
#ifndef CLATTN_TOOLS_ATTENTION_EXTRAS_H
#define CLATTN_TOOLS_ATTENTION_EXTRAS_H

#include "attention.h"

/* Their options, among the groups of a command's. */
#define GROUP_OF_WHAT_IS_SEEN                                                                                          \
    {                                                                                                                  \
        "What may be seen",                                                                                            \
        {                                                                                                              \
            OPTION_CAUSAL, OPTION_WINDOW, OPTION_ALWAYS, OPTION_ALIGN, OPTION_KEY_LENGTHS, OPTION_MASK_FILE,           \
                OPTION_MASK_FIRST_KEY, OPTION_ROW_LOW, OPTION_ROW_HIGH, OPTION_KEY_LISTS, OPTION_LIST_ROWS             \
        }                                                                                                              \
    }
#define GROUP_OF_SCORES                                                                                                \
    {                                                                                                                  \
        "Scores",                                                                                                      \
        {                                                                                                              \
            OPTION_SCALE, OPTION_SOFTCAP, OPTION_BIAS_FILE, OPTION_ALIBI, OPTION_SINKS                                 \
        }                                                                                                              \
    }

/* Packed sequences, mask, bias, key lengths, offsets (those of the options, or none), slopes and
 * sinks: converts them, checks them against the problem, which has its shapes already, and places
 * them. */
int attention_prepare_extras(const struct options *options, struct inputs *inputs, struct tensor *offsets,
                             struct attention *attention, struct failure *failure);

/* Integers to int32, each checked against a range. */
int attention_convert_integers(struct tensor *tensor, const char *name, int64_t least, int64_t most,
                               struct failure *failure);

/* -1 with "WHAT VALUE: must be that of OTHER, WANTED" unless they are equal. */
int attention_must_equal(const char *what, int64_t value, const char *other, int64_t wanted, struct failure *failure);

#endif
