/* Builds programs with a user's text, and finds out how wide it can be. */
#include "plan/code_programs.h"

#include <string.h>

#include "base/error.h"
#include "operation/problem.h"
#include "program/embedded_cl.h"

#define PROBE "probes/probe_user_code.cl"

/* As cl/user/code.clh has the bits. */
_Static_assert(CLATTN_CODE_SCORE == 1 && CLATTN_CODE_MASK == 2 && CLATTN_CODE_SCORE_SLOPE == 4, "as in cl/");

/* The digest tells texts of equal functions apart. Numbers without an f are float where nothing is double, so that they
 * go with vectors of float, and cost no more. */
static void append_code_options(const struct ask *ask, struct text *options)
{
    const struct user_code *code = ask->problem->code;
    text_append(options, " -D CODE=%u -D CODE_DIGEST=code_%s%s", code->p.functions, code->digest,
                attention_problem(ask->problem)->p.type == CLATTN_FLOAT64 ? "" : " -cl-single-precision-constant");
}

clattn_status code_kernel(struct ask *ask, const char *file, const char *options, const char *name,
                          struct kernel **kernel)
{
    struct text all = TEXT_INIT, names = TEXT_INIT, source = TEXT_INIT;
    clattn_status status;
    text_append(&all, "%s", options);
    append_code_options(ask, &all);
    user_code_append_names(ask->problem->code, &names);
    user_code_append_source(ask->problem->code, &source);
    if (all.failed || names.failed || source.failed) {
        status = error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for build options");
    } else {
        const struct clattn_embedded_file files[] = { { "user/names.clh", names.data, names.length },
                                                      { "user/text.clh", source.data, source.length } };
        const struct clattn_embedded_table texts = { files, 2 };
        const struct program_source of = { file, all.data, &texts };
        status = program_kernel_of(ask->context, &ask->uses, &of, name, kernel);
    }
    text_free(&all);
    text_free(&names);
    text_free(&source);
    return status;
}

static clattn_status probe(struct ask *ask, int width)
{
    struct text options = TEXT_INIT;
    struct kernel *kernel;
    text_append(&options, "-D TYPE=%d -D CODE_WIDTH=%d", (int)attention_problem(ask->problem)->p.type, width);
    const clattn_status status = options.failed
                                     ? error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for build options")
                                     : code_kernel(ask, PROBE, options.data, "probe_user_code", &kernel);
    text_free(&options);
    return status;
}

/* The last error is of the compiler: it begins with the first line of it that is about the text. */
static clattn_status quote_text(void)
{
    struct error_record record;
    error_save(&record);
    const char *first = strstr(record.text, "code.source:");
    if (!first) {
        return error_set(
            CLATTN_BUILD_FAILED,
            "code.source: its functions do not fit their calls; they must be NUMBER clattn_score(NUMBER s, "
            "INDEX b, INDEX h, INDEX i, INDEX j, USER), clattn_score_slope the same, and TRUTH "
            "clattn_mask(INDEX b, INDEX h, INDEX i, INDEX j, USER): %s",
            record.text);
    }
    memmove(record.text, first, strlen(first) + 1);
    error_restore(&record);
    return CLATTN_BUILD_FAILED;
}

clattn_status code_check(struct ask *ask)
{
    if (!ask->problem->code) {
        return CLATTN_OK;
    }
    const clattn_status status = probe(ask, 1);
    return status == CLATTN_BUILD_FAILED ? quote_text() : status;
}

void append_code_width(struct ask *ask, struct text *options)
{
    struct error_record before;
    if (!ask->problem->code) {
        return;
    }
    error_save(&before);
    const clattn_status status = probe(ask, 16);
    if (status == CLATTN_OK) {
        text_append(options, " -D CODE_WIDTH=16");
    } else {
        error_restore(&before);
    }
    if (status != CLATTN_OK && status != CLATTN_BUILD_FAILED && ask->failure == CLATTN_OK) {
        ask->failure = status; /* no answer */
    }
    if (ask->explain) {
        text_append(ask->explain,
                    status == CLATTN_OK
                        ? "  text: sixteen pairs at once\n"
                        : "  text: pair by pair, since it does not compile for sixteen at once: slower\n");
    }
}

void code_explain(const struct any_problem *problem, struct text *explain)
{
    const struct user_code *code = problem->code;
    if (code) {
        text_append(explain, "text: %s%s%s of the user's own, %d tensors, %d scalars, SHA-256 %.16s\n",
                    user_code_has(code, CLATTN_CODE_SCORE) ? "score" : "", (code->p.functions & 3) == 3 ? " and " : "",
                    user_code_has(code, CLATTN_CODE_MASK) ? "mask" : "", (int)code->p.tensor_count,
                    (int)code->p.scalar_count, code->digest);
    }
}
