/* Keys and values in bfloat16, half the memory, queries and result in float32: types mix. Sums and softmax are in
 * float32 whatever is stored, so the only error to speak of is what storing took. */
#include <string.h>

#include "example.h"

enum { HEADS = 2, ROWS = 12, DIM = 16 };

/* The upper half of a float, to the nearest, ties to even; NaN needs care that these numbers do not. */
static uint16_t to_bfloat16(float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof(bits));
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static void store(const float *from, uint16_t *to, size_t count)
{
    for (size_t i = 0; i < count; ++i) {
        to[i] = to_bfloat16(from[i]);
    }
}

int main(void)
{
    float query[HEADS * ROWS * DIM], key[COUNT(query)], value[COUNT(query)], out[COUNT(query)], right[COUNT(query)];
    uint16_t key_stored[COUNT(query)], value_stored[COUNT(query)];
    fill(query, COUNT(query), 1);
    fill(key, COUNT(key), 2);
    fill(value, COUNT(value), 3);
    store(key, key_stored, COUNT(key));
    store(value, value_stored, COUNT(value));

    clattn_problem problem = CLATTN_PROBLEM_INIT;
    problem.query_heads = problem.kv_heads = HEADS;
    problem.query_len = problem.key_len = ROWS;
    problem.head_dim = DIM;
    problem.type = CLATTN_FLOAT32; /* of queries, and of what has no type of its own: out */
    problem.key_type = problem.value_type = CLATTN_BFLOAT16;

    clattn_host_tensors host = CLATTN_HOST_TENSORS_INIT;
    host.query = clattn_host_tensor_bhsd(query, HEADS, ROWS, DIM);
    host.key = clattn_host_tensor_bhsd(key_stored, HEADS, ROWS, DIM);
    host.value = clattn_host_tensor_bhsd(value_stored, HEADS, ROWS, DIM);
    host.out = clattn_host_tensor_bhsd(out, HEADS, ROWS, DIM);

    clattn_context *context;
    must(clattn_context_open(NULL, NULL, &context));
    must(clattn_forward_host(context, &problem, NULL, &host));
    clattn_context_destroy(context);

    host.out.data = right;
    must(clattn_reference_forward(&problem, NULL, &host));
    compare("on the numbers as stored", out, right, COUNT(out), 1e-5);

    problem.key_type = problem.value_type = CLATTN_FLOAT32;
    host.key.data = key;
    host.value.data = value;
    must(clattn_reference_forward(&problem, NULL, &host));
    compare("on the numbers before they were stored", out, right, COUNT(out), 1e-2);
    return 0;
}
