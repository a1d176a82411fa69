/* A program outside the tree that uses the installed clattn: compiled as C99 and as C++ by
 * tests/consumer/run. Two keys with logits 0 and 0, so out is the mean of the two values. */
#include <clattn.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
    const float query[2] = { 1.0f, 2.0f }, key[2] = { 0.0f, 0.0f }, value[2] = { 3.0f, 5.0f };
    float out[2] = { 0.0f, 0.0f };
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    clattn_host_tensors tensors = CLATTN_HOST_TENSORS_INIT;
    char version[32];

    problem.query_len = problem.key_len = 2;
    problem.head_dim = problem.head_dim_v = 1;
    tensors.query = clattn_host_tensor_bhsd(query, 1, 2, 1);
    tensors.key = clattn_host_tensor_bhsd(key, 1, 2, 1);
    tensors.value = clattn_host_tensor_bhsd(value, 1, 2, 1);
    tensors.out = clattn_host_tensor_bhsd(out, 1, 2, 1);
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
    if (clattn_version_number() != CLATTN_VERSION_NUMBER) {
        fprintf(stderr, "consumer: header %d, library %d\n", CLATTN_VERSION_NUMBER, clattn_version_number());
        return 1;
    }
    return 0;
}
