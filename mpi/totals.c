#include "totals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "play.h"

#define CHUNK_BYTES ((size_t)1 << 30) /* carriers count in int */
#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* ---- making ------------------------------------------------------------------------------------- */

static size_t elements(const int64_t extent[4])
{
    return (size_t)(extent[0] * extent[1] * extent[2] * extent[3]);
}

/* Whether ranks add up: the bias of a rank's own rows stays with it. */
static int is_joined(const struct total *total)
{
    return !total->is_of_keys || total->given->stride[2] == 0;
}

static int is_kept(const struct total *total, int axis)
{
    return total->given->stride[axis] != 0;
}

/* Room for the sum, and, where ranks join, for one that comes and for all of them; and for a part. */
static int reserve(struct total *total, int64_t heads, int64_t rows, int64_t keys)
{
    const int64_t part[4] = { total->extent[0], heads, total->is_of_keys ? rows : 1, total->is_of_keys ? keys : 1 };
    total->sum = calloc((is_joined(total) ? 3 : 1) * elements(total->extent) + 1, sizeof(*total->sum));
    total->part = malloc((elements(part) + 1) * sizeof(double));
    return total->sum && total->part;
}

clattn_status totals_begin(struct play *play, int64_t rows, int64_t keys)
{
    const clattn_problem *p = &play->given.whole;
    const clattn_host_gradients *g = &play->given.gradients;
    const clattn_type wanted = play->given.backward.gradient_type;
    const clattn_type real = p->type == CLATTN_FLOAT64 ? CLATTN_FLOAT64 : CLATTN_FLOAT32;
    const int64_t own = clattn_ring_rows(play->ring, play->carrier->rank);
    const struct {
        const char *name;
        struct total total;
    } all[] = {
        { "dbias",
          { CLATTN_GRADIENT_BIAS,
            wanted ? wanted : p->bias_type,
            &g->dbias,
            1,
            { p->batch, p->query_heads, own, p->key_len },
            NULL,
            NULL } },
        { "dslopes", { CLATTN_GRADIENT_SLOPES, real, &g->dslopes, 0, { p->batch, p->query_heads, 1, 1 }, NULL, NULL } },
        { "dsinks", { CLATTN_GRADIENT_SINKS, real, &g->dsinks, 0, { 1, p->query_heads, 1, 1 }, NULL, NULL } },
        { "dscale", { CLATTN_GRADIENT_SCALE, real, &g->dscale, 0, { 1, 1, 1, 1 }, NULL, NULL } },
    };
    char text[FAILURE_BYTES];
    for (int n = 0; n < COUNT(all); ++n) {
        if (!(play->given.backward.gradients & all[n].total.gradient)) {
            continue;
        }
        struct total *total = &play->total[play->totals++];
        *total = all[n].total;
        if (total->is_of_keys && p->bias_type == CLATTN_TYPE_NONE) { /* parts would have no room for whole heads */
            return play_fails(play->failure, CLATTN_INVALID_ARGUMENT,
                              "gradients: CLATTN_GRADIENT_BIAS needs problem.bias_type");
        }
        if (!total->given->data) {
            snprintf(text, sizeof(text), "%s: must be given", all[n].name);
            return play_fails(play->failure, CLATTN_INVALID_ARGUMENT, text);
        }
        for (int axis = 0; axis < 4; ++axis) {
            total->extent[axis] = is_kept(total, axis) ? total->extent[axis] : 1;
        }
        if (!reserve(total, p->query_heads, rows, keys)) {
            return play_fails(play->failure, CLATTN_OUT_OF_HOST_MEMORY, "out of memory for gradients");
        }
    }
    return CLATTN_OK;
}

void totals_end(struct play *play)
{
    for (int n = 0; n < play->totals; ++n) {
        free(play->total[n].sum);
        free(play->total[n].part);
    }
}

/* ---- partial calls ------------------------------------------------------------------------------ */

/* Extents of a part; one that is summed over has 1. */
static void part_extents(const struct total *total, const struct total_place *place, int64_t extent[4])
{
    extent[0] = total->extent[0];
    extent[1] = is_kept(total, 1) && total->extent[1] > 1 ? place->heads : 1;
    extent[2] = total->is_of_keys && is_kept(total, 2) ? place->rows : 1;
    extent[3] = total->is_of_keys && is_kept(total, 3) ? place->keys : 1;
}

void totals_place(struct play *play, const struct total_place *place, clattn_host_gradients *g)
{
    for (int n = 0; n < play->totals; ++n) {
        struct total *total = &play->total[n];
        int64_t extent[4];
        part_extents(total, place, extent);
        memset(total->part, 0, elements(extent) * sizeof(double)); /* enough for float32 as well */
        clattn_host_tensor part = clattn_host_tensor_bhsd(total->part, extent[1], extent[2], extent[3]);
        for (int axis = 0; axis < 4; ++axis) {
            part.stride[axis] = is_kept(total, axis) ? part.stride[axis] : 0;
        }
        *(total->gradient == CLATTN_GRADIENT_BIAS     ? &g->dbias
          : total->gradient == CLATTN_GRADIENT_SLOPES ? &g->dslopes
          : total->gradient == CLATTN_GRADIENT_SINKS  ? &g->dsinks
                                                      : &g->dscale) = part;
    }
}

static void add(struct total *total, const struct total_place *place)
{
    const int is_wide = !total->is_of_keys && total->type == CLATTN_FLOAT64;
    const int64_t *to = total->extent;
    int64_t extent[4];
    size_t from = 0;
    part_extents(total, place, extent);
    const int64_t first_head = extent[1] < to[1] ? place->first_head : 0;
    const int64_t first_row = total->is_of_keys && is_kept(total, 2) ? place->first_row : 0;
    const int64_t first_key = total->is_of_keys && is_kept(total, 3) ? place->first_key : 0;
    for (int64_t plane = 0; plane < extent[0] * extent[1]; ++plane) {
        const int64_t b = plane / extent[1], h = plane % extent[1] + first_head;
        for (int64_t i = 0; i < extent[2]; ++i) {
            double *row = total->sum + ((b * to[1] + h) * to[2] + first_row + i) * to[3] + first_key;
            for (int64_t j = 0; j < extent[3]; ++j, ++from) {
                row[j * place->key_step] += is_wide ? ((const double *)total->part)[from]
                                                    : (double)((const float *)total->part)[from];
            }
        }
    }
}

void totals_add(struct play *play, const struct total_place *place, uint32_t gradients)
{
    for (int n = 0; n < play->totals; ++n) {
        if (gradients & play->total[n].gradient) {
            add(&play->total[n], place);
        }
    }
}

/* ---- ending ------------------------------------------------------------------------------------- */

static void tell(const struct carrier *carrier, int64_t root, double *data, size_t count)
{
    const size_t bytes = count * sizeof(*data);
    for (size_t at = 0; at < bytes; at += CHUNK_BYTES) {
        carrier->tell(carrier->self, root, (char *)data + at,
                      (int)(bytes - at < CHUNK_BYTES ? bytes - at : CHUNK_BYTES));
    }
}

void totals_join(struct play *play)
{
    const struct carrier *carrier = play->carrier;
    for (int n = 0; n < play->totals; ++n) {
        struct total *total = &play->total[n];
        const size_t count = elements(total->extent);
        double *comes = total->sum + count, *all = comes + count;
        for (int64_t root = 0; root < carrier->ranks && is_joined(total); ++root) {
            if (root == carrier->rank) {
                memcpy(comes, total->sum, count * sizeof(*comes));
            }
            tell(carrier, root, comes, count);
            for (size_t i = 0; i < count; ++i) {
                all[i] += comes[i];
            }
        }
        if (is_joined(total)) {
            memcpy(total->sum, all, count * sizeof(*all));
        }
    }
}

/* A bias' columns are those that the call says. */
static void give(const struct total *total, int64_t columns)
{
    const int64_t *e = total->extent;
    const int64_t most = total->is_of_keys && is_kept(total, 3) && columns < e[3] ? columns : e[3];
    for (int64_t n = 0; n < e[0] * e[1] * e[2] * most; ++n) {
        const int64_t at[4] = { n / most / e[2] / e[1], n / most / e[2] % e[1], n / most % e[2], n % most };
        const double value = total->sum[((at[0] * e[1] + at[1]) * e[2] + at[2]) * e[3] + at[3]];
        const float single = (float)value;
        const clattn_host_tensor *to = total->given;
        int64_t element = to->offset;
        for (int axis = 0; axis < 4; ++axis) {
            element += at[axis] * to->stride[axis];
        }
        if (total->type == CLATTN_FLOAT64) {
            ((double *)to->data)[element] = value;
        } else {
            clattn_quantise(total->type, 1, &single, NULL, 0,
                            (char *)to->data + element * (int64_t)clattn_type_size(total->type));
        }
    }
}

void totals_give(const struct play *play)
{
    const int64_t columns = play->given.call.bias_key_len;
    for (int n = 0; n < play->totals; ++n) {
        give(&play->total[n], columns < 0 ? play->given.whole.key_len : columns);
    }
}
