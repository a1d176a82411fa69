/* RMS norms of the rows of rotary and append (cl/cache/row_norm.clh), before they are turned: the rules on them. */
#ifndef CLATTN_SRC_NORMS_H
#define CLATTN_SRC_NORMS_H

#include "base/text.h"
#include "clattn_cache.h"

#define NORMS ((uint32_t)CLATTN_WITH_NORM | CLATTN_WITH_QUERY_NORM | CLATTN_WITH_KEY_NORM | CLATTN_WITH_VALUE_NORM)

/* Out of the problem of either operation. */
struct norms {
    uint32_t features;
    double epsilon;
};

/* What would be ignored is refused; `inverse`: rows are turned back, as the problem has it. */
clattn_status norms_check(const struct norms *norms, int inverse);

/* ", normed: queries, keys with weights, values"; nothing where there are none. */
void norms_describe(const struct norms *norms, struct text *text);

static inline int norms_are_there(const struct norms *norms)
{
    return (norms->features & NORMS) != 0;
}

#endif
