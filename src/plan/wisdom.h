/* Wisdom: what was measured to be the fastest for a class of problems on one device. `clattn tune` finds it, plans ask
 * for it. There are two kinds of facts. One names a tile: a strategy takes it when it is among those that it declares
 * legal itself, which all give the same bits. So a wrong fact, or a hostile one, costs time and nothing else. The other
 * names the strategy, where the user said `--bits`: it is taken where that strategy takes the problem.
 *
 * As text, a line a fact, the words in this order, a blank between them:
 *
 *     tile clattn=0.1.0 for=fused_simd_fma_32_of_16 types=float32,float32,float32 head_dim=64 head_dim_v=64 rows=1024
 *     keys=1024 planes=8 causal=0 tile_rows=32 item_keys=8 item_columns=8 shared=2 shape=0 sums=0 launches=0
 *     table_ns=1200000 tuned_ns=1000000
 *
 * head_dim to planes are rounded up to powers of two: that is the class. A strategy's line begins with that word; it
 * has planes=1, since batch and heads must not decide bits, and no tile. Lines of other versions of clattn, whose
 * kernels are others, and all that do not look just like this, are skipped. */
#ifndef CLATTN_SRC_WISDOM_H
#define CLATTN_SRC_WISDOM_H

#include "base/text.h"
#include "clattn.h"

#define WISDOM_BYTES_MAX ((size_t)64 << 10)
#define WISDOM_FACTS_MAX 160 /* fit into that, however long */
#define WISDOM_NAME_BYTES 48

enum wisdom_kind { WISDOM_TILE, WISDOM_STRATEGY };

/* The problems that a fact is about. */
struct wisdom_class {
    enum wisdom_kind kind;
    char name[WISDOM_NAME_BYTES]; /* of the tiles, as the tuning table has it, '_' for blanks; the strategy to take */
    clattn_type type, key_type, value_type;
    int64_t head_dim, head_dim_v;
    int64_t rows; /* query rows of a key/value head: query_len * heads side by side */
    int64_t keys;
    int64_t planes; /* batch * kv_heads */
    int64_t causal;
};

/* What may be chosen, whatever the strategy; a field is 0 where its kernel has no such thing. */
struct wisdom_tile {
    int64_t rows, item_keys, item_columns; /* as in struct tile */
    int64_t shared;                        /* tiles that share a block of keys */
    int64_t shape;                         /* number of a tile's shape in a table of the strategy, from 1 */
    int64_t sums;                          /* vectors of sums in registers */
    int64_t launches;                      /* kernels one after the other */
};

struct wisdom_fact {
    struct wisdom_class of;
    struct wisdom_tile tile;
    int64_t table_ns, tuned_ns; /* of a call, without the fact and with it */
};

struct wisdom {
    size_t count;
    struct wisdom_fact facts[WISDOM_FACTS_MAX];
};

/* The class of an attention problem for tiles of this name; fields beyond 2^30 count as that. */
struct wisdom_class wisdom_class_of(const char *name, const clattn_problem *problem);

/* The class for the choice of this strategy; whichever its name is, wisdom has one such fact of a class. */
struct wisdom_class wisdom_strategy_class_of(const char *strategy, const clattn_problem *problem);

int wisdom_tile_equal(const struct wisdom_tile *a, const struct wisdom_tile *b);

/* The fact of the class; NULL: none. `wisdom` may be NULL. */
const struct wisdom_fact *wisdom_find(const struct wisdom *wisdom, const struct wisdom_class *of);

/* Takes the place of the fact of the same class; the oldest goes when there is no room. */
void wisdom_learn(struct wisdom *wisdom, const struct wisdom_fact *fact);
void wisdom_forget(struct wisdom *wisdom, const struct wisdom_class *of);

/* The numbers of a fact with their words, as lines have them, for i from 0; 0: there are no more. */
int wisdom_number(const struct wisdom_fact *fact, int i, const char **word, int64_t *value);

/* "tile_rows=32 item_keys=8": what is not 0. `text` is empty before. */
void wisdom_describe_tile(const struct wisdom_tile *tile, struct text *text);

/* 1: the line, of `bytes` bytes without its end, is a fact of this version of clattn. */
int wisdom_read_line(const char *line, size_t bytes, struct wisdom_fact *fact);

/* Learns every line that is a fact, of the first WISDOM_BYTES_MAX bytes. */
void wisdom_read(struct wisdom *wisdom, const char *text, size_t bytes);

void wisdom_write_line(const struct wisdom_fact *fact, struct text *text);

#endif
