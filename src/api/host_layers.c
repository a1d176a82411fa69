#include "api/host_layers.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* ---- copies ----------------------------------------------------------------------------------- */

/* The device's copies of a layer's arrays. */
struct session {
    clattn_context *context;
    const struct layer_array *arrays;
    const int64_t *counts;
    int n;
    struct layer_place *places; /* data: the caller's; buffer: filled here */
    cl_mem workspace;
};

static clattn_status check_memory(const struct session *session, size_t workspace_bytes)
{
    const struct device *device = &session->context->device;
    double total = (double)workspace_bytes;
    for (int i = 0; i < session->n; ++i) {
        if (session->arrays[i].required) {
            total += (double)session->counts[i] * (double)session->arrays[i].element_bytes;
        }
    }
    if (total > (double)device->global_bytes) {
        return error_set(CLATTN_OUT_OF_DEVICE_MEMORY,
                         "this call needs %.0f bytes of device memory, workspace of %zu bytes included; "
                         "device \"%s\" has %llu",
                         total, workspace_bytes, device->name, (unsigned long long)device->global_bytes);
    }
    return CLATTN_OK;
}

static clattn_status create_buffer(const struct session *session, const char *name, cl_mem_flags flags,
                                   size_t bytes, void *content, cl_mem *buffer)
{
    cl_int code;
    *buffer = clCreateBuffer(session->context->cl, flags, bytes, content, &code);
    return code == CL_SUCCESS ? CLATTN_OK
                              : error_opencl(code, "clCreateBuffer", "%s of %zu bytes", name, bytes);
}

static clattn_status copy_in(struct session *session, size_t workspace_bytes)
{
    clattn_status status = check_memory(session, workspace_bytes);
    for (int i = 0; i < session->n && status == CLATTN_OK; ++i) {
        const struct layer_array *array = &session->arrays[i];
        /* An array without elements still has to be a buffer for those who look whether it is there. */
        const int64_t count = session->counts[i] > 0 ? session->counts[i] : 1;
        const int copied = array->role != LAYER_OUTPUT && session->counts[i] > 0;
        if (array->required) {
            status = create_buffer(session, array->name,
                                   copied ? CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR : CL_MEM_READ_WRITE,
                                   (size_t)count * array->element_bytes,
                                   copied ? session->places[i].data : NULL, &session->places[i].buffer);
        }
    }
    if (status == CLATTN_OK && workspace_bytes > 0) {
        status = create_buffer(session, "workspace", CL_MEM_READ_WRITE, workspace_bytes, NULL,
                               &session->workspace);
    }
    return status;
}

static clattn_status copy_out(const struct session *session)
{
    cl_int code = CL_SUCCESS;
    for (int i = 0; i < session->n && code == CL_SUCCESS; ++i) {
        const struct layer_array *array = &session->arrays[i];
        if (array->role == LAYER_OUTPUT && array->required && session->counts[i] > 0) {
            code = clEnqueueReadBuffer(session->context->queue, session->places[i].buffer, CL_TRUE, 0,
                                       (size_t)session->counts[i] * array->element_bytes,
                                       session->places[i].data, 0, NULL, NULL);
        }
    }
    return code == CL_SUCCESS ? CLATTN_OK : error_opencl(code, "clEnqueueReadBuffer", "a layer's output");
}

static void release(const struct session *session)
{
    for (int i = 0; i < session->n; ++i) {
        if (session->places[i].buffer) {
            clReleaseMemObject(session->places[i].buffer);
        }
    }
    if (session->workspace) {
        clReleaseMemObject(session->workspace);
    }
}

/* ---- multi-head ------------------------------------------------------------------------------- */

static clattn_status run_mha(clattn_context *context, const struct mha_problem *problem,
                             struct mha_call *call)
{
    struct clattn_mha *mha;
    int64_t counts[MHA_ARRAYS];
    struct session session = { context, problem->arrays, counts, MHA_ARRAYS, call->places, NULL };
    for (int i = 0; i < MHA_ARRAYS; ++i) {
        counts[i] = mha_call_count(problem, call, (enum mha_array)i);
    }
    clattn_status status = mha_create(context, problem, &mha);
    if (status != CLATTN_OK) {
        return status;
    }
    status = copy_in(&session, mha->workspace_bytes);
    if (status == CLATTN_OK) {
        call->workspace = session.workspace;
        status = mha_enqueue(mha, context->queue, call, 0, NULL, NULL);
    }
    if (status == CLATTN_OK) {
        status = copy_out(&session);
    }
    release(&session);
    mha_destroy(mha);
    return status;
}

/* Packed weights are one multiply: worth a copy on the host. */
static int can_be_packed(const struct mha_problem *problem)
{
    const uint32_t biases = CLATTN_MHA_BIAS_QUERY | CLATTN_MHA_BIAS_KEY | CLATTN_MHA_BIAS_VALUE;
    const uint32_t given = problem->p.parts & biases;
    return !(problem->p.parts & CLATTN_MHA_PACKED) && (given == 0 || given == biases) &&
           problem->p.context_dim == problem->p.model_dim;
}

/* Three arrays, `first` and the two after it, behind one another. The caller frees. */
static void *pack(const struct mha_problem *problem, const struct mha_call *call, enum mha_array first)
{
    size_t bytes[3], total = 0;
    for (int i = 0; i < 3; ++i) {
        const struct layer_array *array = &problem->arrays[(int)first + i];
        bytes[i] = (size_t)array->count * array->element_bytes;
        total += bytes[i];
    }
    char *packed = malloc(total), *to = packed;
    for (int i = 0; i < 3 && packed; ++i) {
        memcpy(to, call->places[(int)first + i].data, bytes[i]);
        to += bytes[i];
    }
    return packed;
}

static clattn_status run_packed(clattn_context *context, const clattn_mha_problem *given,
                                const clattn_mha_host_arrays *arrays, const struct mha_problem *problem,
                                const struct mha_call *call)
{
    clattn_mha_problem packed = problem->p;
    clattn_mha_host_arrays packed_arrays = *arrays;
    const int has_bias = (packed.parts & CLATTN_MHA_BIAS_QUERY) != 0;
    struct mha_problem checked;
    struct mha_call packed_call;
    void *weights = pack(problem, call, MHA_WQ), *biases = has_bias ? pack(problem, call, MHA_BQ) : NULL;
    clattn_status status = CLATTN_OK;
    packed.parts |= CLATTN_MHA_PACKED;
    packed.strategy = given->strategy;
    packed_arrays.wq = weights;
    packed_arrays.bq = biases;
    packed_arrays.wk = packed_arrays.wv = packed_arrays.bk = packed_arrays.bv = NULL;
    if (!weights || (has_bias && !biases)) {
        status = error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for packed weights");
    }
    if (status == CLATTN_OK) {
        status = mha_problem_init(&checked, &packed);
    }
    if (status == CLATTN_OK) {
        status = mha_call_from_host(&checked, &packed_arrays, &packed_call);
    }
    if (status == CLATTN_OK) {
        status = run_mha(context, &checked, &packed_call);
    }
    free(weights);
    free(biases);
    return status;
}

clattn_status host_mha(clattn_context *context, const clattn_mha_problem *given,
                       const clattn_mha_host_arrays *arrays)
{
    struct mha_problem problem;
    struct mha_call call;
    clattn_status status = mha_problem_init(&problem, given);
    if (status == CLATTN_OK) {
        status = mha_call_from_host(&problem, arrays, &call);
    }
    if (status != CLATTN_OK) {
        return status;
    }
    return can_be_packed(&problem) ? run_packed(context, given, arrays, &problem, &call)
                                   : run_mha(context, &problem, &call);
}

/* ---- additive --------------------------------------------------------------------------------- */

clattn_status host_additive(clattn_context *context, const struct additive_problem *problem,
                            const struct additive_call *given)
{
    struct clattn_additive *additive;
    struct additive_call call = *given;
    int64_t counts[ADDITIVE_ARRAYS];
    struct session session = { context, problem->arrays, counts, ADDITIVE_ARRAYS, call.places, NULL };
    for (int i = 0; i < ADDITIVE_ARRAYS; ++i) {
        counts[i] = additive_call_count(problem, &call, (enum additive_array)i);
    }
    clattn_status status = additive_create(context, problem, &additive);
    if (status != CLATTN_OK) {
        return status;
    }
    status = copy_in(&session, additive->workspace_bytes);
    if (status == CLATTN_OK) {
        call.workspace = session.workspace;
        status = additive_enqueue(additive, context->queue, &call, 0, NULL, NULL);
    }
    if (status == CLATTN_OK) {
        status = copy_out(&session);
    }
    release(&session);
    additive_destroy(additive);
    return status;
}
