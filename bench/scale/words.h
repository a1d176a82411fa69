/* What ring_measure.c and ring_model.c are asked for: words NAME=VALUE, each a number or one of some names. */
#ifndef CLATTN_BENCH_SCALE_WORDS_H
#define CLATTN_BENCH_SCALE_WORDS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clattn_ring.h"

enum word {
    WORD_HEADS,
    WORD_KV_HEADS,
    WORD_ROWS,
    WORD_KEYS,
    WORD_COLUMNS,
    WORD_CAUSAL,
    WORD_LAYOUT,
    WORD_ALGORITHM,
    WORD_TYPE,
    WORD_CALLS, /* that are measured */
    WORD_FLOPS, /* of the model: what a rank's device does in a second, */
    WORD_SUMS,  /* how many numbers of partial results are added to a sum in a second, */
    WORD_TASK,  /* what a partial call takes beside, in seconds, */
    WORD_BYTE,  /* how many of them a byte that is sent and one that is received take of the device's cores, */
    WORD_OWN,   /* and a number of a rank's own results: cleared before, given after the partial calls */
    WORDS
};

static const struct {
    const char *name;
    double usual;
    const char *choices[5];
} words[WORDS] = {
    [WORD_HEADS] = { "heads", 8, { NULL } },
    [WORD_KV_HEADS] = { "kv_heads", 8, { NULL } },
    [WORD_ROWS] = { "rows", 4096, { NULL } },
    [WORD_KEYS] = { "keys", 4096, { NULL } },
    [WORD_COLUMNS] = { "columns", 64, { NULL } },
    [WORD_CAUSAL] = { "causal", 1, { NULL } },
    [WORD_LAYOUT] = { "layout", CLATTN_RING_ZIGZAG, { "contiguous", "zigzag", "striped", NULL } },
    [WORD_ALGORITHM] = { "algorithm", CLATTN_RING_KEYS, { "auto", "keys", "queries", "tree", NULL } },
    [WORD_TYPE] = { "type", 0, { "float32", "float16", NULL } },
    [WORD_CALLS] = { "calls", 5, { NULL } },
    [WORD_FLOPS] = { "flops", 1e11, { NULL } },
    [WORD_SUMS] = { "sums", 3e8, { NULL } },
    [WORD_TASK] = { "task", 1e-4, { NULL } },
    [WORD_BYTE] = { "byte", 0, { NULL } },
    [WORD_OWN] = { "own", 0, { NULL } },
};

/* The number that a value is: its place, where a word has choices; -1: none of them. */
static double word_value(int word, const char *value)
{
    if (!words[word].choices[0]) {
        char *end;
        const double number = strtod(value, &end);
        return *value && !*end ? number : -1;
    }
    for (int n = 0; words[word].choices[n]; ++n) {
        if (strcmp(value, words[word].choices[n]) == 0) {
            return n;
        }
    }
    return -1;
}

static void words_read(int count, char **given, double values[WORDS])
{
    for (int word = 0; word < WORDS; ++word) {
        values[word] = words[word].usual;
    }
    for (int n = 1; n < count; ++n) {
        int is_known = 0;
        for (int word = 0; word < WORDS; ++word) {
            const size_t length = strlen(words[word].name);
            if (strncmp(given[n], words[word].name, length) == 0 && given[n][length] == '=') {
                values[word] = word_value(word, given[n] + length + 1);
                is_known = values[word] >= 0;
            }
        }
        if (!is_known) {
            fprintf(stderr, "%s: must be NAME=VALUE, with a name of words.h, and one of its values\n", given[n]);
            exit(2);
        }
    }
}

static clattn_problem problem_of(const double values[WORDS])
{
    clattn_problem p = CLATTN_PROBLEM_INIT;
    p.query_heads = (int64_t)values[WORD_HEADS];
    p.kv_heads = (int64_t)values[WORD_KV_HEADS];
    p.query_len = (int64_t)values[WORD_ROWS];
    p.key_len = (int64_t)values[WORD_KEYS];
    p.head_dim = (int64_t)values[WORD_COLUMNS];
    p.type = values[WORD_TYPE] > 0 ? CLATTN_FLOAT16 : CLATTN_FLOAT32;
    p.features = CLATTN_WITH_LSE;
    p.causal = values[WORD_CAUSAL] > 0;
    p.alignment = p.causal ? CLATTN_ALIGN_TOP_LEFT : CLATTN_ALIGN_UNSET;
    return p;
}

static clattn_ring_options options_of(const double values[WORDS], int rank, int ranks)
{
    clattn_ring_options o = CLATTN_RING_OPTIONS_INIT;
    o.rank = rank;
    o.ranks = ranks;
    o.layout = (clattn_ring_layout)values[WORD_LAYOUT];
    o.algorithm = (clattn_ring_algorithm)values[WORD_ALGORITHM];
    return o;
}

#endif
