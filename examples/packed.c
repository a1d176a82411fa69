/* Sequences of different lengths behind each other in one tensor, without padding: cu_query[b] and cu_key[b] say where
 * sequence b begins. Each gives what it would give alone. */
#include "example.h"

enum { HEADS = 2, DIM = 16, SEQUENCES = 4, LONGEST = 7, TOKENS = 15 };

static const int32_t begins[SEQUENCES + 1] = { 0, 5, 5, 12, TOKENS }; /* lengths 5, 0, 7, 3 */

/* Rows of all heads side by side: [token, head, dim]. The batch stride is not used in packed calls. */
static clattn_host_tensor tokens(const float *data)
{
    return clattn_host_tensor_bshd(data, HEADS, TOKENS, DIM);
}

static void reference_alone(int sequence, const clattn_host_tensors *packed, float *right)
{
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    clattn_host_tensors alone = CLATTN_HOST_TENSORS_INIT;
    problem.query_heads = problem.kv_heads = HEADS;
    problem.query_len = problem.key_len = begins[sequence + 1] - begins[sequence];
    problem.head_dim = DIM;
    problem.causal = 1;
    problem.alignment = CLATTN_ALIGN_TOP_LEFT;
    alone.query = packed->query;
    alone.key = packed->key;
    alone.value = packed->value;
    alone.out = tokens(right);
    alone.query.offset = alone.key.offset = alone.value.offset = alone.out.offset = begins[sequence] * HEADS * DIM;
    must(clattn_reference_forward(&problem, NULL, &alone));
}

int main(void)
{
    float query[TOKENS * HEADS * DIM], key[COUNT(query)], value[COUNT(query)], out[COUNT(query)], right[COUNT(query)];
    fill(query, COUNT(query), 1);
    fill(key, COUNT(key), 2);
    fill(value, COUNT(value), 3);

    clattn_problem problem = CLATTN_PROBLEM_INIT;
    problem.batch = SEQUENCES;
    problem.query_heads = problem.kv_heads = HEADS;
    problem.query_len = problem.key_len = LONGEST;
    problem.head_dim = DIM;
    problem.features = CLATTN_WITH_VARLEN;
    problem.causal = 1;
    problem.alignment = CLATTN_ALIGN_TOP_LEFT; /* within each sequence */

    clattn_host_tensors packed = CLATTN_HOST_TENSORS_INIT;
    packed.query = tokens(query);
    packed.key = tokens(key);
    packed.value = tokens(value);
    packed.out = tokens(out);
    packed.cu_query = packed.cu_key = clattn_host_tensor_bhsd(begins, 1, 1, SEQUENCES + 1);

    clattn_context *context;
    must(clattn_context_open(NULL, NULL, &context));
    must(clattn_forward_host(context, &problem, NULL, &packed));
    clattn_context_destroy(context);

    for (int sequence = 0; sequence < SEQUENCES; ++sequence) {
        reference_alone(sequence, &packed, right);
    }
    compare("each sequence as if alone", out, right, COUNT(out), 1e-5);
    return 0;
}
