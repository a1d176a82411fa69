/* A checked text of the user's own, clattn_code.h's clattn_user_code: immutable, and shared by the problems and plans
 * that have it. The rules on its fields are in user_code.c, those on its text in user_code_text.c. */
#ifndef CLATTN_SRC_USER_CODE_H
#define CLATTN_SRC_USER_CODE_H

#include <stdatomic.h>

#include "base/text.h"
#include "clattn_code.h"

#define CODE_TENSORS_MOST 8
#define CODE_SCALARS_MOST 8
#define CODE_NAME_BYTES 32
#define CODE_SOURCE_BYTES_MOST 65536
#define CODE_DIGEST_BYTES 33 /* hexadecimal digits of half a SHA-256, and the 0 */

struct user_code {
    atomic_int owners;
    clattn_user_code p; /* names point into this struct; source is NULL: `source` has it */
    char *source;
    char names[CODE_TENSORS_MOST + CODE_SCALARS_MOST][CODE_NAME_BYTES];
    char digest[CODE_DIGEST_BYTES]; /* of all that a program is made of: not of counts of elements, nor callbacks */
};

/* A checked copy, with one owner; `type` is the problem's. */
clattn_status user_code_new(const clattn_user_code *given, clattn_type type, struct user_code **code);

/* One owner more, or less; NULL is none. */
struct user_code *user_code_keep(struct user_code *code);
void user_code_free(struct user_code *code);

/* Whether problems that have them may have the same plan. */
int user_code_equal(const struct user_code *a, const struct user_code *b);

static inline int user_code_has(const struct user_code *code, uint32_t functions)
{
    return code && (code->p.functions & functions) != 0;
}

/* Rules on the text alone: `functions` are those that it is said to have. */
clattn_status user_code_check_text(const char *source, uint32_t functions);

/* What is wrong with a name in OpenCL C that LOAD or SCALAR is to take; NULL: nothing. */
const char *user_code_name_fault(const char *name);

/* The lists of names that cl/user/code.clh makes tensors and scalars of, and the text behind its #line. */
void user_code_append_names(const struct user_code *code, struct text *text);
void user_code_append_source(const struct user_code *code, struct text *text);

#endif
