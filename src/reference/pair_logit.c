/* One pair, as the formula in clattn.h has it. */
#include "reference/pair_logit.h"

#include <math.h>

#include "reference/score_terms.h"

static void multiply(const struct user_pair *at, const double *query, const double *key, struct pair_logit *found)
{
    found->dot = found->dot_size = 0;
    for (int64_t c = 0; c < at->problem->p.head_dim; ++c) {
        const long double product = (long double)query[c] * key[c];
        found->dot += product;
        found->dot_size += fabsl(product);
    }
}

static void cap(const struct user_pair *at, struct pair_logit *found)
{
    const long double softcap = at->problem->p.softcap, scale = at->call->scale;
    const long double ratio = softcap > 0 ? tanhl(scale * found->dot / softcap) : 0;
    found->logit = softcap > 0 ? softcap * ratio : scale * found->dot;
    found->magnitude = fabsl(scale) * found->dot_size;
    found->slack = 1 - ratio * ratio;
    found->loose = 2 * ratio * ratio;
}

static void change(const struct user_pair *at, int asks_slope, struct pair_logit *found)
{
    long double own = 1;
    found->allowed = user_pair_change(at, &found->logit, &found->magnitude, asks_slope ? &own : NULL);
    found->slack *= own;
    found->loose = found->loose * fabsl(own) + 2;
}

void find_pair_logit(const struct user_pair *at, const double *query, const double *key, int asks_slope,
                     struct pair_logit *found)
{
    found->allowed = (unsigned char)key_is_allowed(at->problem, at->call, at->sequence, at->b, at->h, at->i, at->j);
    if (!found->allowed) {
        return;
    }
    multiply(at, query, key, found);
    cap(at, found);
    if (at->problem->flags & CLATTN_FLAG_SCORE_TEXT) {
        change(at, asks_slope, found);
    }
    add_terms(at->problem, at->call, at->sequence, at->b, at->h, at->i, at->j, &found->logit, &found->magnitude);
}
