/* What strategies by AMX ask in common. */
#include "plan/amx.h"

#include "plan/ladder.h"

int amx_holds(clattn_type type)
{
    return type == CLATTN_BFLOAT16 || type == CLATTN_FLOAT16;
}

int amx_splits(const clattn_problem *p)
{
    return p->type == CLATTN_FLOAT16 || p->key_type == CLATTN_FLOAT16 || p->value_type == CLATTN_FLOAT16;
}

int amx_is_there(struct ask *ask)
{
    struct text refused = TEXT_INIT;
    const int has_tiles =
        ladder_has(ask, RUNG_AMX_BF16, &refused) ||
        ask_declines(ask, "%s: %s", ladder_table[RUNG_AMX_BF16].name, refused.data ? refused.data : "");
    text_free(&refused);
    return has_tiles;
}

const char *amx_products(int splits)
{
    return splits ? "amx_bf16, tiles of bfloat16, two of them for float16" : "amx_bf16, tiles of bfloat16";
}
