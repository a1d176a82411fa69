/* Attention by several devices of one host: a group divides each call among them. Names of devices are the program's
 * argument, such as 0:0+1:0; without one the device is the default, and the group has one. */
#include "example.h"

#include <clattn_group.h>

enum { BATCH = 2, HEADS = 4, ROWS = 256, DIM = 64, SIZE = BATCH * HEADS * ROWS * DIM };

int main(int argc, char **argv)
{
    static float query[SIZE], key[SIZE], value[SIZE], out[SIZE], right[SIZE];
    fill(query, SIZE, 1);
    fill(key, SIZE, 2);
    fill(value, SIZE, 3);

    clattn_group *group;
    must(clattn_group_open(argc > 1 ? argv[1] : NULL, NULL, &group));

    clattn_problem problem = CLATTN_PROBLEM_INIT;
    problem.batch = BATCH;
    problem.query_heads = problem.kv_heads = HEADS;
    problem.query_len = problem.key_len = ROWS;
    problem.head_dim = DIM;
    clattn_host_tensors tensors = CLATTN_HOST_TENSORS_INIT;
    tensors.query = clattn_host_tensor_bhsd(query, HEADS, ROWS, DIM);
    tensors.key = clattn_host_tensor_bhsd(key, HEADS, ROWS, DIM);
    tensors.value = clattn_host_tensor_bhsd(value, HEADS, ROWS, DIM);
    tensors.out = clattn_host_tensor_bhsd(out, HEADS, ROWS, DIM);
    must(clattn_group_forward_host(group, &problem, NULL, &tensors)); /* measures, and divides */
    char *text;
    must(clattn_group_explain(group, &text));
    printf("%s", text);
    clattn_free(text);

    tensors.out = clattn_host_tensor_bhsd(right, HEADS, ROWS, DIM);
    must(clattn_reference_forward(&problem, NULL, &tensors));
    compare("out of the group", out, right, SIZE, 1e-5);
    clattn_group_destroy(group);
    return 0;
}
