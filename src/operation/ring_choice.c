/* Which algorithm takes a problem, and what it costs: products of the rows and keys that see each other, and bytes, as
 * far as they are not hidden behind the products. */
#include <inttypes.h>
#include <math.h>

#include "base/decimal.h"
#include "base/error.h"
#include "base/text.h"
#include "operation/forward.h"
#include "operation/ring.h"

static const char *const algorithm_names[] = { "auto", "keys", "queries", "tree", "heads" };
static const char *const layout_names[] = { "contiguous", "zigzag", "striped" };

/* ---- what is refused --------------------------------------------------------------------------- */

/* Features whose tensors a partial call gets its part of. A new one is refused until it is here. */
#define DIVIDED (CLATTN_WITH_MASK | CLATTN_WITH_KEY_LENGTHS | CLATTN_WITH_SLOPES | CLATTN_WITH_SINKS | CLATTN_WITH_LSE)

static clattn_status check_any(const clattn_problem *p)
{
    const uint32_t others = p->features & ~(uint32_t)(DIVIDED);
    if (others) {
        return error_set(CLATTN_UNSUPPORTED, "features: %s is not divided among ranks; compute it on one",
                         forward_feature_name(others));
    }
    const char *field = p->ring != 0                        ? "ring"
                        : p->weights != CLATTN_WEIGHTS_NONE ? "weights"
                        : p->value_in_key                   ? "value_in_key"
                                                            : NULL;
    if (field) {
        return error_set(CLATTN_UNSUPPORTED, "%s: is not divided among ranks; compute it on one", field);
    }
    return p->mask_bits ? error_set(CLATTN_UNSUPPORTED,
                                    "mask_bits: a part's keys may begin inside a byte; give a mask of bytes to ranks")
                        : CLATTN_OK;
}

/* Whether batch entries stand at different places between two stripes. */
static int stripes_differ(const clattn_ring *ring)
{
    const int64_t ranks = ring->options.ranks;
    for (int64_t b = 1; b < ring->whole.batch; ++b) {
        if ((ring->offset[b] - ring->offset[0]) % ranks != 0) {
            return 1;
        }
    }
    return 0;
}

static clattn_status check_striped(const clattn_ring *ring)
{
    const clattn_problem *p = &ring->whole;
    const char *what = p->features & CLATTN_WITH_SLOPES ? "slopes"
                       : p->dropout > 0                 ? "dropout"
                       : p->always_visible_keys > 0     ? "always_visible_keys"
                                                        : NULL;
    if (what) {
        return error_set(CLATTN_UNSUPPORTED,
                         "layout CLATTN_RING_STRIPED: %s know places that stripes have not; take another layout", what);
    }
    if (p->window_left >= 0 && (p->causal || p->window_right >= 0) && stripes_differ(ring)) {
        return error_set(CLATTN_UNSUPPORTED,
                         "layout CLATTN_RING_STRIPED: a window needs rows of all batch entries at places that are "
                         "alike modulo ranks %" PRId64 "; take another layout",
                         ring->options.ranks);
    }
    return CLATTN_OK;
}

static clattn_status check_heads(const clattn_ring *ring)
{
    if (ring->whole.kv_heads % ring->options.ranks != 0) {
        return error_set(CLATTN_UNSUPPORTED,
                         "algorithm CLATTN_RING_HEADS: kv_heads %" PRId64 " must be a multiple of ranks %" PRId64,
                         ring->whole.kv_heads, ring->options.ranks);
    }
    return CLATTN_OK;
}

static clattn_status check_tree(const clattn_ring *ring)
{
    if (ring->options.gradients || ring->options.layout != CLATTN_RING_CONTIGUOUS) {
        return error_set(CLATTN_UNSUPPORTED, "algorithm CLATTN_RING_TREE: has no %s; take CLATTN_RING_%s",
                         ring->options.gradients ? "gradients" : "layout but CLATTN_RING_CONTIGUOUS",
                         ring->options.gradients ? "KEYS" : "CONTIGUOUS");
    }
    return CLATTN_OK;
}

clattn_status ring_check(const clattn_ring *ring, clattn_ring_algorithm algorithm)
{
    const clattn_problem *p = &ring->whole;
    const int keeps_rows = algorithm == CLATTN_RING_KEYS || algorithm == CLATTN_RING_TREE;
    clattn_status status = check_any(p);
    if (status == CLATTN_OK && !keeps_rows && (p->features & CLATTN_WITH_MASK || p->bias_type != CLATTN_TYPE_NONE)) {
        status = error_set(CLATTN_UNSUPPORTED,
                           "algorithm CLATTN_RING_%s: %s has rows that lie on one rank; take CLATTN_RING_KEYS",
                           algorithm == CLATTN_RING_HEADS ? "HEADS" : "QUERIES",
                           p->features & CLATTN_WITH_MASK ? "the mask" : "the bias");
    }
    if (status == CLATTN_OK && algorithm == CLATTN_RING_HEADS) {
        return check_heads(ring); /* whose rows are all there, in their own order */
    }
    if (status == CLATTN_OK && p->type == CLATTN_FLOAT64) {
        status = error_set(CLATTN_UNSUPPORTED, "type float64: lse has float32, and parts would be merged by its "
                                               "rounding; take CLATTN_RING_HEADS");
    }
    if (status == CLATTN_OK && algorithm == CLATTN_RING_TREE) {
        status = check_tree(ring);
    }
    if (status == CLATTN_OK && ring->options.layout == CLATTN_RING_STRIPED && ring->options.ranks > 1) {
        status = check_striped(ring);
    }
    return status;
}

/* ---- costs ------------------------------------------------------------------------------------- */

/* Bytes of a row of keys and values, of queries and what goes with them, and of results, over all heads. */
struct row_bytes {
    double keys, queries, results, key_results;
};

/* Sums of results are float64. */
static struct row_bytes row_bytes(const clattn_ring *ring, int is_sum)
{
    const clattn_problem *p = &ring->whole;
    const double heads = (double)p->query_heads, kv = (double)p->kv_heads;
    const double query = (double)clattn_row_bytes(p->type, p->head_dim);
    const double out = (double)clattn_row_bytes(p->out_type, p->head_dim_v);
    const struct row_bytes bytes = { .keys = kv * (double)(clattn_row_bytes(p->key_type, p->head_dim) +
                                                           clattn_row_bytes(p->value_type, p->head_dim_v)),
                                     .queries = heads * (ring->options.gradients ? query + 2 * out + 8 : query),
                                     .results = heads * (ring->options.gradients ? 4 * (double)p->head_dim
                                                         : is_sum                ? 8 * (double)(p->head_dim_v + 1)
                                                                                 : out + 4),
                                     .key_results =
                                         ring->options.gradients ? 4 * kv * (double)(p->head_dim + p->head_dim_v) : 0 };
    return bytes;
}

double ring_bytes(const clattn_ring *ring, const clattn_ring_message *message)
{
    const clattn_problem *p = &ring->whole;
    const struct row_bytes bytes = row_bytes(ring, ring->options.algorithm != CLATTN_RING_HEADS);
    const double of_row[] = { 0, bytes.keys, bytes.queries, bytes.results, bytes.key_results };
    const int is_of_keys = message->content == CLATTN_RING_OF_KEYS || message->content == CLATTN_RING_OF_KEY_RESULTS;
    const int64_t length = is_of_keys ? p->key_len : p->query_len;
    const int64_t rows =
        message->shard < 0 ? length : ring_shard(ring->options.layout, ring->options.ranks, message->shard, length);
    return of_row[message->content] * (double)(p->batch * rows) * (double)message->kv_heads / (double)p->kv_heads;
}

/* What the rank that has most of it has, of all products of rows and keys: causal masks leave half of them, but not to
 * the last rank of contiguous parts. */
static double largest_share(const clattn_ring *ring, clattn_ring_algorithm algorithm)
{
    const int is_uneven = algorithm != CLATTN_RING_HEADS && ring->options.layout == CLATTN_RING_CONTIGUOUS;
    const double share = 1 / (double)ring->options.ranks;
    return ring->whole.causal && !is_uneven ? share / 2 : share;
}

static double cost_s(const clattn_ring *ring, clattn_ring_algorithm algorithm)
{
    const clattn_problem *p = &ring->whole;
    const clattn_ring_options *o = &ring->options;
    const double rows = (double)p->query_len / (double)o->ranks, keys = (double)p->key_len / (double)o->ranks;
    const double steps = (double)o->ranks - 1, ranks = (double)o->ranks;
    const double products = 2.0 * (double)(p->head_dim + p->head_dim_v) * (double)p->query_heads *
                            (double)p->query_len * (double)p->key_len * (o->gradients ? 2.5 : 1);
    const double computed_s = (double)p->batch * products * largest_share(ring, algorithm) / o->flop_per_s;
    const struct row_bytes bytes = row_bytes(ring, algorithm != CLATTN_RING_HEADS);
    const double per_s = (double)p->batch / o->bytes_per_s;
    double sent_s;
    switch (algorithm) {
    case CLATTN_RING_KEYS:
        sent_s = keys * (bytes.keys + bytes.key_results) * per_s + o->latency_s;
        break;
    case CLATTN_RING_QUERIES:
        sent_s = rows * (bytes.queries + bytes.results) * per_s + o->latency_s;
        break;
    default: /* twice, before and after all products */
        return computed_s +
               steps / ranks * (rows * (bytes.queries + bytes.results) + keys * (bytes.keys + bytes.key_results)) *
                   per_s +
               2 * steps * o->latency_s;
    }
    return computed_s / ranks + steps * fmax(computed_s / ranks, sent_s);
}

clattn_status ring_choose(clattn_ring *ring)
{
    static const clattn_ring_algorithm offered[] = { CLATTN_RING_KEYS, CLATTN_RING_QUERIES, CLATTN_RING_HEADS };
    if (ring->options.algorithm != CLATTN_RING_AUTO) {
        return ring_check(ring, ring->options.algorithm);
    }
    for (size_t n = 0; n < sizeof(offered) / sizeof(offered[0]); ++n) {
        const clattn_ring_algorithm best = ring->options.algorithm;
        if (ring_check(ring, offered[n]) == CLATTN_OK) {
            ring->cost_s[offered[n]] = cost_s(ring, offered[n]);
            if (best == CLATTN_RING_AUTO || ring->cost_s[offered[n]] < ring->cost_s[best]) {
                ring->options.algorithm = offered[n];
            }
        }
    }
    return ring->options.algorithm == CLATTN_RING_AUTO ? ring_check(ring, offered[0]) : CLATTN_OK;
}

/* ---- telling ----------------------------------------------------------------------------------- */

clattn_status ring_explain(clattn_ring *ring)
{
    struct text text = TEXT_INIT;
    const clattn_ring_options *o = &ring->options;
    int64_t sends = 0;
    text_append(&text, "rank %" PRId64 " of %" PRId64 ", %s, %s%s: %" PRId64 " steps, %" PRId64 " partial calls",
                o->rank, o->ranks, layout_names[o->layout], algorithm_names[o->algorithm],
                o->gradients ? ", gradients" : "", ring->list.steps, ring->list.tasks);
    for (int64_t n = 0; n < ring->list.messages; ++n) {
        sends += ring->list.message[n].is_send;
    }
    text_append(&text, ", sends %" PRId64 " messages, receives %" PRId64 "\n", sends, ring->list.messages - sends);
    for (int n = CLATTN_RING_KEYS; n <= CLATTN_RING_HEADS; ++n) {
        if (ring->cost_s[n] > 0) {
            text_append(&text, "%s: estimated %s ms\n", algorithm_names[n], DECIMAL_FIXED(3, ring->cost_s[n] * 1e3));
        }
    }
    return text_give(&text, "a schedule's description", &ring->explain);
}
