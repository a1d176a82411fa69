/* RotaryEmbedding, ai.onnx's and com.microsoft's, where its result goes into attention. */
#include "rotary.h"

#include "claim.h"
#include "graph.h"

#include <clattn_cache.h>

#include <string.h>

enum { INPUT, COSINE, SINE, IDS }; /* of ai.onnx */
enum { INPUT_CONTRIBUTED, IDS_CONTRIBUTED, COSINE_CONTRIBUTED, SINE_CONTRIBUTED };

/* ---- tables ------------------------------------------------------------------------------------ */

static OrtStatus *widen_row(const struct tensor *cache, int64_t row, float *wide)
{
    struct tensor at = *cache;
    at.data = (char *)cache->data + (size_t)(row * cache->stride[0]) * element_bytes(cache->type);
    return tensor_widen(&at, cache->extent[1], wide);
}

static int64_t position_of(const struct positions *positions, int64_t b, int64_t i, int64_t rows)
{
    const int64_t *ids = positions->ids.data;
    if (!ids) {
        return positions->starts[b] + i;
    }
    return positions->ids.rank == 2 ? ids[b * rows + i] : ids[0] + i;
}

static OrtStatus *check_ids(const struct tensor *ids, int64_t batch, int64_t rows)
{
    const int is_good = !ids->data || (ids->rank == 2 && ids->extent[0] == batch && ids->extent[1] == rows) ||
                        (ids->rank == 1 && ids->extent[0] == 1);
    return is_good ? NULL
                   : refuse(ORT_INVALID_ARGUMENT, "clattn: position_ids have %d axes: must be [1] or [%lld, %lld]",
                            ids->rank, (long long)batch, (long long)rows);
}

OrtStatus *rotary_tables_of(const struct run *run, const struct tensor *cosine, const struct tensor *sine,
                            const struct positions *positions, int64_t batch, int64_t rows,
                            struct rotary_tables *tables)
{
    const int64_t pairs = cosine->extent[1], count = cosine->extent[0];
    if (cosine->rank != 2 || sine->rank != 2 || sine->extent[0] != count || sine->extent[1] != pairs || pairs < 1) {
        return refuse(ORT_INVALID_ARGUMENT, "clattn: caches of cosines and sines must both be [positions, pairs]");
    }
    TRY(check_ids(&positions->ids, batch, rows));
    const size_t bytes = (size_t)(batch * rows * pairs) * sizeof(float);
    float *cosines = lane_room(run->lane, SCRATCH_COSINE, bytes), *sines = lane_room(run->lane, SCRATCH_SINE, bytes);
    if (!cosines || !sines) {
        return refuse_memory();
    }
    for (int64_t n = 0; n < batch * rows; ++n) {
        const int64_t position = position_of(positions, n / rows, n % rows, rows);
        if (position < 0 || position >= count) {
            return refuse(ORT_INVALID_ARGUMENT, "clattn: a token stands at %lld: caches of cosines have 0 to %lld",
                          (long long)position, (long long)count - 1);
        }
        TRY(widen_row(cosine, position, cosines + n * pairs));
        TRY(widen_row(sine, position, sines + n * pairs));
    }
    tables->cosine = clattn_host_tensor_bhsd(cosines, 1, rows, pairs);
    tables->sine = clattn_host_tensor_bhsd(sines, 1, rows, pairs);
    tables->columns = 2 * pairs;
    return NULL;
}

/* ---- the operations ---------------------------------------------------------------------------- */

static OrtStatus *turn(const struct run *run, const struct heads *input, const struct rotary_tables *tables,
                       const struct tensor *shape)
{
    clattn_rotary_problem problem = CLATTN_ROTARY_PROBLEM_INIT;
    clattn_cache_call call = CLATTN_CACHE_CALL_INIT;
    clattn_rotary_host_tensors tensors = CLATTN_ROTARY_HOST_TENSORS_INIT;
    struct tensor out;
    TRY(run_output(run, 0, shape->rank, shape->extent, &out));
    if (!out.data) {
        return NULL;
    }
    problem.type = type_of_element(input->type);
    problem.pairs = run->kernel->attributes.is_interleaved ? CLATTN_PAIRS_INTERLEAVED : CLATTN_PAIRS_HALVES;
    problem.batch = input->batch;
    problem.heads = input->heads;
    problem.query_len = length_rounded_up(input->rows, 1);
    problem.head_dim = input->columns;
    problem.columns = tables->columns;
    problem.features = CLATTN_WITH_TOKEN_TABLES;
    call.query_len = input->rows;
    tensors.x = tensors.out = input->at;
    tensors.out.data = out.data;
    tensors.cosine = tables->cosine;
    tensors.sine = tables->sine;
    const clattn_status status = clattn_rotary_host(run->kernel->plans->context, &problem, &call, &tensors);
    return status == CLATTN_OK ? NULL : refuse_as_clattn(status);
}

/* Caches that have a row for each token, [batch, rows, pairs]. */
static OrtStatus *tables_of_tokens(const struct run *run, const struct tensor *cosine, const struct tensor *sine,
                                   int64_t batch, int64_t rows, struct rotary_tables *tables)
{
    struct tensor flat_cosine = *cosine, flat_sine = *sine;
    struct positions positions = { { .data = NULL },
                                   lane_room(run->lane, SCRATCH_POSITIONS, (size_t)batch * sizeof(int32_t)) };
    if (cosine->rank != 3 || sine->rank != 3 || cosine->extent[0] != batch || cosine->extent[1] != rows ||
        memcmp(cosine->extent, sine->extent, 3 * sizeof(int64_t)) != 0) {
        return refuse(ORT_INVALID_ARGUMENT,
                      "clattn: without position_ids caches of cosines and sines must be [%lld, "
                      "%lld, pairs]",
                      (long long)batch, (long long)rows);
    }
    if (!positions.starts) {
        return refuse_memory();
    }
    for (int64_t b = 0; b < batch; ++b) {
        ((int32_t *)(uintptr_t)positions.starts)[b] = (int32_t)(b * rows);
    }
    flat_cosine.rank = flat_sine.rank = 2;
    flat_cosine.extent[0] = flat_sine.extent[0] = batch * rows;
    flat_cosine.extent[1] = flat_sine.extent[1] = cosine->extent[2];
    flat_cosine.stride[0] = flat_sine.stride[0] = cosine->extent[2];
    return rotary_tables_of(run, &flat_cosine, &flat_sine, &positions, batch, rows, tables);
}

static OrtStatus *compute_places(const struct run *run, int cosine_place, int sine_place, int ids_place)
{
    const struct attributes *attributes = &run->kernel->attributes;
    struct tensor input, cosine, sine;
    struct positions positions = { { .data = NULL }, NULL };
    struct rotary_tables tables;
    struct heads heads;
    TRY(run_input(run, 0, &input));
    TRY(run_input(run, cosine_place, &cosine));
    TRY(run_input(run, sine_place, &sine));
    TRY(run_input(run, ids_place, &positions.ids));
    const int64_t pairs = cosine.rank > 0 ? cosine.extent[cosine.rank - 1] : 0;
    const int64_t by_columns = input.rank == 3 && pairs > 0 ? input.extent[2] / (2 * pairs) : 0;
    TRY(heads_of(&input, attributes->query_heads > 0 ? attributes->query_heads : by_columns, "the input", &heads));
    if (positions.ids.data) {
        TRY(rotary_tables_of(run, &cosine, &sine, &positions, heads.batch, heads.rows, &tables));
    } else {
        TRY(tables_of_tokens(run, &cosine, &sine, heads.batch, heads.rows, &tables));
    }
    return turn(run, &heads, &tables, &input);
}

static OrtStatus *compute(const struct run *run)
{
    return compute_places(run, COSINE, SINE, IDS);
}

static OrtStatus *compute_contributed(const struct run *run)
{
    return compute_places(run, COSINE_CONTRIBUTED, SINE_CONTRIBUTED, IDS_CONTRIBUTED);
}

/* Whether a node of attention reads output 0. */
static OrtStatus *find_attention(const struct node *node, int *is_found)
{
    const OrtNode *consumers[GRAPH_READERS_MAX];
    size_t count;
    struct node consumer;
    *is_found = 0;
    TRY(graph_readers(&node->output[0], consumers, GRAPH_READERS_MAX, &count));
    for (size_t n = 0; n < count; ++n) {
        TRY(node_read(consumers[n], &consumer));
        const struct kind *kind = kind_of(&consumer);
        *is_found |= kind && kind != &kind_rotary && kind != &kind_rotary_contributed;
    }
    return NULL;
}

static OrtStatus *gather(const struct node *node, struct claim *claim)
{
    const ONNXTensorElementDataType type = node->input[INPUT].type;
    struct attributes *attributes = &claim->attributes;
    float scale;
    int64_t is_packed;
    int is_wanted;
    is_wanted = claim->is_made_again;
    if (!is_wanted) {
        TRY(find_attention(node, &is_wanted));
    }
    claim->kind = is_wanted ? claim->kind : NULL;
    TRY(node_integer(node, "num_heads", 0, &attributes->query_heads));
    TRY(node_integer(node, "interleaved", 0, &attributes->is_interleaved));
    TRY(node_number(node, "scale", 1.0f, &scale));
    TRY(node_integer(node, "is_packed_batching", 0, &is_packed));
    if (type_of_element(type) == CLATTN_TYPE_NONE || type == ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE) {
        claim->reason = DECLINED_TYPE;
    } else if (scale != 1.0f || is_packed) {
        claim->reason = DECLINED_ATTRIBUTES;
    }
    claim_node(node, claim);
    return NULL;
}

const struct kind kind_rotary = { "", "RotaryEmbedding", 23, 25, gather, compute };
const struct kind kind_rotary_contributed = { "com.microsoft", "RotaryEmbedding", 1, 1, gather, compute_contributed };
