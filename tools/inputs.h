/* The tensors that `clattn run` works on, by their roles, from a .safetensors file or from .npy
 * files that options name. Shapes are looked at in layout.c and attention.c, not here. */
#ifndef CLATTN_TOOLS_INPUTS_H
#define CLATTN_TOOLS_INPUTS_H

#include "failure.h"
#include "options.h"
#include "role_list.h"
#include "tensor.h"
#include "user_text.h"

enum role {
#define ROLE(id, name, option, ...) ROLE_##id,
#define GRADIENT(id, word, field, ...) ROLE_D##id,
    FORWARD_ROLES(ROLE) ROLES_FORWARD,
    ROLES_BEFORE_LOSS = ROLES_FORWARD - 1,
    LOSS_ROLES(ROLE) GRADIENT_ROLES(GRADIENT, GRADIENT) ROLES
#undef ROLE
#undef GRADIENT
};

struct inputs {
    struct tensor tensor[ROLES]; /* data NULL: not given */
    char *text;                  /* the file's metadata "text", or NULL */
    char *tokens;                /* its metadata "tokens", a JSON document, or NULL */
    char *unused;                /* names of the file's tensors that have no role, or NULL */
    struct user_text code;       /* a score and a mask of the user's own */
    int is_layer;                /* query, key and value were made of x by multihead.c */
};

const char *role_name(enum role role); /* "query" */

/* The roles before `end` (ROLES_FORWARD or ROLES); a file's other tensors are not used. The caller ends with
 * inputs_free, after failures too. */
int inputs_read(const struct options *options, enum role end, struct inputs *inputs, struct failure *failure);
void inputs_free(struct inputs *inputs);

#endif
