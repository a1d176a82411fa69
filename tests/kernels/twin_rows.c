/* Rows of a run, and how what a kernel made is held against its twin. */
#include "twin_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void for_each_row(const struct kernel_run *run, visit_row *visit, void *context)
{
    const staged_chunk *chunk = &run->chunk;
    struct row row = { .run = run, .problem = &run->test->checked, .host = &run->test->call };
    for (row.plane = chunk->first_plane; row.plane < chunk->first_plane + chunk->planes; ++row.plane) {
        row.b = row.plane / run->given.params.query_heads;
        row.h = row.plane % run->given.params.query_heads;
        row.kv_head = row.h / (run->given.params.query_heads / run->given.params.kv_heads);
        row.sequence = sequence_of(row.problem, row.host, row.b);
        for (row.i = chunk->first_row; row.i < chunk->first_row + chunk->rows; ++row.i) {
            row.exists = row.i < row.sequence.query_len;
            visit(&row, context);
        }
    }
}

int is_allowed(const struct row *row, int64_t j)
{
    return row->exists && j < row->sequence.stored_keys &&
           key_is_allowed(row->problem, row->host, &row->sequence, row->b, row->h, row->i, j);
}

int64_t at(const struct row *row, int64_t j)
{
    return score_index(row->run, row->plane, row->i, j);
}

static int is_packed(const struct row *row)
{
    return (row->problem->flags & CLATTN_FLAG_VARLEN) != 0;
}

int64_t element_at(const struct row *row, enum tensor_id id, int64_t key, int64_t column)
{
    const int is_key = id == TENSOR_KEY || id == TENSOR_VALUE;
    return place_index(&row->host->operands.tensor[id], is_packed(row) ? 0 : row->b, is_key ? row->kv_head : row->h,
                       is_key ? row->sequence.key_row + key : row->sequence.query_row + row->i, column);
}

double element(const struct row *row, enum tensor_id id, int64_t key, int64_t column)
{
    return type_load(row->problem->p.type, row->host->operands.tensor[id].data, element_at(row, id, key, column));
}

double weight_out(const struct row *row, int64_t j)
{
    const struct tensor_place *place = &row->host->operands.tensor[TENSOR_WEIGHTS];
    return type_load(row->run->is_double ? CLATTN_FLOAT64 : CLATTN_FLOAT32, place->data,
                     place_index(place, row->b, row->h, row->i, j));
}

/* ---- judging ---------------------------------------------------------------------------------- */

void fail(struct judging *judging, const struct row *row, const char *what, int64_t j, double is, double should)
{
    if (judging->verdict->wrong++ == 0) {
        snprintf(judging->verdict->first, sizeof(judging->verdict->first),
                 "%s (%" PRId64 ", %" PRId64 ", %" PRId64 "), %" PRId64 " is %.9g, should be %.9g", what, row->b,
                 row->h, row->i, j, is, should);
    }
}

void check(struct judging *judging, const struct row *row, const char *what, int64_t j, double is, double should,
           double bound)
{
    if (!isfinite(should) || !isfinite(bound)) {
        if (isfinite(is) || (isinf(should) && isinf(is) && is != should)) {
            fail(judging, row, what, j, is, should);
        }
        return;
    }
    const double part = fabs(is - should) / (bound + TINY(row->run));
    if (!(part <= 1)) {
        fail(judging, row, what, j, is, should);
    } else if (part > judging->verdict->needed) {
        judging->verdict->needed = part;
    }
}

double storage_bound(const struct row *row, double value)
{
    switch (row->problem->p.type) {
    case CLATTN_FLOAT16:
        return fmax(fabs(value) * 0x1p-11, 0x1p-25) * 1.001;
    case CLATTN_BFLOAT16:
        return fabs(value) * 0x1p-8 * 1.001;
    default:
        return 0;
    }
}

clattn_status kernel_inputs_copy(struct kernel_inputs *inputs, const struct kernel_run *run)
{
    const size_t score_bytes = (size_t)run->score_count * (run->is_double ? 8 : 4);
    inputs->before = *run;
    inputs->out = run->test->arrays[TENSOR_OUT];
    const size_t out_bytes = (size_t)inputs->out.count * inputs->out.element_bytes;
    inputs->before.scores = malloc(score_bytes);
    inputs->out.data = malloc(out_bytes ? out_bytes : 1);
    if (!inputs->before.scores || !inputs->out.data) {
        return CLATTN_OUT_OF_HOST_MEMORY;
    }
    memcpy(inputs->before.scores, run->scores, score_bytes);
    memcpy(inputs->out.data, run->test->arrays[TENSOR_OUT].data, out_bytes);
    return CLATTN_OK;
}

void kernel_inputs_free(struct kernel_inputs *inputs)
{
    free(inputs->before.scores);
    free(inputs->out.data);
}

void judge(visit_row *visit, const struct kernel_run *run, const struct kernel_inputs *inputs,
           struct verdict_of_kernel *verdict)
{
    struct judging judging = { run, inputs, verdict };
    for_each_row(run, visit, &judging);
}
