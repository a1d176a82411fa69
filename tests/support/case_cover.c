/* The greedy cover: the case, in the type, that brings most of what is missing, until nothing is. */
#include "case_cover.h"

#include <string.h>

#include "device_options.h"

#define FEW_ROWS 16  /* of a key/value head: decoding, which strategy split takes */
#define TILE_ROWS 64 /* more need several tiles of any kernel */
#define BLOCK_KEYS 128

/* Bits 0 to 14 are the flags of cl/forward/forward_params.h; of a bias, its type is told as well. */
enum {
    TRAIT_BIAS = 15, /* and two more: float32, float16, bfloat16 */
    TRAIT_GROUPED = 18,
    TRAIT_FEW_ROWS,
    FEATURES,                  /* traits before it count in pairs */
    TRAIT_HEAD_DIM = FEATURES, /* six classes */
    TRAIT_ALIGNMENT = 26,      /* and three more */
    TRAIT_OTHER_HEAD_DIM_V = 30,
    TRAIT_ODD_HEAD_DIM,
    TRAIT_TILES_OF_ROWS,
    TRAIT_BLOCKS_OF_KEYS
};

static int head_dim_class(int64_t head_dim)
{
    static const int most[] = { 32, 64, 128, 256, 2048 };
    int at = 0;
    while (at < 5 && head_dim > most[at]) {
        ++at;
    }
    return at;
}

uint64_t case_traits(const struct test_call *test)
{
    const clattn_problem *p = &test->checked.p;
    const int64_t group = p->kv_heads > 0 ? p->query_heads / p->kv_heads : 1;
    const int64_t head_dim = p->head_dim > p->head_dim_v ? p->head_dim : p->head_dim_v;
    uint64_t traits = test->checked.flags & (((uint64_t)1 << TRAIT_BIAS) - 1);
    if (p->bias_type >= CLATTN_FLOAT32 && p->bias_type <= CLATTN_BFLOAT16) {
        traits |= (uint64_t)1 << (TRAIT_BIAS + (int)p->bias_type - CLATTN_FLOAT32);
    }
    traits |= (uint64_t)(group > 1) << TRAIT_GROUPED;
    traits |= (uint64_t)(p->query_len * group <= FEW_ROWS) << TRAIT_FEW_ROWS;
    traits |= (uint64_t)1 << (TRAIT_HEAD_DIM + head_dim_class(head_dim));
    traits |= (uint64_t)1 << (TRAIT_ALIGNMENT + (int)p->alignment);
    traits |= (uint64_t)(p->head_dim != p->head_dim_v) << TRAIT_OTHER_HEAD_DIM_V;
    traits |= (uint64_t)(p->head_dim % 16 != 0) << TRAIT_ODD_HEAD_DIM;
    traits |= (uint64_t)(p->query_len > TILE_ROWS) << TRAIT_TILES_OF_ROWS;
    traits |= (uint64_t)(p->key_len > BLOCK_KEYS) << TRAIT_BLOCKS_OF_KEYS;
    return traits;
}

int case_choice_named(const char *name, enum case_choice *choice)
{
    static const char *const names[] = { [CASES_ALL] = "all", [CASES_COVER] = "cover", [CASES_FEW] = "few" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
        if (strcmp(name, names[i]) == 0) {
            *choice = (enum case_choice)i;
            return 0;
        }
    }
    return -1;
}

/* What stands for all so far. */
struct cover {
    uint64_t seen[OPTIONS_TYPES_MAX]; /* traits, in each type */
    uint64_t pairs[FEATURES];         /* of features, in any */
};

static uint64_t partners(uint64_t traits, int feature)
{
    return traits >> feature & 1 ? traits & (((uint64_t)1 << FEATURES) - 1) : 0;
}

static int count_bits(uint64_t bits)
{
    int count = 0;
    for (; bits; bits &= bits - 1) {
        ++count;
    }
    return count;
}

static int gain(const struct cover *cover, uint64_t traits, int type)
{
    int count = count_bits(traits & ~cover->seen[type]);
    for (int feature = 0; feature < FEATURES; ++feature) {
        count += count_bits(partners(traits, feature) & ~cover->pairs[feature]);
    }
    return count;
}

static void take(struct cover *cover, uint64_t traits, int type, enum case_choice choice)
{
    for (int t = 0; t < OPTIONS_TYPES_MAX; ++t) {
        cover->seen[t] |= t == type || choice == CASES_FEW ? traits : 0;
    }
    for (int feature = 0; feature < FEATURES; ++feature) {
        cover->pairs[feature] |= partners(traits, feature);
    }
}

void case_cover(const uint64_t *traits, int n, int n_types, enum case_choice choice, unsigned char *chosen)
{
    struct cover cover = { { 0 }, { 0 } };
    if (choice == CASES_FEW) {
        memset(cover.pairs, 0xff, sizeof(cover.pairs)); /* as if seen */
    }
    memset(chosen, 0, (size_t)n);
    for (int taken = 0;; ++taken) {
        int best = 0, best_type = 0, most = 0;
        for (int i = 0; i < n * n_types; ++i) {
            const int count = gain(&cover, traits[i / n_types], i % n_types);
            if (count > most) {
                best = i / n_types;
                best_type = i % n_types;
                most = count;
            }
        }
        if (most == 0) {
            return;
        }
        if (choice == CASES_FEW) {
            best_type = taken % n_types; /* all are as good */
        }
        chosen[best] |= (unsigned char)((uint64_t)1 << best_type);
        take(&cover, traits[best], best_type, choice);
    }
}
