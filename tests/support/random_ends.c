/* Numbers of a random call at the ends of their ranges: whatever they meet, no result may be NaN, nor another row's. */
#include "random_ends.h"

#include <float.h>

#include "base/stored_types.h"

/* Which numbers of a call are at the ends of their ranges: one kind at once, since their sums may leave float32's
 * range, of which nothing is promised. */
enum ends { ENDS_OF_BIAS, ENDS_OF_SINKS, ENDS_OF_SLOPES, ENDS_OF_SCALE, ENDS_OF_LOGITS, ENDS };

static const double largest_of[] = {
    [CLATTN_FLOAT32] = FLT_MAX, [CLATTN_FLOAT16] = 65504, [CLATTN_BFLOAT16] = 0x1.fep127, [CLATTN_FLOAT64] = FLT_MAX
};

/* Every third row has one end for all keys: as if it had none. The others mix them. */
static double bias_at_its_ends(struct random *random, const int64_t index[4], const void *context)
{
    const double most = *(const double *)context, drawn = random_normal(random);
    const double ends[] = { -most, -0.75 * most, -65504, most, 0, drawn };
    const int64_t which = random_between(random, 0, 5);
    return index[2] % 3 == 0 ? ends[index[2] / 3 % 4] : ends[which];
}

static double sink_at_its_ends(struct random *random, const int64_t index[4], const void *context)
{
    static const double ends[] = { -(double)FLT_MAX, (double)FLT_MAX, -1e30, 1e30 };
    (void)index, (void)context;
    return ends[random_between(random, 0, 3)];
}

static double slope_at_its_ends(struct random *random, const int64_t index[4], const void *context)
{
    static const double ends[] = { (double)FLT_MAX, -(double)FLT_MAX, 0x1p95, 1e20, -1e20, (double)FLT_MIN };
    (void)index, (void)context;
    return ends[random_between(random, 0, 5)];
}

static double scale_at_its_ends(struct random *random)
{
    static const double ends[] = { 0, (double)FLT_MIN, 1e30, -1e30 };
    return ends[random_between(random, 0, 3)];
}

static double large_key(struct random *random, const int64_t index[4], const void *context)
{
    (void)index;
    return *(const double *)context * random_normal(random);
}

/* In one column, so that a logit is a product, not a sum: what is left of huge terms that cancel has an error of their
 * size, by which lse and a gradient's logits differ without bound. */
static double large_query(struct random *random, const int64_t index[4], const void *context)
{
    return (index[3] == 0) * large_key(random, index, context);
}

/* The kind of ends that the family's draw asks for, if the call has such a tensor; else of what every call has. */
static enum ends ends_of(double share, const struct test_call *test)
{
    const enum ends wanted = (enum ends)(share * (int)ENDS);
    const int is_there = wanted == ENDS_OF_BIAS     ? test_call_has(test, TENSOR_BIAS)
                         : wanted == ENDS_OF_SINKS  ? test_call_has(test, TENSOR_SINKS)
                         : wanted == ENDS_OF_SLOPES ? test_call_has(test, TENSOR_SLOPES)
                                                    : 1;
    return is_there ? wanted : share < 0.5 ? ENDS_OF_SCALE : ENDS_OF_LOGITS;
}

void random_ends_put(struct random *random, struct test_call *test, double share)
{
    static const double large = 1e18, large_of_16_bits = 1e4;
    switch (ends_of(share, test)) {
    case ENDS_OF_BIAS:
        test_call_fill(test, TENSOR_BIAS, random, bias_at_its_ends, &largest_of[test_call_type(test, TENSOR_BIAS)]);
        break;
    case ENDS_OF_SINKS:
        test_call_fill(test, TENSOR_SINKS, random, sink_at_its_ends, NULL);
        break;
    case ENDS_OF_SLOPES:
        test_call_fill(test, TENSOR_SLOPES, random, slope_at_its_ends, NULL);
        break;
    case ENDS_OF_SCALE:
        test->values.has_scale = 1;
        test->values.scale = scale_at_its_ends(random);
        break;
    default:
        for (int id = TENSOR_QUERY; id <= TENSOR_KEY; ++id) {
            const clattn_type type = test_call_type(test, (enum tensor_id)id);
            if (type_is_float(type)) {
                test_call_fill(test, (enum tensor_id)id, random, id == TENSOR_QUERY ? large_query : large_key,
                               type == CLATTN_FLOAT16 ? &large_of_16_bits : &large);
            }
        }
    }
}
