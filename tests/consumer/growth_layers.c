/* The structs of layers and of their gradients, for growth.c. */
#include "growth_tries.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void layer_gradients(clattn_context *context, cl_command_queue queue, cl_mem in, cl_mem out)
{
    clattn_mha_problem forward;
    clattn_mha_backward_problem problem;
    clattn_mha_gradients gradients;
    clattn_mha_host_gradients host;
    clattn_mha_arrays arrays;
    clattn_mha_host_arrays host_arrays;
    clattn_mha_backward *backward = NULL;
    const clattn_array from = { in, 0 }, to = { out, 0 };
    float dx[4];
    clattn_mha_problem_init(&forward, sizeof(forward));
    clattn_mha_backward_problem_init(&problem, sizeof(problem));
    clattn_mha_gradients_init(&gradients, sizeof(gradients));
    clattn_mha_host_gradients_init(&host, sizeof(host));
    clattn_mha_arrays_init(&arrays, sizeof(arrays));
    clattn_mha_host_arrays_init(&host_arrays, sizeof(host_arrays));
    forward.rows = forward.model_dim = 2;
    forward.query_heads = 1;
    problem.forward = &forward;
    problem.gradients = CLATTN_MHA_GRADIENT_X;
    host_arrays.x = host_arrays.wq = host_arrays.wk = host_arrays.wv = host_arrays.wo = host.dy = data;
    host.dx = dx;
    TRY(clattn_mha_backward_reference(&problem, &host_arrays, &host), problem, "mha backward problem");
    TRY(clattn_mha_backward_reference(&problem, &host_arrays, &host), host, "mha host gradients");
    arrays.x = arrays.wq = arrays.wk = arrays.wv = arrays.wo = gradients.dy = from;
    gradients.dx = to;
    gradients.workspace = clCreateBuffer(clattn_context_cl(context), CL_MEM_READ_WRITE, 1 << 20, NULL, NULL);
    expect(clattn_mha_backward_create(context, &problem, &backward), CLATTN_OK, "mha_backward_create");
    TRY(clattn_mha_backward_enqueue(backward, queue, &arrays, &gradients, 0, NULL, NULL), gradients, "mha gradients");
    clFinish(queue);
    clattn_mha_backward_destroy(backward);
    clReleaseMemObject(gradients.workspace);
}

void additive_gradients(clattn_context *context, cl_command_queue queue, cl_mem in, cl_mem out)
{
    clattn_additive_problem forward;
    clattn_additive_backward_problem problem;
    clattn_additive_gradients gradients;
    clattn_additive_host_gradients host;
    clattn_additive_arrays arrays;
    clattn_additive_host_arrays host_arrays;
    clattn_additive_backward *backward = NULL;
    const clattn_array from = { in, 0 }, to = { out, 0 };
    float dvalue[4];
    clattn_additive_problem_init(&forward, sizeof(forward));
    clattn_additive_backward_problem_init(&problem, sizeof(problem));
    clattn_additive_gradients_init(&gradients, sizeof(gradients));
    clattn_additive_host_gradients_init(&host, sizeof(host));
    clattn_additive_arrays_init(&arrays, sizeof(arrays));
    clattn_additive_host_arrays_init(&host_arrays, sizeof(host_arrays));
    forward.rows = forward.keys = forward.query_dim = forward.hidden_dim = forward.value_dim = 2;
    problem.forward = &forward;
    problem.gradients = CLATTN_ADDITIVE_GRADIENT_VALUE;
    host_arrays.query = host_arrays.key = host_arrays.value = host_arrays.wq = host_arrays.wk = data;
    host_arrays.score = host.dout = data;
    host.dvalue = dvalue;
    TRY(clattn_additive_backward_reference(&problem, &host_arrays, &host), problem, "additive backward problem");
    TRY(clattn_additive_backward_reference(&problem, &host_arrays, &host), host, "additive host gradients");
    arrays.query = arrays.key = arrays.value = arrays.wq = arrays.wk = arrays.score = gradients.dout = from;
    gradients.dvalue = to;
    gradients.workspace = clCreateBuffer(clattn_context_cl(context), CL_MEM_READ_WRITE, 1 << 20, NULL, NULL);
    expect(clattn_additive_backward_create(context, &problem, &backward), CLATTN_OK, "additive_backward_create");
    TRY(clattn_additive_backward_enqueue(backward, queue, &arrays, &gradients, 0, NULL, NULL), gradients,
        "additive gradients");
    clFinish(queue);
    clattn_additive_backward_destroy(backward);
    clReleaseMemObject(gradients.workspace);
}

void layers(clattn_context *context, cl_command_queue queue, cl_mem in, cl_mem out)
{
    clattn_mha_problem mha_problem;
    clattn_mha_arrays mha_arrays;
    clattn_mha_host_arrays mha_host;
    clattn_additive_problem additive_problem;
    clattn_additive_arrays additive_arrays;
    clattn_additive_host_arrays additive_host;
    clattn_mha *mha = NULL;
    clattn_additive *additive = NULL;
    const clattn_array from = { in, 0 }, to = { out, 0 };
    cl_mem workspace = clCreateBuffer(clattn_context_cl(context), CL_MEM_READ_WRITE, 1 << 20, NULL, NULL);
    float y[64];
    clattn_mha_problem_init(&mha_problem, sizeof(mha_problem));
    clattn_mha_arrays_init(&mha_arrays, sizeof(mha_arrays));
    clattn_mha_host_arrays_init(&mha_host, sizeof(mha_host));
    clattn_additive_problem_init(&additive_problem, sizeof(additive_problem));
    clattn_additive_arrays_init(&additive_arrays, sizeof(additive_arrays));
    clattn_additive_host_arrays_init(&additive_host, sizeof(additive_host));
    mha_problem.rows = mha_problem.model_dim = 2;
    mha_problem.query_heads = 1;
    mha_host.x = mha_host.wq = mha_host.wk = mha_host.wv = mha_host.wo = data;
    mha_host.y = y;
    mha_arrays.x = mha_arrays.wq = mha_arrays.wk = mha_arrays.wv = mha_arrays.wo = from;
    mha_arrays.y = to;
    mha_arrays.workspace = additive_arrays.workspace = workspace;
    TRY(clattn_mha_reference(&mha_problem, &mha_host), mha_problem, "mha problem");
    TRY(clattn_mha_reference(&mha_problem, &mha_host), mha_host, "mha host arrays");
    expect(clattn_mha_create(context, &mha_problem, &mha), CLATTN_OK, "mha_create");
    TRY(clattn_mha_enqueue(mha, queue, &mha_arrays, 0, NULL, NULL), mha_arrays, "mha arrays");
    additive_problem.rows = additive_problem.keys = additive_problem.query_dim = 2;
    additive_problem.hidden_dim = additive_problem.value_dim = 2;
    additive_host.query = additive_host.key = additive_host.value = data;
    additive_host.wq = additive_host.wk = additive_host.score = data;
    additive_host.out = y;
    additive_arrays.query = additive_arrays.key = additive_arrays.value = from;
    additive_arrays.wq = additive_arrays.wk = additive_arrays.score = from;
    additive_arrays.out = to;
    TRY(clattn_additive_reference(&additive_problem, &additive_host), additive_problem, "additive problem");
    TRY(clattn_additive_reference(&additive_problem, &additive_host), additive_host, "additive host arrays");
    expect(clattn_additive_create(context, &additive_problem, &additive), CLATTN_OK, "additive_create");
    TRY(clattn_additive_enqueue(additive, queue, &additive_arrays, 0, NULL, NULL), additive_arrays, "additive arrays");
    clFinish(queue);
    clattn_mha_destroy(mha);
    clattn_additive_destroy(additive);
    clReleaseMemObject(workspace);
}

/* Two rows of two columns, turned by nothing and appended. */
