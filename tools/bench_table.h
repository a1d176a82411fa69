/* What `clattn bench` tells of each shape: a table for people, one for programs (--tsv), or a JSON document. */
#ifndef CLATTN_TOOLS_BENCH_TABLE_H
#define CLATTN_TOOLS_BENCH_TABLE_H

#include <cjson/cJSON.h>

#include "bench_kernels.h"
#include "bench_shapes.h"
#include "call_times.h"

struct measurement {
    struct times call, backward, read; /* call: of both passes with --backward; read: of keys and values, with --read */
    struct times sums;                 /* of weights, with --key-sums */
    double cpu_ms, first_ms, gflops, gbytes_s, read_gbytes_s, error_share, calls, workspace_bytes;
    char strategy[64];            /* of the backward pass with --backward */
    struct bench_kernels kernels; /* with --kernels */
};

struct bench_table {
    enum { BENCH_TEXT, BENCH_TSV, BENCH_JSON } form;
    int with_kernels;
    int shown[4];         /* by enum shown of bench_table.c: its columns */
    int terminal;         /* its columns; 0: none, all columns of the table are shown */
    int spared;           /* how many columns a narrow terminal goes without */
    const char *features; /* what holds for all shapes: " --window 256,0 --alibi" */
    cJSON *document;      /* of BENCH_JSON; its shapes are in "results" */
};

/* By --tsv, --json, --backward, --read, --key-sums and --kernels; prints what stands above the rows.
 * `context`: what is measured. */
int bench_table_begin(struct bench_table *table, const struct options *options, const clattn_context *context,
                      const char *features, clattn_type type, struct failure *failure);

void bench_table_row(const struct bench_table *table, const struct bench_shape *shape, const struct measurement *found);

/* Prints what is left to print. */
int bench_table_end(struct bench_table *table, struct failure *failure);

#endif
