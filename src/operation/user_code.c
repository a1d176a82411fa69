/* Copies and checks a user's code; its place in programs. */
#include "operation/user_code.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/growth.h"
#include "base/sha256.h"

GROWTH(clattn_user_code, "code", scalars, context, CLATTN_USER_CODE_INIT);

static const struct {
    const char *name;
    size_t bytes;
} elements[] = {
    [CLATTN_ELEMENT_FLOAT32] = { "FLOAT32", 4 },   [CLATTN_ELEMENT_FLOAT16] = { "FLOAT16", 2 },
    [CLATTN_ELEMENT_BFLOAT16] = { "BFLOAT16", 2 }, [CLATTN_ELEMENT_FLOAT64] = { "FLOAT64", 8 },
    [CLATTN_ELEMENT_INT32] = { "INT32", 4 },       [CLATTN_ELEMENT_UINT8] = { "UINT8", 1 },
};

static int is_element(clattn_element element)
{
    return (int)element > 0 && (size_t)element < sizeof(elements) / sizeof(elements[0]);
}

size_t clattn_element_size(clattn_element element)
{
    return is_element(element) ? elements[element].bytes : 0;
}

/* ---- rules ------------------------------------------------------------------------------------ */

static clattn_status check_functions(const clattn_user_code *p)
{
    const uint32_t known = CLATTN_CODE_SCORE | CLATTN_CODE_MASK | CLATTN_CODE_SCORE_SLOPE;
    if (p->functions & ~known || !(p->functions & (CLATTN_CODE_SCORE | CLATTN_CODE_MASK))) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "code.functions 0x%x: must be CLATTN_CODE_SCORE, CLATTN_CODE_MASK or both, and with a score "
                         "may have CLATTN_CODE_SCORE_SLOPE",
                         p->functions);
    }
    if (p->functions & CLATTN_CODE_SCORE_SLOPE && !(p->functions & CLATTN_CODE_SCORE)) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "code.functions 0x%x: CLATTN_CODE_SCORE_SLOPE needs CLATTN_CODE_SCORE", p->functions);
    }
    if ((p->score && !(p->functions & CLATTN_CODE_SCORE)) || (p->mask && !(p->functions & CLATTN_CODE_MASK)) ||
        (p->score_slope && !(p->functions & CLATTN_CODE_SCORE_SLOPE))) {
        return error_set(
            CLATTN_INVALID_ARGUMENT,
            "code.functions 0x%x: lacks the function of a callback that is set: score, mask or score_slope",
            p->functions);
    }
    return p->unused == 0 ? CLATTN_OK : error_set(CLATTN_INVALID_ARGUMENT, "code.unused %d: must be 0", (int)p->unused);
}

static clattn_status check_count(const char *field, int count, int most)
{
    return count >= 0 && count <= most
               ? CLATTN_OK
               : error_set(CLATTN_INVALID_ARGUMENT, "code.%s %d: must be 0 to %d", field, count, most);
}

/* A name that no earlier one is, in a list of which `count` are used. */
static clattn_status check_name(struct user_code *code, int number, const char *list, int at, int count,
                                const char *name)
{
    if (at >= count) {
        return name ? error_set(CLATTN_INVALID_ARGUMENT,
                                "code.%s[%d] \"%.64s\": is behind the last of %d, and would be "
                                "ignored",
                                list, at, name, count)
                    : CLATTN_OK;
    }
    const char *fault = name ? user_code_name_fault(name) : "must have a name";
    if (fault) {
        return error_set(CLATTN_INVALID_ARGUMENT, "code.%s[%d] \"%.64s\": %s", list, at, name ? name : "", fault);
    }
    for (int before = 0; before < number; ++before) {
        if (strcmp(code->names[before], name) == 0) {
            return error_set(CLATTN_INVALID_ARGUMENT, "code.%s[%d] \"%s\": another tensor or scalar has that name",
                             list, at, name);
        }
    }
    snprintf(code->names[number], CODE_NAME_BYTES, "%s", name);
    return CLATTN_OK;
}

static clattn_status check_tensor(const clattn_code_tensor *tensor, int at, clattn_type type)
{
    if (!is_element(tensor->element)) {
        return error_set(CLATTN_INVALID_ARGUMENT, "code.tensors[%d].element %d: is not a clattn_element", at,
                         (int)tensor->element);
    }
    if (tensor->element == CLATTN_ELEMENT_FLOAT64 && type != CLATTN_FLOAT64) {
        return error_set(CLATTN_INVALID_ARGUMENT, "code.tensors[%d].element float64: needs type float64, which is %s",
                         at, clattn_type_name(type));
    }
    if (tensor->elements < 1 || tensor->elements > INT32_MAX) {
        return error_set(CLATTN_INVALID_SHAPE, "code.tensors[%d].elements %" PRId64 ": must be 1 to %d", at,
                         tensor->elements, INT32_MAX);
    }
    return CLATTN_OK;
}

/* Names become copies of their own. */
static clattn_status check_lists(struct user_code *code, clattn_type type)
{
    clattn_user_code *p = &code->p;
    clattn_status status = check_count("tensor_count", p->tensor_count, CODE_TENSORS_MOST);
    if (status == CLATTN_OK) {
        status = check_count("scalar_count", p->scalar_count, CODE_SCALARS_MOST);
    }
    for (int i = 0; i < CODE_TENSORS_MOST && status == CLATTN_OK; ++i) {
        status = check_name(code, i, "tensors", i, p->tensor_count, p->tensors[i].name);
        if (status == CLATTN_OK && i < p->tensor_count) {
            status = check_tensor(&p->tensors[i], i, type);
            p->tensors[i].name = code->names[i];
        }
    }
    for (int i = 0; i < CODE_SCALARS_MOST && status == CLATTN_OK; ++i) {
        status = check_name(code, CODE_TENSORS_MOST + i, "scalars", i, p->scalar_count, p->scalars[i]);
        p->scalars[i] = i < p->scalar_count ? code->names[CODE_TENSORS_MOST + i] : NULL;
    }
    return status;
}

static clattn_status copy_source(struct user_code *code)
{
    const char *source = code->p.source;
    code->p.source = NULL;
    if (!source) {
        return error_set(CLATTN_INVALID_ARGUMENT, "code.source: must be a text in OpenCL C");
    }
    const char *end = memchr(source, 0, CODE_SOURCE_BYTES_MOST + 1);
    if (!end) {
        return error_set(CLATTN_INVALID_ARGUMENT, "code.source: has more than %d bytes", CODE_SOURCE_BYTES_MOST);
    }
    code->source = malloc((size_t)(end - source) + 1);
    if (!code->source) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for code.source");
    }
    memcpy(code->source, source, (size_t)(end - source) + 1);
    return user_code_check_text(code->source, code->p.functions);
}

/* ---- in programs ------------------------------------------------------------------------------ */

void user_code_append_names(const struct user_code *code, struct text *text)
{
    text_append(text, "#define CODE_TENSORS(T)");
    for (int i = 0; i < code->p.tensor_count; ++i) {
        text_append(text, " T(%d, %s, %s)", i, code->names[i], elements[code->p.tensors[i].element].name);
    }
    text_append(text, "\n#define CODE_SCALARS(S)");
    for (int i = 0; i < code->p.scalar_count; ++i) {
        text_append(text, " S(%d, %s)", i, code->names[CODE_TENSORS_MOST + i]);
    }
    text_append(text, "\n");
}

void user_code_append_source(const struct user_code *code, struct text *text)
{
    text_append(text, "#line 1 \"code.source\"\n");
    text_append_bytes(text, code->source, strlen(code->source));
    text_append(text, "\n");
}

static clattn_status digest(struct user_code *code)
{
    struct text text = TEXT_INIT;
    unsigned char sum[SHA256_BYTES];
    struct sha256 sha256;
    user_code_append_names(code, &text);
    user_code_append_source(code, &text);
    if (text.failed) {
        text_free(&text);
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for code.source");
    }
    sha256_begin(&sha256);
    sha256_add(&sha256, text.data, text.length);
    sha256_end(&sha256, sum);
    for (size_t i = 0; i < CODE_DIGEST_BYTES / 2; ++i) {
        snprintf(code->digest + 2 * i, 3, "%02x", sum[i]);
    }
    text_free(&text);
    return CLATTN_OK;
}

/* ---- its life --------------------------------------------------------------------------------- */

clattn_status user_code_new(const clattn_user_code *given, clattn_type type, struct user_code **result)
{
    struct user_code *code = calloc(1, sizeof(*code));
    if (!code) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a problem's code");
    }
    atomic_init(&code->owners, 1);
    clattn_status status = growth_copy(GROWTH_OF(clattn_user_code), given, &code->p);
    if (status == CLATTN_OK) {
        status = check_functions(&code->p);
    }
    if (status == CLATTN_OK) {
        status = copy_source(code);
    }
    if (status == CLATTN_OK) {
        status = check_lists(code, type);
    }
    if (status == CLATTN_OK) {
        status = digest(code);
    }
    if (status != CLATTN_OK) {
        user_code_free(code);
        return status;
    }
    *result = code;
    return CLATTN_OK;
}

struct user_code *user_code_keep(struct user_code *code)
{
    if (code) {
        atomic_fetch_add(&code->owners, 1);
    }
    return code;
}

void user_code_free(struct user_code *code)
{
    if (code && atomic_fetch_sub(&code->owners, 1) == 1) {
        free(code->source);
        free(code);
    }
}

int user_code_equal(const struct user_code *a, const struct user_code *b)
{
    if (a == b) {
        return 1;
    }
    if (!a || !b || strcmp(a->digest, b->digest) != 0 || a->p.functions != b->p.functions || a->p.score != b->p.score ||
        a->p.mask != b->p.mask || a->p.score_slope != b->p.score_slope || a->p.context != b->p.context) {
        return 0;
    }
    for (int i = 0; i < a->p.tensor_count; ++i) {
        if (a->p.tensors[i].elements != b->p.tensors[i].elements) {
            return 0;
        }
    }
    return 1;
}
