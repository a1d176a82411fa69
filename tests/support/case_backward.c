/* dout and dlse from their files; gradients in the places of what they are the gradients of. */
#include "case_backward.h"

#include <stdio.h>
#include <string.h>

#include "../../tools/npy.h"
#include "case_layout.h"
#include "operation/backward.h"
#include "plan/strategy.h"

#define PATH_BYTES 4096

static const struct {
    const char *name;
    clattn_gradient gradient;
    enum case_input of;
} gradient_table[CASE_GRADIENTS] = {
#define GRADIENT(id, file, gradient, of, field) [CASE_##id] = { file, CLATTN_GRADIENT_##gradient, CASE_##of },
    CASE_GRADIENT_LIST(GRADIENT)
#undef GRADIENT
};

static const cJSON *entry(const struct attention_case *c, const char *group, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(c->meta, group), name);
}

int backward_case_is(const struct attention_case *c)
{
    return entry(c, "inputs", "dout") != NULL;
}

static int read_input(const char *folder, const struct attention_case *c, const char *name, enum tensor_type type,
                      struct tensor *tensor, struct failure *failure)
{
    char path[PATH_BYTES];
    const cJSON *file = cJSON_GetObjectItemCaseSensitive(entry(c, "inputs", name), "file");
    if (!cJSON_IsString(file)) {
        return 0;
    }
    snprintf(path, sizeof(path), "%s/%s", folder, file->valuestring);
    return npy_read(path, tensor, failure) == 0 ? tensor_convert(tensor, type, name, failure) : -1;
}

/* Where gradients lie as what they are the gradients of does; absent ones have no data. */
static void place_gradients(const struct attention_case *c, struct backward_case *b)
{
    const struct {
        clattn_host_tensor *place;
        const clattn_host_tensor *of;
    } places[CASE_GRADIENTS] = {
#define GRADIENT(id, file, gradient, of, field) [CASE_##id] = { &b->gradients.d##field, &c->tensors.field },
        CASE_GRADIENT_LIST(GRADIENT)
#undef GRADIENT
    };
    for (int g = 0; g < CASE_GRADIENTS; ++g) {
        *places[g].place = *places[g].of;
        places[g].place->data = b->gradient[g].data;
    }
    b->gradients.dout = c->tensors.out;
    b->gradients.dout.data = b->dout.data;
    b->gradients.dlse = c->tensors.lse;
    b->gradients.dlse.data = b->dlse.data;
}

int backward_case_read(const char *folder, const struct attention_case *c, struct backward_case *b,
                       struct failure *failure)
{
    const clattn_backward_problem problem = CLATTN_BACKWARD_PROBLEM_INIT;
    const clattn_host_gradients none = CLATTN_HOST_GRADIENTS_INIT;
    memset(b, 0, sizeof(*b));
    b->problem = problem;
    b->gradients = none;
    b->problem.forward = &c->problem;
    b->problem.gradient_type = CLATTN_FLOAT32;
    int status = read_input(folder, c, "dout", c->out.type, &b->dout, failure);
    if (status == 0) {
        status = read_input(folder, c, "dlse", TENSOR_FLOAT32, &b->dlse, failure);
    }
    for (int g = 0; g < CASE_GRADIENTS && status == 0; ++g) {
        const struct tensor *of = &c->input[gradient_table[g].of];
        if (entry(c, "outputs", gradient_table[g].name)) {
            b->problem.gradients |= (uint32_t)gradient_table[g].gradient;
            status =
                tensor_create(&b->gradient[g], TENSOR_FLOAT32, of->dims, of->shape, gradient_table[g].name, failure);
        }
    }
    if (status != 0) {
        backward_case_free(b);
        return -1;
    }
    b->problem.features = b->dlse.data ? CLATTN_WITH_DLSE : 0;
    place_gradients(c, b);
    return 0;
}

void backward_case_free(struct backward_case *b)
{
    tensor_free(&b->dout);
    tensor_free(&b->dlse);
    for (int g = 0; g < CASE_GRADIENTS; ++g) {
        tensor_free(&b->gradient[g]);
    }
}

static int write_gradients(const struct attention_case *c, const struct backward_case *b, const char *folder,
                           struct failure *failure)
{
    for (int g = 0; g < CASE_GRADIENTS; ++g) {
        char path[PATH_BYTES];
        snprintf(path, sizeof(path), "%s/%s.npy", folder, gradient_table[g].name);
        if (entry(c, "outputs", gradient_table[g].name) && npy_write(path, &b->gradient[g], failure) != 0) {
            return -1;
        }
    }
    return 0;
}

/* Strategies of attention need not have gradients. */
static int has_gradients(const char *strategy)
{
    int found = strategy == NULL;
    for (size_t i = 0; i < strategy_count; ++i) {
        found |= strategy_table[i]->operation == &operation_backward && strategy &&
                 strcmp(strategy_table[i]->name, strategy) == 0;
    }
    return found;
}

static clattn_status backward(clattn_context *context, const struct backward_case *b, const struct attention_case *c)
{
    return context ? clattn_backward_host(context, &b->problem, &c->values, &c->tensors, &b->gradients)
                   : clattn_reference_backward(&b->problem, &c->values, &c->tensors, &b->gradients);
}

int backward_case_solve(clattn_context *context, const char *from, const char *to, const struct attention_case *c,
                        struct failure *failure)
{
    struct backward_case b;
    if (context && !has_gradients(c->problem.strategy)) {
        return 0;
    }
    if (backward_case_read(from, c, &b, failure) != 0) {
        return -1;
    }
    b.problem.strategy = c->problem.strategy;
    clattn_status status = backward(context, &b, c);
    if (status == CLATTN_OK && case_values_in_keys(c)) { /* what values add to the gradient of keys */
        b.problem.gradients = b.problem.accumulate = CLATTN_GRADIENT_VALUE;
        b.gradients.dvalue = b.gradients.dkey;
        b.gradients.dquery.data = b.gradients.dkey.data = NULL;
        status = backward(context, &b, c);
    }
    int result = 0;
    if (status == CLATTN_OK) {
        result = write_gradients(c, &b, to, failure);
    } else if (status != CLATTN_UNSUPPORTED || !c->problem.strategy) {
        result = failure_failed(failure, "%s: %s", clattn_status_name(status), clattn_last_error());
    }
    backward_case_free(&b);
    return result;
}
