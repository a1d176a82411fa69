/* Texts of a user's own with their twins in C, for tests: each formula that people write, in OpenCL C and in double. */
#ifndef CLATTN_TESTS_SUPPORT_USER_CODES_H
#define CLATTN_TESTS_SUPPORT_USER_CODES_H

#include "clattn_code.h"
#include "test_call.h"

struct test_code {
    const char *name;
    clattn_user_code code;
    float scalars[8];
    double low, high; /* of its tensors' elements */
};

/* By its name; "any": one of all, four times each as `index` grows, which random calls have another type at; "grammar":
 * number `index` of grammar_texts.h. NULL for NULL. */
const struct test_code *test_code_of(const char *name, uint64_t index);

/* -1: there is none of the name, and it is said. */
int test_code_known(const char *name);

/* Number n of the table; NULL: there are no more. */
const struct test_code *test_code_at(size_t n);

/* What a problem has. */
static inline const clattn_user_code *test_code_problem(const struct test_code *code)
{
    return &code->code;
}

/* Places and fills what a call has of it. */
void test_code_fill(const struct test_code *code, struct test_call *test);

#endif
