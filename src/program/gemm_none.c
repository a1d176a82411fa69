/* The door to CLBlast of a library that was built without it: nothing is behind it. All types are declined, so that
 * nobody goes on to ask for a product. */
#include "base/error.h"
#include "program/gemm.h"

#define WHY "clattn was built without CLBlast"

int gemm_is_built(void)
{
    return 0;
}

const char *gemm_declines(const struct chain *chain, const struct gemm_product *product)
{
    (void)chain;
    (void)product;
    return WHY;
}

clattn_status gemm_prepare(clattn_context *context, clattn_type type, const char **declines)
{
    (void)context;
    (void)type;
    if (!declines) {
        return error_set(CLATTN_UNSUPPORTED, WHY);
    }
    *declines = WHY;
    return CLATTN_OK;
}

clattn_status gemm_enqueue(struct chain *chain, const struct gemm_product *product)
{
    (void)chain;
    (void)product;
    return error_set(CLATTN_UNSUPPORTED, WHY);
}

void gemm_forget(clattn_context *context)
{
    (void)context;
}
