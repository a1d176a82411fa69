/* Wisdom as text: what was written is read again; all else is skipped. Mutated files, 10^5 of them, or as many as
 * CLATTN_FUZZ_FILES says: no crash, and nothing is learned that is out of bounds. */
#include "plan/wisdom.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "suite.h"
#include "support/random.h"

static const struct wisdom_fact sample = {
    .of = { WISDOM_TILE, "fused_simd_fma_32_of_16", CLATTN_FLOAT32, CLATTN_FLOAT16, CLATTN_BFLOAT16, 64, 128, 1024,
            2048, 8, 1 },
    .tile = { .rows = 32, .item_keys = 8, .item_columns = 16, .shared = 4, .shape = 5, .sums = 6, .launches = 7 },
    .table_ns = 1200000,
    .tuned_ns = 1000000,
};

/* The line of a fact, without its end, in a memory of its own so that reading past it is noticed. */
static int reads(const char *line, struct wisdom_fact *fact)
{
    const size_t bytes = strlen(line);
    char *copy = malloc(bytes + !bytes);
    memcpy(copy, line, bytes);
    int taken = wisdom_read_line(copy, bytes, fact);
    free(copy);
    return taken;
}

/* The sample's line, with `from` replaced by `to`; freed by the caller. */
static char *changed_line(const char *from, const char *to)
{
    struct text line = TEXT_INIT, changed = TEXT_INIT;
    wisdom_write_line(&sample, &line);
    line.data[line.length - 1] = 0;
    const char *at = strstr(line.data, from);
    ck_assert_ptr_nonnull(at);
    text_append(&changed, "%.*s%s%s", (int)(at - line.data), line.data, to, at + strlen(from));
    text_free(&line);
    return text_take(&changed);
}

START_TEST(test_a_fact_comes_back)
{
    struct wisdom_fact fact;
    char *line = changed_line("", "");
    ck_assert(reads(line, &fact));
    ck_assert_int_eq(memcmp(&fact, &sample, sizeof(fact)), 0);
    free(line);
}
END_TEST

/* One of a class, whatever the strategy, and beside the tiles. */
START_TEST(test_strategies)
{
    struct wisdom *wisdom = calloc(1, sizeof(*wisdom));
    struct text file = TEXT_INIT;
    struct wisdom_fact fact = { .of = sample.of, .table_ns = 2, .tuned_ns = 1 };
    wisdom_learn(wisdom, &sample);
    fact.of.kind = WISDOM_STRATEGY;
    fact.of.planes = 1;
    snprintf(fact.of.name, sizeof(fact.of.name), "plain");
    wisdom_learn(wisdom, &fact);
    snprintf(fact.of.name, sizeof(fact.of.name), "staged");
    wisdom_learn(wisdom, &fact);
    ck_assert_uint_eq(wisdom->count, 2);
    wisdom_write_line(&fact, &file);
    wisdom->count = 0;
    wisdom_read(wisdom, file.data, file.length);
    ck_assert_uint_eq(wisdom->count, 1);
    snprintf(fact.of.name, sizeof(fact.of.name), "any");
    ck_assert_str_eq(wisdom_find(wisdom, &fact.of)->of.name, "staged");
    ck_assert_ptr_null(wisdom_find(wisdom, &sample.of));
    text_free(&file);
    free(wisdom);
}
END_TEST

START_TEST(test_hostile_lines)
{
    static const char *const changes[][2] = {
        { "clattn=", "clattn=9" },
        { "tile ", "tile  " },
        { "tile ", "TILE " },
        { "tile ", "" },
        { "tile ", "tile strategy " },
        { "tile ", "strategy " }, /* of 8 planes, with a tile */
        { "fused_simd", "fused simd" },
        { "fused_simd", "../../fused_simd" },
        { "fused_simd", "%s%n" },
        { "fused_simd_fma_32_of_16", "" },
        { "fused_simd", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" },
        { "head_dim=64", "head_dim=63" }, /* no power of two */
        { "head_dim=64", "head_dim=0" },
        { "head_dim=64", "head_dim=064" },
        { "head_dim=64", "head_dim=-64" },
        { "head_dim=64", "head_dim=+64" },
        { "head_dim=64", "head_dim=" },
        { "head_dim=64", "head_dim=64.0" },
        { "head_dim=64", "head_dim=2147483648" },
        { "head_dim=64", "head_dim=18446744073709551680" }, /* 2^64 + 64 */
        { "head_dim=64 ", "" },
        { "head_dim=64 ", "head_dim=64 head_dim=64 " },
        { "causal=1", "causal=2" },
        { "tile_rows=32", "tile_rows=4097" },
        { "tile_rows=32", "tile_rows=0x20" },
        { "item_keys=8", "item_keys=99999999999999999999999999" },
        { "shared=4", "shared=-1" },
        { "tuned_ns=1000000", "tuned_ns=0" },
        { "tuned_ns=1000000", "tuned_ns=1000000 " },
        { "tuned_ns=1000000", "tuned_ns=1000000\r" },
        { "tuned_ns=1000000", "tuned_ns=1000000000000001" },
        { "tuned_ns=1000000", "tuned_ns=1e6" },
        { "types=", "types=complex" },
        { "types=float32", "types=none" },
    };
    struct wisdom_fact fact;
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); ++i) {
        char *line = changed_line(changes[i][0], changes[i][1]);
        ck_assert_msg(!reads(line, &fact), "taken: %s", line);
        free(line);
    }
    ck_assert(!reads("", &fact));
    ck_assert(!reads("tile", &fact));
    ck_assert(!reads("# tile", &fact));
    char *line = changed_line("", "");
    for (size_t bytes = 0; bytes < strlen(line); ++bytes) { /* cut off; a number's last digits may be missing */
        if (wisdom_read_line(line, bytes, &fact)) {
            ck_assert_msg(line[bytes] >= '0' && line[bytes] <= '9', "cut to %zu bytes", bytes);
        }
    }
    free(line);
}
END_TEST

START_TEST(test_files)
{
    struct wisdom *wisdom = calloc(1, sizeof(*wisdom));
    struct text file = TEXT_INIT;
    struct wisdom_fact fact = sample;
    text_append(&file, "# a comment\n\n\n%c", 1);
    wisdom_write_line(&fact, &file);
    fact.tile.rows = 16;
    wisdom_write_line(&fact, &file); /* the last of a class counts */
    fact.of.keys = 4096;
    wisdom_write_line(&fact, &file);
    wisdom_read(wisdom, file.data, file.length - 1); /* its last line has no end: it was cut off */
    ck_assert_uint_eq(wisdom->count, 1);
    ck_assert_int_eq(wisdom_find(wisdom, &sample.of)->tile.rows, 16);
    ck_assert_ptr_null(wisdom_find(wisdom, &fact.of));
    wisdom_read(wisdom, file.data, file.length);
    ck_assert_uint_eq(wisdom->count, 2);
    ck_assert_ptr_nonnull(wisdom_find(wisdom, &fact.of));
    wisdom_forget(wisdom, &sample.of);
    ck_assert_uint_eq(wisdom->count, 1);
    ck_assert_ptr_null(wisdom_find(NULL, &fact.of));
    text_free(&file);
    free(wisdom);
}
END_TEST

/* The longest facts there may be: the file must stay within its limit. */
START_TEST(test_a_full_table_fits)
{
    struct wisdom *wisdom = calloc(1, sizeof(*wisdom)), *again = calloc(1, sizeof(*again));
    struct text file = TEXT_INIT;
    struct wisdom_fact fact = sample;
    const int64_t large = (int64_t)1 << 30;
    memset(fact.of.name, 'a', WISDOM_NAME_BYTES - 1);
    fact.of.type = fact.of.key_type = fact.of.value_type = CLATTN_BFLOAT16;
    fact.of.rows = fact.of.keys = fact.of.planes = fact.of.head_dim = fact.of.head_dim_v = large;
    fact.tile = (struct wisdom_tile){ 4096, 4096, 4096, 4096, 4096, 4096, 4096 };
    fact.table_ns = fact.tuned_ns = 1000000000000000;
    for (unsigned i = 0; i < 2 * WISDOM_FACTS_MAX; ++i) {
        snprintf(fact.of.name + WISDOM_NAME_BYTES - 8, 8, "%07u", i % 10000000u);
        wisdom_learn(wisdom, &fact);
    }
    ck_assert_uint_eq(wisdom->count, WISDOM_FACTS_MAX);
    for (size_t i = 0; i < wisdom->count; ++i) {
        wisdom_write_line(&wisdom->facts[i], &file);
    }
    text_append(&file, "#%300s\n", "");
    ck_assert_uint_le(file.length, WISDOM_BYTES_MAX);
    wisdom_read(again, file.data, file.length);
    ck_assert_int_eq(memcmp(again, wisdom, sizeof(*wisdom)), 0);
    text_free(&file);
    free(wisdom);
    free(again);
}
END_TEST

START_TEST(test_classes)
{
    clattn_problem p = CLATTN_PROBLEM_INIT;
    p.batch = 3;
    p.query_heads = 8;
    p.kv_heads = 4;
    p.query_len = 100;
    p.key_len = 129;
    p.head_dim = 64;
    p.head_dim_v = 65;
    struct wisdom_class of = wisdom_class_of("a b", &p);
    ck_assert_str_eq(of.name, "a_b");
    ck_assert_int_eq(of.rows, 256);
    ck_assert_int_eq(of.keys, 256);
    ck_assert_int_eq(of.planes, 16);
    ck_assert_int_eq(of.head_dim, 64);
    ck_assert_int_eq(of.head_dim_v, 128);
    p.batch = p.query_len = p.key_len = INT64_MAX;
    of = wisdom_class_of("a", &p);
    ck_assert_int_eq(of.rows, 1 << 30);
    ck_assert_int_eq(of.planes, 1 << 30);
    p.kv_heads = p.query_heads = p.batch = p.key_len = 0;
    of = wisdom_class_of("a", &p);
    ck_assert_int_eq(of.planes, 1);
    ck_assert_int_eq(of.keys, 1);
}
END_TEST

/* ---- fuzzing -------------------------------------------------------------------------------- */

static void expect_bounds(const struct wisdom *wisdom)
{
    ck_assert_uint_le(wisdom->count, WISDOM_FACTS_MAX);
    for (size_t i = 0; i < wisdom->count; ++i) {
        const struct wisdom_fact *fact = &wisdom->facts[i];
        const struct wisdom_tile *t = &fact->tile;
        ck_assert_ptr_nonnull(memchr(fact->of.name, 0, WISDOM_NAME_BYTES));
        ck_assert(t->rows >= 0 && t->rows <= 4096 && t->item_keys >= 0 && t->item_keys <= 4096 &&
                  t->item_columns >= 0 && t->item_columns <= 4096 && t->shared >= 0 && t->shared <= 4096);
        ck_assert(fact->table_ns >= 1 && fact->tuned_ns >= 1);
        ck_assert_ptr_eq(wisdom_find(wisdom, &fact->of), fact); /* one a class */
    }
}

static size_t mutate(struct random *random, unsigned char *bytes, size_t size)
{
    static const char likely[] = "0123456789=, \n#_-tile";
    const int changes = 1 + (int)(random_bits(random) % 8);
    for (int i = 0; i < changes && size > 1; ++i) {
        const size_t at = random_bits(random) % size, length = 1 + random_bits(random) % (size - at);
        switch (random_bits(random) % 5) {
        case 0:
            bytes[at] ^= (unsigned char)(1u << random_bits(random) % 8);
            break;
        case 1:
            bytes[at] = (unsigned char)likely[random_bits(random) % (sizeof(likely) - 1)];
            break;
        case 2:
            bytes[at] = (unsigned char)random_bits(random);
            break;
        case 3: /* a piece is lost */
            memmove(bytes + at, bytes + at + length, size - at - length);
            size -= length;
            break;
        default:
            memmove(bytes + at, bytes + random_bits(random) % (size - length + 1), length);
            break;
        }
    }
    return size;
}

START_TEST(test_mutated_files)
{
    const char *wanted = getenv("CLATTN_FUZZ_FILES");
    const long files = wanted ? atol(wanted) : 100000;
    struct wisdom *wisdom = calloc(1, sizeof(*wisdom));
    struct text file = TEXT_INIT;
    struct wisdom_fact fact = sample;
    long learned = 0;
    for (int i = 0; i < 4; ++i) {
        fact.of.keys *= 2;
        wisdom_write_line(&fact, &file);
    }
    fact = (struct wisdom_fact){ .of = fact.of, .table_ns = 2, .tuned_ns = 1 };
    fact.of.kind = WISDOM_STRATEGY;
    fact.of.planes = 1;
    wisdom_write_line(&fact, &file);
    for (long i = 0; i < files; ++i) {
        struct random random = random_start(77, (uint64_t)i);
        unsigned char *bytes = malloc(file.length);
        memcpy(bytes, file.data, file.length);
        const size_t size = mutate(&random, bytes, file.length);
        unsigned char *exact = malloc(size);
        memcpy(exact, bytes, size);
        wisdom->count = 0;
        wisdom_read(wisdom, (const char *)exact, size);
        expect_bounds(wisdom);
        learned += (long)wisdom->count;
        free(exact);
        free(bytes);
    }
    ck_assert_int_gt(learned, files / 10); /* else the fuzz never came past the first word */
    ck_assert_int_lt(learned, files * 5);
    text_free(&file);
    free(wisdom);
}
END_TEST

SUITE("wisdom", test_a_fact_comes_back, test_strategies, test_hostile_lines, test_files, test_a_full_table_fits,
      test_classes, test_mutated_files)
