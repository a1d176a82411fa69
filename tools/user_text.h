/* A score and a mask of the user's own (clattn_code.h) as options give them: --score FILE, --score-text, --mask-text
 * and --slope-text make one text; what it loads are tensors and numbers of INPUT and of --inputs, by the names that
 * LOAD and SCALAR have. */
#ifndef CLATTN_TOOLS_USER_TEXT_H
#define CLATTN_TOOLS_USER_TEXT_H

#include "clattn_code.h"
#include "failure.h"
#include "options.h"
#include "tensor.h"

#define USER_TEXT_PARTS 4
#define USER_TEXT_MOST 8 /* tensors of a text, and scalars */
#define USER_TEXT_NAME_BYTES 32

/* Where an option's text stands in the whole. */
struct user_text_part {
    enum option_id option;
    int first_line, columns_before; /* columns: of its first line */
};

/* What the text loads. */
struct user_text_input {
    char name[USER_TEXT_NAME_BYTES];
    struct tensor tensor; /* data NULL: not given so far */
};

struct user_text {
    const struct options *options;
    char *source; /* NULL: there is no text */
    struct user_text_part part[USER_TEXT_PARTS];
    int parts;
    struct user_text_input load[USER_TEXT_MOST], scalar[USER_TEXT_MOST];
    float scalars[USER_TEXT_MOST]; /* these, and code: of user_text_complete */
    clattn_user_code code;
};

/* The text and what --inputs has; all zero before. The caller ends with user_text_free, after failures too. */
int user_text_read(const struct options *options, struct user_text *text, struct failure *failure);
void user_text_free(struct user_text *text);

/* Where INPUT's tensor of the name goes; NULL: the text does not load it, or --inputs has given it, which is told. */
int user_text_slot(struct user_text *text, const char *name, struct tensor **slot, struct failure *failure);

/* clattn_code_function, or-ed: those that a text names outside of comments. */
uint32_t user_text_functions(const char *source);

/* Everything that the text loads must be there now; converted to what the problem's type allows, it becomes the
 * problem's code, or of a problem more. Nothing where there is no text. */
int user_text_complete(struct user_text *text, clattn_problem *problem, struct failure *failure);

/* Places the tensors and scalars of a complete text in a call. */
void user_text_place(const struct user_text *text, clattn_call *call, clattn_host_tensors *host);

/* A failure of the library that quotes "code.source:LINE:COLUMN" quotes the option and its line and column instead. */
int user_text_quote(const struct user_text *text, struct failure *failure);

#endif
