/* A program outside the tree that uses the installed clattn: compiled as C99 and as C++ by
 * tests/consumer/run. Two keys with logits 0 and 0, so out is the mean of the two values. */
#include <clattn.h>

#include <stdio.h>
#include <string.h>

static clattn_host_tensor tensor(float *data)
{
    clattn_host_tensor result = CLATTN_TENSOR_NONE;
    result.data = data;
    clattn_strides_bhsd(1, 2, 1, result.stride);
    return result;
}

int main(void)
{
    float query[2] = { 1.0f, 2.0f }, key[2] = { 0.0f, 0.0f }, value[2] = { 3.0f, 5.0f }, out[2] = { 0.0f, 0.0f };
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    clattn_host_tensors tensors = CLATTN_HOST_TENSORS_INIT;
    char version[32];

    problem.query_len = problem.key_len = 2;
    problem.head_dim = problem.head_dim_v = 1;
    tensors.query = tensor(query);
    tensors.key = tensor(key);
    tensors.value = tensor(value);
    tensors.out = tensor(out);
    if (clattn_reference_forward(&problem, NULL, &tensors) != CLATTN_OK) {
        fprintf(stderr, "consumer: %s\n", clattn_last_error());
        return 1;
    }
    if (out[0] != 4.0f || out[1] != 4.0f) {
        fprintf(stderr, "consumer: out is %g %g, not 4 4\n", (double)out[0], (double)out[1]);
        return 1;
    }
    sprintf(version, "%d.%d.%d", CLATTN_VERSION_MAJOR, CLATTN_VERSION_MINOR, CLATTN_VERSION_PATCH);
    if (strcmp(version, clattn_version()) != 0) {
        fprintf(stderr, "consumer: header %s, library %s\n", version, clattn_version());
        return 1;
    }
    return 0;
}
