/* A call of attention that was written from product to product. */
#include "operands.h"
#include "pattern.h"

/* True: seen. */
static OrtStatus *invert(const struct run *run, struct tensor *hidden)
{
    int64_t count = 1;
    for (int axis = 0; axis < hidden->rank; ++axis) {
        count *= hidden->extent[axis];
    }
    uint8_t *seen = lane_room(run->lane, SCRATCH_MASK, (size_t)count);
    const uint8_t *from = hidden->data;
    if (!seen) {
        return refuse_memory();
    }
    for (int64_t n = 0; n < count; ++n) {
        seen[n] = !from[n];
    }
    hidden->data = seen;
    return NULL;
}

/* As a product repeats a batch of one. */
static void repeat_batch(int64_t batch, struct heads *heads)
{
    if (heads->batch == 1) {
        heads->batch = batch;
        heads->at.stride[0] = 0;
    }
}

static OrtStatus *compute(const struct run *run)
{
    struct tensor in[PATTERN_HIDDEN + 1];
    struct heads query, key, value;
    struct attention attention;
    for (int n = 0; n <= PATTERN_HIDDEN; ++n) {
        TRY(run_input(run, n, &in[n]));
    }
    TRY(heads_of(&in[PATTERN_QUERY], 0, "queries", &query));
    TRY(heads_of(&in[PATTERN_KEY], 0, "keys", &key));
    TRY(heads_of(&in[PATTERN_VALUE], 0, "values", &value));
    repeat_batch(query.batch, &key);
    repeat_batch(query.batch, &value);
    attention_init(&attention);
    TRY(attention_operands(&query, &key, &value, &attention));
    attention_attributes(&run->kernel->attributes, &attention);
    if (in[PATTERN_BIAS].data) {
        TRY(attention_mask(&in[PATTERN_BIAS], LAST_AXIS_REPEATED, &attention));
    }
    if (in[PATTERN_HIDDEN].data && run->kernel->attributes.hides_where_true) {
        TRY(invert(run, &in[PATTERN_HIDDEN]));
    }
    if (in[PATTERN_HIDDEN].data) {
        TRY(attention_mask(&in[PATTERN_HIDDEN], LAST_AXIS_REPEATED, &attention));
    }
    TRY(attention_out(run, 4, &attention));
    return attention_run(run, -1, &attention);
}

const struct kind kind_softmax = { "", "Softmax", 1, 25, pattern_gather, compute };
