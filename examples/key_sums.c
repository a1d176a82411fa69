/* Which keys of a cache are worth keeping, and how large logits become: sums of weights over the last rows of a prompt,
 * from the lse that its forward pass left, and the largest logit of each head. The half of a head's keys that
 * have the largest sums are chosen, as caches are thinned out; their share of the weight is told. */
#include <clattn_key_sums.h>

#include "example.h"

enum { HEADS = 4, KV_HEADS = 2, ROWS = 64, LAST_ROWS = 16, DIM = 16 };
enum { SIZE = HEADS * ROWS * DIM, KV_SIZE = KV_HEADS * ROWS * DIM };

static float query[SIZE], key[KV_SIZE], value[KV_SIZE], out[SIZE], lse[HEADS * ROWS];
static float sums[HEADS * ROWS], largest[HEADS], right_sums[HEADS * ROWS], right_largest[HEADS];

static int falling(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* The share that the half of the keys with most weight has of a head's. */
static double share_of_half(const float *head_sums)
{
    float sorted[ROWS];
    double half = 0, all = 0;
    for (int j = 0; j < ROWS; ++j) {
        sorted[j] = head_sums[j];
    }
    qsort(sorted, ROWS, sizeof(sorted[0]), falling);
    for (int j = 0; j < ROWS; ++j) {
        half += j < ROWS / 2 ? (double)sorted[j] : 0;
        all += (double)sorted[j];
    }
    return half / all;
}

int main(void)
{
    fill(query, SIZE, 1);
    fill(key, KV_SIZE, 2);
    fill(value, KV_SIZE, 3);

    clattn_context *context;
    must(clattn_context_open(NULL, NULL, &context));
    clattn_problem forward = CLATTN_PROBLEM_INIT;
    forward.query_heads = HEADS;
    forward.kv_heads = KV_HEADS;
    forward.query_len = forward.key_len = ROWS;
    forward.head_dim = DIM;
    forward.causal = 1;
    forward.alignment = CLATTN_ALIGN_TOP_LEFT;
    forward.features = CLATTN_WITH_LSE; /* what the sums ask of the forward pass */

    clattn_host_tensors tensors = CLATTN_HOST_TENSORS_INIT;
    tensors.query = clattn_host_tensor_bhsd(query, HEADS, ROWS, DIM);
    tensors.key = clattn_host_tensor_bhsd(key, KV_HEADS, ROWS, DIM);
    tensors.value = clattn_host_tensor_bhsd(value, KV_HEADS, ROWS, DIM);
    tensors.out = clattn_host_tensor_bhsd(out, HEADS, ROWS, DIM);
    tensors.lse = clattn_host_tensor_bhsd(lse, HEADS, ROWS, 1);
    must(clattn_forward_host(context, &forward, NULL, &tensors));

    clattn_key_sums_problem problem = CLATTN_KEY_SUMS_PROBLEM_INIT;
    problem.forward = &forward;
    problem.outputs = CLATTN_KEY_SUMS | CLATTN_MAX_LOGIT;
    problem.last_rows = LAST_ROWS;
    clattn_host_key_sums outputs = CLATTN_HOST_KEY_SUMS_INIT, right = CLATTN_HOST_KEY_SUMS_INIT;
    outputs.key_sums = clattn_host_tensor_bhsd(sums, HEADS, 1, ROWS);
    outputs.max_logit = clattn_host_tensor_bhsd(largest, HEADS, 1, 1);
    right.key_sums = clattn_host_tensor_bhsd(right_sums, HEADS, 1, ROWS);
    right.max_logit = clattn_host_tensor_bhsd(right_largest, HEADS, 1, 1);
    must(clattn_key_sums_host(context, &problem, NULL, &tensors, &outputs));
    must(clattn_reference_key_sums(&problem, NULL, &tensors, &right));
    compare("key_sums", sums, right_sums, HEADS * ROWS, 1e-5);
    compare("max_logit", largest, right_largest, HEADS, 1e-5);

    for (int h = 0; h < HEADS; ++h) {
        printf("head %d: half of the keys has %.1f %% of the weight; largest logit %.2f\n", h,
               100 * share_of_half(sums + h * ROWS), (double)largest[h]);
    }
    clattn_context_destroy(context);
    return 0;
}
