#include "additive_gradient_case.h"

#include "upload.h"

clattn_type additive_gradient_type(const struct additive_gradient_case *c)
{
    return c->problem.gradient_type ? c->problem.gradient_type : c->layer.problem.type;
}

static void set_arrays(struct additive_gradient_case *c)
{
    clattn_additive_host_gradients *g = &c->arrays;
    void **const fields[GRADIENTS] = { &g->dquery, &g->dkey, &g->dvalue, &g->dwq, &g->dwk, &g->dscore };
    for (int i = 0; i < GRADIENTS; ++i) {
        *fields[i] = c->problem.gradients >> i & 1 ? c->got[i] : NULL;
    }
    g->dout = c->dout;
}

void additive_gradient_begin(struct additive_gradient_case *c)
{
    *c = (struct additive_gradient_case){ .layer = { .problem = CLATTN_ADDITIVE_PROBLEM_INIT,
                                                     .arrays = CLATTN_ADDITIVE_HOST_ARRAYS_INIT },
                                          .problem = CLATTN_ADDITIVE_BACKWARD_PROBLEM_INIT,
                                          .arrays = CLATTN_ADDITIVE_HOST_GRADIENTS_INIT };
    c->problem.forward = &c->layer.problem;
    c->problem.strategy = "plain";
    c->problem.gradients = ALL_GRADIENTS;
}

void additive_gradient_fill(struct additive_gradient_case *c, struct random *random)
{
    const size_t size = clattn_type_size(additive_gradient_type(c));
    additive_case_fill(&c->layer, random);
    c->dout = layer_test_normal(random, c->layer.problem.type, c->layer.out_count, 1);
    for (int i = 0; i < GRADIENTS; ++i) {
        const int64_t count = c->layer.count[i];
        const int adds = (c->problem.accumulate >> i & 1) != 0;
        c->before[i] = adds ? layer_test_normal(random, additive_gradient_type(c), count, 1) : layer_test_poison(count);
        c->got[i] = layer_test_poison(count);
        memcpy(c->got[i], c->before[i], (size_t)count * size);
    }
    set_arrays(c);
}

void additive_gradient_end(struct additive_gradient_case *c)
{
    additive_case_free(&c->layer);
    for (int i = 0; i < GRADIENTS; ++i) {
        free(c->got[i]);
        free(c->before[i]);
    }
    free(c->dout);
}

/* ---- both kinds of calls ---------------------------------------------------------------------- */

clattn_status additive_gradient_run_host(const struct layer_test *test, struct additive_gradient_case *c)
{
    set_arrays(c);
    return clattn_additive_backward_host(test->context, &c->problem, &c->layer.arrays, &c->arrays);
}

static void put_all(struct additive_gradient_case *c, struct upload *upload, clattn_additive_arrays *a,
                    clattn_additive_gradients *g)
{
    const clattn_additive_problem *p = &c->layer.problem;
    const size_t size = clattn_type_size(p->type);
    clattn_array *const inputs[ADDITIVE_INPUTS] = { &a->query, &a->key, &a->value, &a->wq, &a->wk, &a->score };
    clattn_array *const outputs[GRADIENTS] = { &g->dquery, &g->dkey, &g->dvalue, &g->dwq, &g->dwk, &g->dscore };
    for (int i = 0; i < GRADIENTS; ++i) {
        *inputs[i] = upload_put(upload, c->layer.inputs[i], c->layer.count[i], size);
        *outputs[i] = upload_put(upload, c->problem.gradients >> i & 1 ? c->got[i] : NULL, c->layer.count[i],
                                 clattn_type_size(additive_gradient_type(c)));
    }
    g->dout = upload_put(upload, c->dout, c->layer.out_count, size);
    const clattn_array mask = upload_put(upload, c->layer.mask, p->rows * p->keys, 1);
    a->mask.buffer = mask.buffer;
    a->mask.offset = mask.offset;
    memcpy(a->mask.stride, c->layer.arrays.mask.stride, sizeof(a->mask.stride));
    a->key_lengths = upload_put(upload, c->layer.lengths, p->batch, sizeof(int32_t));
}

clattn_status additive_gradient_run_enqueued(const struct layer_test *test, struct additive_gradient_case *c,
                                             int out_of_order)
{
    const size_t size = clattn_type_size(additive_gradient_type(c));
    struct upload upload = { .context = test->context };
    clattn_additive_backward *backward;
    clattn_additive_arrays arrays = CLATTN_ADDITIVE_ARRAYS_INIT;
    clattn_additive_gradients g = CLATTN_ADDITIVE_GRADIENTS_INIT;
    clattn_array *const fields[GRADIENTS] = { &g.dquery, &g.dkey, &g.dvalue, &g.dwq, &g.dwk, &g.dscore };
    clattn_status status = clattn_additive_backward_create(test->context, &c->problem, &backward);
    if (status != CLATTN_OK) {
        return status;
    }
    cl_command_queue queue = clCreateCommandQueue(clattn_context_cl(test->context),
                                                  clattn_context_device(test->context),
                                                  out_of_order ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0, NULL);
    put_all(c, &upload, &arrays, &g);
    g.workspace = clCreateBuffer(clattn_context_cl(test->context), CL_MEM_READ_WRITE,
                                 clattn_additive_backward_workspace(backward) + 1, NULL, NULL);
    cl_event done = NULL;
    status = clattn_additive_backward_enqueue(backward, queue, &arrays, &g, 0, NULL, &done);
    for (int i = 0; i < GRADIENTS && status == CLATTN_OK; ++i) {
        if (fields[i]->buffer && c->layer.count[i] > 0) {
            clEnqueueReadBuffer(queue, fields[i]->buffer, CL_TRUE, UPLOAD_OFFSET * size,
                                (size_t)c->layer.count[i] * size, c->got[i], 1, &done, NULL);
        }
    }
    if (done) {
        clReleaseEvent(done);
    }
    clFinish(queue);
    clReleaseCommandQueue(queue);
    clReleaseMemObject(g.workspace);
    upload_release(&upload);
    clattn_additive_backward_destroy(backward);
    return status;
}
