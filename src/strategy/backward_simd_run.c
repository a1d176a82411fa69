/* The launches of cl/backward_simd/backward_simd.cl: parts of the call one after the other, and behind each the sums of
 * its rectangles. */
#include <string.h>

#include "base/checked_math.h"
#include "cl/backward/backward_plain_layout.h"
#include "strategy/backward_simd.h"

/* A part of the call: groups and packed rows; where its sums are. */
struct part {
    int64_t first_group, groups, first_row, rows, all_rows;
    int64_t at[BACKWARD_SUMS], total_at[BACKWARD_SUMS]; /* by SUM_* */
};

static void place_sums(const struct backward_run *r, const struct backward_simd *state,
                       const struct backward_problem *b, struct part *part)
{
    backward_simd_place(b, state, part->groups, part->rows, part->all_rows, r->call.given.params.key_len, part->at,
                        part->total_at);
    for (int which = 0; which < BACKWARD_SUMS; ++which) {
        part->at[which] += state->sums_at;
        part->total_at[which] += state->sums_at;
    }
}

/* Whether dbias is asked for and has elements; whether rectangles store it: no axis is summed. */
static int has_bias(const struct backward_run *r)
{
    return operand_is_asked(r->call.operands, GRADIENT_DBIAS) && !operand_is_empty(r->call.operands, GRADIENT_DBIAS);
}

static int stores_bias(const struct backward_run *r)
{
    int64_t whole[4], stored[4];
    operand_shape(r->call.operands, GRADIENT_DBIAS, whole);
    operand_stored_shape(r->call.operands, GRADIENT_DBIAS, stored);
    return has_bias(r) && memcmp(whole, stored, sizeof(whole)) == 0;
}

static clattn_status run_rectangles(const struct backward_run *r, const struct backward_simd *state,
                                    const struct part *part, int64_t rows)
{
    const clattn_rectangles work = { .dquery_at = part->at[SUM_DQUERY],
                                     .dkey_at = part->at[SUM_DKEY],
                                     .dvalue_at = part->at[SUM_DVALUE],
                                     .row_sums_at = part->at[SUM_ROWS],
                                     .first_group = (int)part->first_group,
                                     .groups = (int)part->groups,
                                     .first_row = (int)part->first_row,
                                     .rows = (int)rows };
    const int64_t parts = ceil_div(part->first_row % RECTANGLE_ROWS + rows, RECTANGLE_ROWS);
    struct backward_call_arguments own = r->call;
    int64_t keys = own.given.params.key_len;
    if (stores_bias(r)) {
        backward_call_take(&own, GRADIENT_DBIAS);
        keys = own.given.params.bias_key_len > keys ? own.given.params.bias_key_len : keys;
    }
    const size_t global[3] = { (size_t)ceil_div(keys, SPLIT_KEYS), (size_t)parts, (size_t)part->groups };
    const size_t local[3] = { 1, 1, 1 };
    struct launch_argument arguments[BACKWARD_ARGUMENTS_MOST + 1];
    const size_t count = backward_arguments(&own, arguments);
    arguments[count] = (struct launch_argument)ARGUMENT(work);
    return launch(r->chain, state->rectangles, 3, global, local, count + 1, arguments);
}

static clattn_status launch_sums(const struct backward_run *r, const struct backward_simd *state,
                                 const struct backward_call_arguments *call, const struct part *part,
                                 const clattn_sums *sums, int64_t items)
{
    const size_t local[2] = { 16, 1 }, global[2] = { (size_t)round_up(items, 16), (size_t)part->groups };
    struct launch_argument arguments[BACKWARD_ARGUMENTS_MOST + 1];
    const size_t count = backward_arguments(call, arguments);
    arguments[count] = (struct launch_argument)ARGUMENT(*sums);
    return launch(r->chain, state->add_sums, 2, global, local, count + 1, arguments);
}

/* The gradient of the part's rows, or of all keys by its rectangles. */
static clattn_status run_sums(const struct backward_run *r, const struct backward_simd *state, const struct part *part,
                              int which, enum gradient_id id, clattn_sums sums, int64_t count)
{
    if (!operand_is_asked(r->call.operands, (int)id) || operand_is_empty(r->call.operands, (int)id)) {
        return CLATTN_OK;
    }
    struct backward_call_arguments own = r->call;
    sums.sums_at = part->at[which];
    sums.total_at = part->total_at[which];
    backward_call_take(&own, id);
    return launch_sums(r, state, &own, part, &sums, count);
}

/* What the pairs of the part's rows add to dslopes and dscale, to where backward_run_head_sums takes it. */
static clattn_status run_row_sums(const struct backward_run *r, const struct backward_simd *state,
                                  const struct backward_problem *b, const struct part *part, clattn_sums sums)
{
    const clattn_params *p = &r->call.given.params;
    if (!(backward_simd_sums(b) & 1u << SUM_ROWS)) {
        return CLATTN_OK;
    }
    sums.which = SUM_ROWS + SUM_GOES_ON;
    sums.sums_at = part->at[SUM_ROWS];
    sums.total_at = ROW_TERMS * (int64_t)p->batch * p->query_heads * p->query_len;
    return launch_sums(r, state, &r->call, part, &sums, sums.rows);
}

/* dkey and dvalue are added where a rectangle, or all rows, end. */
static clattn_status run_part(const struct backward_run *r, const struct backward_simd *state,
                              const struct backward_problem *b, const struct part *part)
{
    const int64_t rows = part->all_rows - part->first_row < part->rows ? part->all_rows - part->first_row : part->rows;
    const int64_t end = part->first_row + rows, from = part->first_row / RECTANGLE_ROWS * RECTANGLE_ROWS;
    const int is_last = end >= part->all_rows, goes_on = is_last ? 0 : SUM_GOES_ON;
    const clattn_sums of_part = { .first_group = (int)part->first_group, .groups = (int)part->groups };
    clattn_sums of_rows = of_part, dkey = of_part;
    of_rows.first_row = (int)part->first_row;
    of_rows.rows = (int)rows;
    of_rows.which = SUM_DQUERY;
    dkey.first_row = (int)from;
    dkey.rows = (int)(end - from);
    dkey.continues = from > 0;
    clattn_sums dvalue = dkey;
    dkey.which = SUM_DKEY + goes_on;
    dvalue.which = SUM_DVALUE + goes_on;
    clattn_status status = run_rectangles(r, state, part, rows);
    if (status == CLATTN_OK) {
        status = run_sums(r, state, part, SUM_DQUERY, GRADIENT_DQUERY, of_rows, rows);
    }
    status = status == CLATTN_OK ? run_row_sums(r, state, b, part, of_rows) : status;
    if (status == CLATTN_OK && (is_last || end % RECTANGLE_ROWS == 0)) {
        status = run_sums(r, state, part, SUM_DKEY, GRADIENT_DKEY, dkey, r->call.given.params.key_len);
        status = status == CLATTN_OK
                     ? run_sums(r, state, part, SUM_DVALUE, GRADIENT_DVALUE, dvalue, r->call.given.params.key_len)
                     : status;
    }
    return status;
}

static clattn_status run_parts(const struct backward_run *r, const struct backward_simd *state,
                               const struct backward_problem *b)
{
    const int64_t groups = (int64_t)r->call.given.params.batch * r->call.given.params.kv_heads;
    struct part part = { .all_rows = r->call.given.params.query_len * state->group };
    clattn_status status = CLATTN_OK;
    for (; part.first_group < groups && status == CLATTN_OK; part.first_group += state->groups) {
        part.groups = groups - part.first_group < state->groups ? groups - part.first_group : state->groups;
        part.rows = state->rows < part.all_rows ? state->rows : part.all_rows;
        place_sums(r, state, b, &part);
        part.first_row = 0;
        do { /* once also without rows: keys have gradients then too */
            status = run_part(r, state, b, &part);
            part.first_row += part.rows;
        } while (part.first_row < part.all_rows && status == CLATTN_OK);
    }
    return status;
}

/* ---- dbias where axes are summed ----------------------------------------------------------------- */

/* How many blocks dbias has, and parts what each is the sum of, by dbias's shape and strides alone. */
struct bias_parts {
    int64_t blocks, rows; /* rows: of a block */
    int64_t parts, elements;
};

static struct bias_parts bias_parts_of(const struct backward_run *r, const struct backward_simd *state)
{
    const int64_t *stride = r->call.operands->tensor[GRADIENT_DBIAS].stride;
    int64_t whole[4], stored[4];
    operand_shape(r->call.operands, GRADIENT_DBIAS, whole);
    const int of_rows = stride[2] == 0 && whole[2] != 1, of_keys = stride[3] == 0 && whole[3] != 1;
    operand_stored_shape(r->call.operands, GRADIENT_DBIAS, stored);
    const int64_t of_plane = ceil_div(stored[2], state->block_rows) * ceil_div(stored[3], state->block_keys);
    const int64_t units = (stride[0] == 0 ? whole[0] : 1) * (stride[1] == 0 ? whole[1] : 1) *
                          (of_rows ? ceil_div(whole[2], UNIT_ROWS) : 1) *
                          (of_keys ? ceil_div(whole[3], SPLIT_KEYS) : 1);
    const int64_t most = of_rows || of_keys ? units : units / BIAS_UNITS_LEAST;
    const int64_t wanted = ceil_div(BIAS_GROUPS, of_plane);
    const struct bias_parts found = { .blocks = stored[0] * stored[1] * of_plane,
                                      .rows = of_rows ? 1 : state->block_rows,
                                      .parts = most < wanted ? (most > 1 ? most : 1) : wanted,
                                      .elements = (of_rows ? 1 : state->block_rows) *
                                                  (of_keys ? 1 : state->block_keys) };
    return found;
}

static clattn_status launch_bias(const struct backward_run *r, const struct backward_simd *state,
                                 const struct bias_parts *bias, const clattn_bias_sums *work, int64_t blocks)
{
    struct backward_call_arguments own = r->call;
    struct launch_argument arguments[BACKWARD_ARGUMENTS_MOST + 1];
    const size_t global[2] = { (size_t)blocks, (size_t)work->part_count }, local[2] = { 1, 1 };
    const size_t global_rows[2] = { (size_t)bias->rows, (size_t)blocks };
    const size_t local_rows[2] = { bias->rows % 16 == 0 ? 16 : 1, 1 };
    backward_call_take(&own, GRADIENT_DBIAS);
    const size_t count = backward_arguments(&own, arguments);
    arguments[count] = (struct launch_argument)ARGUMENT(*work);
    const clattn_status status = launch(r->chain, state->bias_sums, 2, global, local, count + 1, arguments);
    return status == CLATTN_OK && work->parts > 1
               ? launch(r->chain, state->add_bias_sums, 2, global_rows, local_rows, count + 1, arguments)
               : status;
}

/* As many blocks at once as the workspace has room for with all of their parts; else one, and as many of its parts,
 * which are added to the total of those before and its rest. */
static clattn_status run_bias_sums(const struct backward_run *r, const struct backward_simd *state)
{
    const struct bias_parts bias = bias_parts_of(r, state);
    const int64_t room = state->bias_elements / bias.elements, fits = room / bias.parts;
    const int64_t block_step = bias.parts == 1 || fits > bias.blocks ? bias.blocks : fits > 0 ? fits : 1;
    const int64_t part_step = bias.parts == 1 || fits > 0 ? bias.parts : room - 2;
    clattn_bias_sums work = { .sums_at = state->sums_at,
                              .total_at = state->sums_at + part_step * bias.elements,
                              .parts = (int)bias.parts };
    clattn_status status = CLATTN_OK;
    for (int64_t block = 0; block < bias.blocks && status == CLATTN_OK; block += block_step) {
        const int64_t blocks = bias.blocks - block < block_step ? bias.blocks - block : block_step;
        work.first_block = block;
        for (int64_t part = 0; part < bias.parts && status == CLATTN_OK; part += part_step) {
            const int64_t end = part + part_step < bias.parts ? part + part_step : bias.parts;
            work.first_part = (int)part;
            work.part_count = (int)(end - part);
            work.which = end < bias.parts ? SUM_GOES_ON : 0;
            status = launch_bias(r, state, &bias, &work, blocks);
        }
    }
    return status;
}

/* ---- terms of rows -------------------------------------------------------------------------------- */

static clattn_status run_row_terms(const struct backward_run *r, const struct backward_simd *state,
                                   const struct backward_problem *b)
{
    const clattn_params *p = &r->call.given.params;
    const clattn_rests work = { backward_rests_from(b) };
    const size_t global[2] = { (size_t)ceil_div(p->query_len * state->group, state->block_rows),
                               (size_t)p->batch * (size_t)p->kv_heads };
    const size_t local[2] = { 1, 1 };
    struct launch_argument arguments[BACKWARD_ARGUMENTS_MOST + 1];
    const size_t count = backward_arguments(&r->call, arguments);
    arguments[count] = (struct launch_argument)ARGUMENT(work);
    return launch(r->chain, state->row_rests, 2, global, local, count + 1, arguments);
}

/* ---- the call ------------------------------------------------------------------------------------ */

clattn_status backward_simd_enqueue(const struct clattn_plan *plan, const struct operands *operands,
                                    struct chain *chain)
{
    const struct backward_problem *b = backward_problem(plan->problem);
    const struct backward_simd *state = plan->state;
    struct backward_run r = { .state = &state->plain, .chain = chain };
    backward_call_arguments(plan, operands, &r.call);
    clattn_status status = run_row_terms(&r, state, b);
    if (status == CLATTN_OK && (backward_simd_sums(b) || stores_bias(&r))) {
        status = run_parts(&r, state, b);
    }
    if (status == CLATTN_OK && has_bias(&r) && !stores_bias(&r)) {
        status = run_bias_sums(&r, state);
    }
    return status == CLATTN_OK ? backward_run_head_sums(&r, SUMS_OF_ROWS) : status;
}
