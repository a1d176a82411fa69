/* Everything that hides a key or moves a score, in one call: a causal sliding window that always sees the first key,
 * the length of each batch entry, a mask, a bias of each head, ALiBi slopes, a softcap. They compose; nothing is
 * ignored. */
#include <string.h>

#include "example.h"

enum { BATCH = 2, HEADS = 2, ROWS = 8, DIM = 16 };

int main(void)
{
    float query[BATCH * HEADS * ROWS * DIM], key[COUNT(query)], value[COUNT(query)], out[COUNT(query)],
        right[COUNT(query)];
    float bias[HEADS * ROWS * ROWS], slopes[HEADS];
    unsigned char mask[ROWS * ROWS];            /* one for all batch entries and heads */
    const int32_t lengths[BATCH] = { ROWS, 5 }; /* the second sentence is padded */
    fill(query, COUNT(query), 1);
    fill(key, COUNT(key), 2);
    fill(value, COUNT(value), 3);
    fill(bias, COUNT(bias), 4);
    must(clattn_alibi_slopes(HEADS, slopes));
    memset(mask, 1, sizeof(mask));
    mask[6 * ROWS + 5] = 0; /* row 6 may not see key 5 */

    clattn_problem problem = CLATTN_PROBLEM_INIT;
    problem.batch = BATCH;
    problem.query_heads = problem.kv_heads = HEADS;
    problem.query_len = problem.key_len = ROWS;
    problem.head_dim = DIM;
    problem.causal = 1;
    problem.alignment = CLATTN_ALIGN_TOP_LEFT; /* row i stands at key i; it is never guessed */
    problem.window_left = 3;                   /* the key at the row's own position, and 3 before it */
    problem.always_visible_keys = 1;
    problem.features = CLATTN_WITH_MASK | CLATTN_WITH_KEY_LENGTHS | CLATTN_WITH_SLOPES;
    problem.bias_type = CLATTN_FLOAT32;
    problem.softcap = 20;

    clattn_host_tensors host = CLATTN_HOST_TENSORS_INIT;
    host.query = clattn_host_tensor_bhsd(query, HEADS, ROWS, DIM);
    host.key = clattn_host_tensor_bhsd(key, HEADS, ROWS, DIM);
    host.value = clattn_host_tensor_bhsd(value, HEADS, ROWS, DIM);
    host.out = clattn_host_tensor_bhsd(out, HEADS, ROWS, DIM);
    host.mask = clattn_host_tensor_bhsd(mask, 1, ROWS, ROWS);
    host.mask.stride[0] = host.mask.stride[1] = 0; /* stride 0 broadcasts */
    host.bias = clattn_host_tensor_bhsd(bias, HEADS, ROWS, ROWS);
    host.bias.stride[0] = 0;
    host.slopes.data = slopes; /* [batch, heads] */
    host.slopes.stride[1] = 1;
    host.key_lengths = clattn_host_tensor_bhsd(lengths, 1, 1, BATCH);

    /* What a row may not see cannot harm it, not even as NaN. */
    for (int d = 0; d < DIM; ++d) {
        value[((1 * HEADS + 0) * ROWS + 6) * DIM + d] = NAN;
    }

    clattn_context *context;
    must(clattn_context_open(NULL, NULL, &context));
    must(clattn_forward_host(context, &problem, NULL, &host)); /* blocking, on host memory */
    clattn_context_destroy(context);

    host.out.data = right;
    must(clattn_reference_forward(&problem, NULL, &host));
    compare("out", out, right, COUNT(out), 1e-5);
    return 0;
}
