#include "gradients.h"

#include <string.h>

#include "attention_extras.h"
#include "problem_options.h"

#define AT(gradient, tensor) offsetof(clattn_host_gradients, gradient), offsetof(clattn_host_tensors, tensor)
#define GRADIENT(id, word, field, ...) { word, CLATTN_GRADIENT_##id, ROLE_D##id, ROLE_##id, AT(d##field, field) },
#define OF_NUMBER(id, word, field, ...) { word, CLATTN_GRADIENT_##id, ROLE_D##id, ROLES, AT(d##field, query) },
const struct gradient_kind gradient_kinds[GRADIENT_KINDS] = { GRADIENT_ROLES(GRADIENT, OF_NUMBER) };
#undef AT
#undef GRADIENT
#undef OF_NUMBER

/* ---- which ---- */

static const struct gradient_kind *kind_of(const char *word, size_t length)
{
    for (int i = 0; i < GRADIENT_KINDS; i++) {
        if (strlen(gradient_kinds[i].word) == length && memcmp(gradient_kinds[i].word, word, length) == 0) {
            return &gradient_kinds[i];
        }
    }
    return NULL;
}

static int has_source(const struct inputs *inputs, const struct gradient_kind *kind)
{
    return kind->of == ROLES || inputs->tensor[kind->of].data != NULL;
}

/* --of, or queries, keys, values and what is there of bias, slopes and sinks. */
static int choose(const struct options *options, const struct inputs *inputs, uint32_t *chosen, struct failure *failure)
{
    const char *list = options->value[OPTION_GRADIENTS];
    for (int i = 0; i < GRADIENT_KINDS && !list; i++) {
        const struct gradient_kind *kind = &gradient_kinds[i];
        *chosen |= kind->of != ROLES && has_source(inputs, kind) ? (uint32_t)kind->bit : 0;
    }
    for (const char *word = list; word;) {
        const size_t length = strcspn(word, ",");
        const struct gradient_kind *kind = kind_of(word, length);
        if (!kind) {
            return failure_misuse(failure, "--of %s: must be a list of %s", list, GRADIENT_WORDS);
        }
        if (*chosen & (uint32_t)kind->bit) {
            return failure_misuse(failure, "--of %s: %s is there twice", list, kind->word);
        }
        if (!has_source(inputs, kind)) {
            return failure_misuse(failure, "--of %s: the input has no %s; leave %s out", list, role_name(kind->of),
                                  kind->word);
        }
        *chosen |= (uint32_t)kind->bit;
        word = word[length] ? word + length + 1 : NULL;
    }
    return 0;
}

static int check_type(const struct options *options, const clattn_backward_problem *b, struct failure *failure)
{
    const char *type = options->value[OPTION_GRADIENT_TYPE];
    if (type && (b->gradient_type != CLATTN_FLOAT32 || b->forward->type == CLATTN_FLOAT64)) {
        return failure_misuse(failure, "--gradient-dtype %s: must be f32, and of inputs that are not f64", type);
    }
    return 0;
}

/* ---- inputs ---- */

static int must_have_shape(const struct tensor *tensor, const struct tensor *like, const char *name,
                           const char *like_name, struct failure *failure)
{
    char text[TENSOR_SHAPE_TEXT], wanted[TENSOR_SHAPE_TEXT];
    if (tensor->dims == like->dims &&
        memcmp(tensor->shape, like->shape, (size_t)like->dims * sizeof like->shape[0]) == 0) {
        return 0;
    }
    return failure_misuse(failure, "%s %s: must have the shape of %s, %s", name, tensor_shape_text(tensor, text),
                          like_name, tensor_shape_text(like, wanted));
}

/* A float tensor of the shape of `like` becomes of its type. */
static int convert_like(const struct options *options, struct inputs *inputs, enum role role, const struct tensor *like,
                        const char *like_name, struct failure *failure)
{
    struct tensor *tensor = &inputs->tensor[role];
    const char *name = role_name(role);
    const int is_lse = like->type == TENSOR_FLOAT32 && role != ROLE_DOUT && role != ROLE_OUT;
    if (!tensor_is_float(tensor->type) || (!is_lse && tensor->type != like->type && !options->value[OPTION_DTYPE])) {
        return failure_misuse(failure, "%s %s: must be %s; convert with --dtype", name, tensor_type_name(tensor->type),
                              is_lse ? "a float type" : tensor_type_name(like->type));
    }
    return must_have_shape(tensor, like, name, like_name, failure) != 0
               ? -1
               : tensor_convert(tensor, like->type, name, failure);
}

static int take_forward(const struct options *options, struct inputs *inputs, struct attention *attention,
                        struct gradients *gradients, struct failure *failure)
{
    const enum option_id out[] = { OPTION_FORWARD_OUT, OPTION_NONE }, lse[] = { OPTION_FORWARD_LSE, OPTION_NONE };
    if (option_needs(options, OPTION_FORWARD_OUT, lse, failure) != 0 ||
        option_needs(options, OPTION_FORWARD_LSE, out, failure) != 0) {
        return -1;
    }
    if (!inputs->tensor[ROLE_OUT].data || !inputs->tensor[ROLE_LSE].data) {
        return 0;
    }
    if (convert_like(options, inputs, ROLE_OUT, &attention->out, "this forward pass's", failure) != 0 ||
        convert_like(options, inputs, ROLE_LSE, &attention->lse, "this forward pass's", failure) != 0) {
        return -1;
    }
    memcpy(attention->out.data, inputs->tensor[ROLE_OUT].data, tensor_bytes(&attention->out));
    memcpy(attention->lse.data, inputs->tensor[ROLE_LSE].data, tensor_bytes(&attention->lse));
    gradients->forward_is_given = 1;
    return 0;
}

static int place_inputs(const struct options *options, struct inputs *inputs, struct attention *attention,
                        struct gradients *gradients, struct failure *failure)
{
    struct tensor *dout = &inputs->tensor[ROLE_DOUT], *dlse = &inputs->tensor[ROLE_DLSE];
    if (!dout->data) {
        return failure_misuse(failure,
                              options->operand
                                  ? "INPUT %s: has no tensor dout; or name a file by --dout"
                                  : "--dout: is missing; give the file of a loss's derivative at the output%s",
                              options->operand ? options->operand : "");
    }
    if (convert_like(options, inputs, ROLE_DOUT, &attention->out, "out", failure) != 0) {
        return -1;
    }
    gradients->host.dout = attention->host.out;
    gradients->host.dout.data = dout->data;
    if (dlse->data) {
        if (convert_like(options, inputs, ROLE_DLSE, &attention->lse, "lse", failure) != 0) {
            return -1;
        }
        gradients->problem.features |= CLATTN_WITH_DLSE;
        gradients->host.dlse = attention->host.lse;
        gradients->host.dlse.data = dlse->data;
    }
    return 0;
}

/* ---- outputs ---- */

static enum tensor_type type_of(const clattn_backward_problem *b, const struct gradient_kind *kind,
                                const struct inputs *inputs)
{
    const uint32_t sums = CLATTN_GRADIENT_SLOPES | CLATTN_GRADIENT_SINKS | CLATTN_GRADIENT_SCALE;
    if ((uint32_t)kind->bit & sums) {
        return b->forward->type == CLATTN_FLOAT64 ? TENSOR_FLOAT64 : TENSOR_FLOAT32;
    }
    return b->gradient_type == CLATTN_FLOAT32 ? TENSOR_FLOAT32 : inputs->tensor[kind->of].type;
}

/* Each where what it is the gradient of is, with its strides: where those are 0, the sum. */
static int make_outputs(const struct inputs *inputs, const struct attention *attention, struct gradients *gradients,
                        struct failure *failure)
{
    const int64_t one = 1;
    for (int i = 0; i < GRADIENT_KINDS; i++) {
        const struct gradient_kind *kind = &gradient_kinds[i];
        clattn_host_tensor *host = (void *)((char *)&gradients->host + kind->host_at);
        const clattn_host_tensor *of = (const void *)((const char *)&attention->host + kind->forward_at);
        struct tensor *tensor = &gradients->tensor[i];
        if (!(gradients->problem.gradients & (uint32_t)kind->bit)) {
            continue;
        }
        const struct tensor *like = kind->of == ROLES ? NULL : &inputs->tensor[kind->of];
        if (tensor_create(tensor, type_of(&gradients->problem, kind, inputs), like ? like->dims : 1,
                          like ? like->shape : &one, role_name(kind->role), failure) != 0) {
            return -1;
        }
        host->data = tensor->data;
        if (like) {
            memcpy(host->stride, of->stride, sizeof host->stride);
        }
    }
    return 0;
}

int gradients_prepare(const struct options *options, struct inputs *inputs, struct attention *attention,
                      struct gradients *gradients, struct failure *failure)
{
    const clattn_backward_problem problem = CLATTN_BACKWARD_PROBLEM_INIT;
    const clattn_host_gradients host = CLATTN_HOST_GRADIENTS_INIT;
    memset(gradients, 0, sizeof *gradients);
    gradients->problem = problem;
    gradients->problem.forward = &attention->problem;
    gradients->problem.strategy = attention->problem.strategy;
    attention->problem.strategy = NULL;
    gradients->host = host;
    if (choose(options, inputs, &gradients->problem.gradients, failure) != 0 ||
        problem_type_read(options, OPTION_GRADIENT_TYPE, &gradients->problem.gradient_type, failure) != 0 ||
        check_type(options, &gradients->problem, failure) != 0 ||
        take_forward(options, inputs, attention, gradients, failure) != 0 ||
        place_inputs(options, inputs, attention, gradients, failure) != 0) {
        return -1;
    }
    return make_outputs(inputs, attention, gradients, failure);
}

void gradients_free(struct gradients *gradients)
{
    for (int i = 0; i < GRADIENT_KINDS; i++) {
        tensor_free(&gradients->tensor[i]);
    }
}
