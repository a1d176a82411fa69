/* The greedy cover: the case that brings most of what is missing, until nothing is. */
#include "case_cover.h"

#include <string.h>

#include "cl/forward_params.h"

#define TRAITS 32
#define FEW_ROWS 16   /* of a key/value head: decoding, which strategy split takes */
#define TILE_ROWS 64  /* more need several tiles of any kernel */
#define BLOCK_KEYS 128

/* Bits 0 to 10 are the flags of cl/forward_params.h; of a bias, its type is told as well. */
enum {
    TRAIT_BIAS = 11, /* and two more: float32, float16, bfloat16 */
    TRAIT_GROUPED = 14,
    TRAIT_FEW_ROWS = 15,
    FEATURES = 16, /* traits below count in pairs */
    TRAIT_HEAD_DIM = 16, /* five classes */
    TRAIT_ALIGNMENT = 21, /* and three more */
    TRAIT_OTHER_HEAD_DIM_V = 25,
    TRAIT_ODD_HEAD_DIM,
    TRAIT_TILES_OF_ROWS,
    TRAIT_BLOCKS_OF_KEYS
};

static int head_dim_class(int64_t head_dim)
{
    static const int most[] = { 32, 64, 128, 256 };
    int at = 0;
    while (at < 4 && head_dim > most[at]) {
        ++at;
    }
    return at;
}

uint32_t case_traits(const struct test_call *test)
{
    const clattn_problem *p = &test->checked.p;
    const int64_t group = p->kv_heads > 0 ? p->query_heads / p->kv_heads : 1;
    const int64_t head_dim = p->head_dim > p->head_dim_v ? p->head_dim : p->head_dim_v;
    uint32_t traits = test->checked.flags & ((1u << TRAIT_BIAS) - 1);
    if (p->bias_type >= CLATTN_FLOAT32 && p->bias_type <= CLATTN_BFLOAT16) {
        traits |= 1u << (TRAIT_BIAS + (int)p->bias_type - CLATTN_FLOAT32);
    }
    traits |= (uint32_t)(group > 1) << TRAIT_GROUPED;
    traits |= (uint32_t)(p->query_len * group <= FEW_ROWS) << TRAIT_FEW_ROWS;
    traits |= 1u << (TRAIT_HEAD_DIM + head_dim_class(head_dim));
    traits |= 1u << (TRAIT_ALIGNMENT + (int)p->alignment);
    traits |= (uint32_t)(p->head_dim != p->head_dim_v) << TRAIT_OTHER_HEAD_DIM_V;
    traits |= (uint32_t)(p->head_dim % 16 != 0) << TRAIT_ODD_HEAD_DIM;
    traits |= (uint32_t)(p->query_len > TILE_ROWS) << TRAIT_TILES_OF_ROWS;
    traits |= (uint32_t)(p->key_len > BLOCK_KEYS) << TRAIT_BLOCKS_OF_KEYS;
    return traits;
}

/* Trait t of a case, and, for a feature, its pairs: what row t of the pairs gains. */
static uint32_t pairs_of(uint32_t traits, int t)
{
    const uint32_t features = traits & ((1u << FEATURES) - 1);
    return !(traits >> t & 1) ? 0 : t < FEATURES ? features : 1u << t;
}

static int count_new(uint32_t traits, const uint32_t seen[TRAITS])
{
    int count = 0;
    for (int t = 0; t < TRAITS; ++t) {
        for (uint32_t bits = pairs_of(traits, t) & ~seen[t]; bits; bits &= bits - 1) {
            ++count;
        }
    }
    return count;
}

void case_cover(const uint32_t *traits, int n, unsigned char *chosen)
{
    uint32_t seen[TRAITS] = { 0 };
    memset(chosen, 0, (size_t)n);
    for (;;) {
        int best = 0, most = 0;
        for (int i = 0; i < n; ++i) {
            const int count = count_new(traits[i], seen);
            if (count > most) {
                best = i;
                most = count;
            }
        }
        if (most == 0) {
            return;
        }
        chosen[best] = 1;
        for (int t = 0; t < TRAITS; ++t) {
            seen[t] |= pairs_of(traits[best], t);
        }
    }
}
