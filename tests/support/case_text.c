#include "case_text.h"

#include <stdio.h>
#include <string.h>

#include "../../tools/npy.h"
#include "case_formulas.h"
#include "case_meta.h"

#define PATH_BYTES 4096
#define FORMULA_TAG "formula_"

/* Inputs of which a formula says what they mean. */
static const struct {
    const char *formula, *input[2];
} of_inputs[] = {
    { "intervals", { "row_intervals", NULL } },
    { "factored", { "rel_h", "rel_w" } },
};
static const char *const no_inputs[] = { NULL };
#define INPUTS_MOST 2

/* The formula's name stands in a tag. */
static const char *formula_name(const struct attention_case *c)
{
    const cJSON *tag;
    cJSON_ArrayForEach(tag, meta_field(c->meta, NULL, "tags"))
    {
        if (strncmp(meta_text(tag), FORMULA_TAG, strlen(FORMULA_TAG)) == 0) {
            return meta_text(tag) + strlen(FORMULA_TAG);
        }
    }
    return "";
}

static int add_scalar(struct attention_case *c, const char *name, double value, struct failure *failure)
{
    struct case_text *text = &c->text;
    const int n = text->code.scalar_count;
    if (n == CASE_CODE_MOST) {
        return failure_misuse(failure, "user.scalars %s: is one too many", name);
    }
    snprintf(text->scalar_names[n], sizeof(text->scalar_names[n]), "%s", name);
    text->code.scalars[n] = text->scalar_names[n];
    c->values.code_scalars[n] = (float)value;
    text->code.scalar_count = n + 1;
    return 0;
}

/* A table, and the extents of its axes but the first one as scalars. */
static int add_table(const char *folder, const char *name, struct attention_case *c, struct failure *failure)
{
    struct case_text *text = &c->text;
    const int n = text->code.tensor_count;
    const char *file = meta_text(meta_field(meta_field(c->meta, "inputs", name), NULL, "file"));
    struct tensor *table = &text->table[n];
    char path[PATH_BYTES], axis_name[CASE_NAME_BYTES];
    if (n == CASE_CODE_MOST) {
        return failure_misuse(failure, "user.tables %s: is one too many", name);
    }
    snprintf(path, sizeof(path), "%s/%s", folder, file);
    if (npy_read(path, table, failure) != 0) {
        return -1;
    }
    text->code.tensor_count = n + 1;
    if (table->type != TENSOR_INT32 && tensor_convert(table, TENSOR_FLOAT32, name, failure) != 0) {
        return -1;
    }
    text->code.tensors[n].name = name;
    text->code.tensors[n].element = table->type == TENSOR_INT32 ? CLATTN_ELEMENT_INT32 : CLATTN_ELEMENT_FLOAT32;
    text->code.tensors[n].elements = tensor_count(table);
    c->tensors.code_tensors[n].data = table->data;
    c->tensors.code_tensors[n].stride[3] = 1;
    for (int axis = 1; axis < table->dims; ++axis) {
        snprintf(axis_name, sizeof(axis_name), "%s_%d", name, axis);
        if (add_scalar(c, axis_name, (double)table->shape[axis], failure) != 0) {
            return -1;
        }
    }
    return 0;
}

int case_text_read(const char *folder, struct attention_case *c, struct failure *failure)
{
    const cJSON *item, *user = meta_field(c->meta, NULL, "user");
    const char *formula = user ? formula_name(c) : NULL, *const *inputs = no_inputs;
    int status = 0;
    for (size_t n = 0; n < sizeof(of_inputs) / sizeof(of_inputs[0]); ++n) {
        if (meta_field(c->meta, "inputs", of_inputs[n].input[0])) {
            formula = of_inputs[n].formula;
            inputs = of_inputs[n].input;
        }
    }
    if (!formula) {
        return 0;
    }
    clattn_user_code_init(&c->text.code, sizeof(c->text.code));
    if (case_formula_find(formula, &c->text.code) != 0) {
        return failure_misuse(failure, "tag formula_%s: tests/support/case_formulas.c has no such formula", formula);
    }
    cJSON_ArrayForEach(item, meta_field(user, NULL, "scalars"))
    {
        status = status ? status : add_scalar(c, item->string, meta_number(item, 0), failure);
    }
    cJSON_ArrayForEach(item, meta_field(user, NULL, "tables"))
    {
        status = status ? status : add_table(folder, meta_text(item), c, failure);
    }
    for (int n = 0; n < INPUTS_MOST && inputs[n] && status == 0; ++n) {
        status = add_table(folder, inputs[n], c, failure);
    }
    c->problem.code = &c->text.code;
    return status;
}
