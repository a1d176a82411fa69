/* What a text loads, on its way from files into a problem and a call; what its compiler says, on its way to the
 * user. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention_extras.h"
#include "insides.h"
#include "user_text.h"

#define SOURCE_NAME "code.source:"

/* ---- inputs ---- */

int user_text_slot(struct user_text *text, const char *name, struct tensor **slot, struct failure *failure)
{
    *slot = NULL;
    for (int i = 0; i < 2 * USER_TEXT_MOST; i++) {
        struct user_text_input *input = i < USER_TEXT_MOST ? &text->load[i] : &text->scalar[i - USER_TEXT_MOST];
        if (*name && strcmp(input->name, name) == 0) {
            *slot = &input->tensor;
        }
    }
    return *slot && (*slot)->data ? failure_misuse(failure,
                                                   "--inputs %s: INPUT has a tensor of that name already; "
                                                   "take one away",
                                                   name)
                                  : 0;
}

/* To a type that LOAD knows. */
static int convert(struct tensor *tensor, const char *name, clattn_type type, clattn_element *element,
                   struct failure *failure)
{
    static const struct {
        enum tensor_type is;
        clattn_element element;
    } known[] = { { TENSOR_FLOAT32, CLATTN_ELEMENT_FLOAT32 },   { TENSOR_FLOAT16, CLATTN_ELEMENT_FLOAT16 },
                  { TENSOR_BFLOAT16, CLATTN_ELEMENT_BFLOAT16 }, { TENSOR_FLOAT64, CLATTN_ELEMENT_FLOAT64 },
                  { TENSOR_INT32, CLATTN_ELEMENT_INT32 },       { TENSOR_UINT8, CLATTN_ELEMENT_UINT8 },
                  { TENSOR_BOOL, CLATTN_ELEMENT_UINT8 } };
    int status = 0;
    if (tensor->type == TENSOR_INT64) {
        status = attention_convert_integers(tensor, name, INT32_MIN, INT32_MAX, failure);
    } else if (tensor->type == TENSOR_FLOAT64 && type != CLATTN_FLOAT64) {
        status = tensor_convert(tensor, TENSOR_FLOAT32, name, failure);
    }
    for (size_t i = 0; i < sizeof known / sizeof *known && status == 0; i++) {
        if (known[i].is == tensor->type) {
            *element = known[i].element;
            return 0;
        }
    }
    return status != 0 ? -1
                       : failure_misuse(failure, "%s %s: must be a float type, int32, int64, uint8 or bool", name,
                                        tensor_type_name(tensor->type));
}

static int complete_tensors(struct user_text *text, clattn_type type, struct failure *failure)
{
    for (int i = 0; i < USER_TEXT_MOST && text->load[i].name[0]; i++) {
        struct user_text_input *load = &text->load[i];
        clattn_code_tensor *tensor = &text->code.tensors[text->code.tensor_count++];
        if (!load->tensor.data) {
            return failure_misuse(failure, "LOAD(%s, ..): there is no tensor %s; give --inputs %s=FILE.npy", load->name,
                                  load->name, load->name);
        }
        if (convert(&load->tensor, load->name, type, &tensor->element, failure) != 0) {
            return -1;
        }
        tensor->name = load->name;
        tensor->elements = tensor_count(&load->tensor);
    }
    return 0;
}

static int complete_scalars(struct user_text *text, struct failure *failure)
{
    for (int i = 0; i < USER_TEXT_MOST && text->scalar[i].name[0]; i++) {
        const struct user_text_input *scalar = &text->scalar[i];
        if (!scalar->tensor.data || tensor_count(&scalar->tensor) != 1) {
            return failure_misuse(failure, "SCALAR(%s): there is no %s of one element; give --inputs %s=NUMBER",
                                  scalar->name, scalar->name, scalar->name);
        }
        const double value = tensor_load(&scalar->tensor, 0);
        if (!isfinite(value)) {
            return failure_misuse(failure, "SCALAR(%s) %g: must be a finite number", scalar->name, value);
        }
        text->code.scalars[text->code.scalar_count++] = scalar->name;
        text->scalars[i] = (float)value;
    }
    return 0;
}

int user_text_complete(struct user_text *text, clattn_problem *problem, struct failure *failure)
{
    if (!text->source) {
        return 0;
    }
    clattn_user_code_init(&text->code, sizeof text->code); /* counts begin at 0 */
    text->code.source = text->source;
    text->code.functions = user_text_functions(text->source);
    problem->code = &text->code;
    return complete_tensors(text, problem->type, failure) != 0 ? -1 : complete_scalars(text, failure);
}

void user_text_place(const struct user_text *text, clattn_call *call, clattn_host_tensors *host)
{
    memcpy(call->code_scalars, text->scalars, sizeof text->scalars);
    for (int i = 0; i < text->code.tensor_count; i++) {
        host->code_tensors[i].data = text->load[i].tensor.data;
        host->code_tensors[i].stride[3] = 1;
    }
}

/* ---- what the compiler says ---- */

/* The part that has line `line` of the whole text. */
static const struct user_text_part *part_of(const struct user_text *text, int line)
{
    const struct user_text_part *found = &text->part[0];
    for (int i = 1; i < text->parts; i++) {
        if (text->part[i].first_line <= line) {
            found = &text->part[i];
        }
    }
    return found;
}

/* "OPTION:LINE" of a line, ":COLUMN" where `at` goes on with one; where `at` is then. */
static const char *append_place(const struct user_text *text, struct text *result, const char *at)
{
    char *end;
    const int line = (int)strtol(at, &end, 10);
    const struct user_text_part *part = part_of(text, line);
    const int of_part = line - part->first_line + 1;
    const char *value = part->option == OPTION_SCORE ? text->options->value[OPTION_SCORE] : "";
    text_append(result, "--%s%s%s:%d", option_name(part->option), *value ? " " : "", value, of_part);
    if (end[0] == ':' && end[1] >= '0' && end[1] <= '9') {
        const int column = (int)strtol(end + 1, &end, 10);
        text_append(result, ":%d", column - (of_part == 1 && column > part->columns_before ? part->columns_before : 0));
    }
    return end;
}

int user_text_quote(const struct user_text *text, struct failure *failure)
{
    const struct failure of_library = *failure;
    const char *at = of_library.text;
    struct text result = TEXT_INIT;
    for (const char *next; text->source && (next = strstr(at, SOURCE_NAME)) != NULL;) {
        const char *line = next + strlen(SOURCE_NAME);
        text_append_bytes(&result, at, (size_t)(next - at));
        line += strncmp(line, " line ", 6) == 0 ? 6 : 0;
        at = *line >= '0' && *line <= '9' ? append_place(text, &result, line) : line;
        if (at == line) {
            text_append(&result, "%s", SOURCE_NAME);
        }
    }
    text_append(&result, "%s", at);
    if (!result.failed) {
        failure_of_library(failure, text->source ? EXIT_MISUSE : of_library.status, result.data);
    }
    text_free(&result);
    return -1;
}
