/* Wisdom on disk and in plans: a file that anyone else may have written is not read; whatever it says, only legal tiles
 * are taken, and results have the bits that they have without it. CLATTN_WISDOM_PROBLEMS: random ones, 12. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder.h"
#include "operation/any_problem.h"
#include "plan/strategy.h"
#include "plan/wisdom_store.h"
#include "support/device_call.h"
#include "support/device_options.h"
#include "support/random_call.h"

#define TILES_A_PROBLEM 2
#define FROM_WISDOM "tile from: wisdom"
#define FROM_TABLE "tile from: the tuning table"
#define FROM_WISDOM_STRATEGY "strategy from: wisdom, measured 1.50 times"
#define REFUSED "cannot be taken here"

static const struct strategy *strategy_named(const char *name)
{
    for (size_t i = 0; i < strategy_count; ++i) {
        if (strcmp(strategy_table[i]->name, name) == 0) {
            return strategy_table[i];
        }
    }
    return NULL;
}

static clattn_context *open_context(void)
{
    clattn_context *context = NULL;
    EXPECT(clattn_context_open(NULL, NULL, &context) == CLATTN_OK);
    return context;
}

static int is_auto; /* problem_here asks for no strategy */

static clattn_problem problem_here(void)
{
    clattn_problem p = CLATTN_PROBLEM_INIT;
    p.type = p.key_type = p.value_type = p.out_type = CLATTN_FLOAT32;
    p.batch = 1;
    p.query_heads = p.kv_heads = 2;
    p.query_len = p.key_len = 200;
    p.head_dim = p.head_dim_v = 32;
    p.strategy = is_auto ? NULL : "fused_simd";
    return p;
}

static int explains(clattn_context *context, const char *text)
{
    const clattn_problem p = problem_here();
    clattn_plan *plan = NULL;
    const int planned = clattn_plan_create(context, &p, &plan) == CLATTN_OK;
    const int found = planned && strstr(clattn_plan_explain(plan), text) != NULL;
    clattn_plan_destroy(plan);
    return found;
}

/* What a new context, which reads the file, explains. */
static int file_explains(const char *text)
{
    clattn_context *context = open_context();
    const int found = explains(context, text);
    clattn_context_destroy(context);
    return found;
}

/* A fact about the problem, with this tile of the strategy that it asks for. */
static struct wisdom_fact fact_of(clattn_context *context, const clattn_problem *p, struct wisdom_tile tile)
{
    const struct strategy *strategy = strategy_named(p->strategy);
    struct wisdom_fact fact;
    struct problem checked;
    struct tunable tuned;
    memset(&fact, 0, sizeof(fact));
    EXPECT(problem_init(&checked, p) == CLATTN_OK);
    struct ask ask = { .context = context, .problem = &checked.any, .by_name = 1 };
    strategy->tunable(&ask, &tuned);
    fact.of = tuned.of;
    fact.tile = tile;
    fact.table_ns = 1500;
    fact.tuned_ns = 1000;
    return fact;
}

/* ---- the file ------------------------------------------------------------------------------- */

static char path[FOLDER_PATH_BYTES];

static void store_one(clattn_context *context)
{
    const clattn_problem p = problem_here();
    const struct wisdom_fact fact = fact_of(context, &p, (struct wisdom_tile){ 16, 1, 1, 2, 0, 0, 0 });
    struct wisdom *wisdom = calloc(1, sizeof(*wisdom));
    wisdom_learn(wisdom, &fact);
    EXPECT(wisdom_store(context, wisdom));
    free(wisdom);
}

static void test_file(clattn_context *context)
{
    char *name = wisdom_path(context);
    EXPECT(name != NULL);
    snprintf(path, sizeof(path), "%s", name);
    free(name);
    EXPECT(file_explains(FROM_TABLE)); /* no folder yet */
    store_one(context);
    EXPECT(file_explains(FROM_WISDOM));
    EXPECT(file_explains("1.50 times as fast"));
    setenv("CLATTN_WISDOM_DIR", "", 1);
    EXPECT(file_explains(FROM_TABLE) && wisdom_path(context) == NULL);
    unsetenv("CLATTN_WISDOM_DIR");
    setenv("XDG_STATE_HOME", folder_path(""), 1);
    EXPECT(file_explains(FROM_TABLE));
    store_one(context);
    EXPECT(access(folder_path("clattn/wisdom"), F_OK) == 0 && file_explains(FROM_WISDOM));
    setenv("CLATTN_WISDOM_DIR", folder_path(""), 1);
}

static void test_suspicion(void)
{
    char elsewhere[FOLDER_PATH_BYTES];
    snprintf(elsewhere, sizeof(elsewhere), "%s", folder_path("elsewhere"));
    EXPECT(chmod(path, 0620) == 0 && file_explains(FROM_TABLE));
    EXPECT(chmod(path, 0600) == 0 && file_explains(FROM_WISDOM));
    EXPECT(chmod(folder_path(""), 0777) == 0 && file_explains(FROM_TABLE));
    EXPECT(chmod(folder_path(""), 0700) == 0 && file_explains(FROM_WISDOM));
    EXPECT(rename(path, elsewhere) == 0 && symlink(elsewhere, path) == 0 && file_explains(FROM_TABLE));
    EXPECT(unlink(path) == 0 && mkfifo(path, 0600) == 0 && file_explains(FROM_TABLE));
    EXPECT(unlink(path) == 0 && mkdir(path, 0700) == 0 && file_explains(FROM_TABLE));
    EXPECT(rmdir(path) == 0 && rename(elsewhere, path) == 0 && file_explains(FROM_WISDOM));
    if (geteuid() == 0) {
        EXPECT(chown(path, 65534, (gid_t)-1) == 0 && file_explains(FROM_TABLE));
        EXPECT(chown(path, 0, (gid_t)-1) == 0 && file_explains(FROM_WISDOM));
    } else {
        skip("other owners: needs root", 2);
    }
}

static void append(const char *text, size_t times)
{
    FILE *file = fopen(path, "a");
    EXPECT(file != NULL);
    for (size_t i = 0; file && i < times; ++i) {
        fputs(text, file);
    }
    EXPECT(file && fclose(file) == 0);
}

static void test_damage(clattn_context *context)
{
    append("\x80\xff tile\n\n", 3);
    EXPECT(file_explains(FROM_WISDOM)); /* bad lines are skipped */
    append("0123456789abcdef", WISDOM_BYTES_MAX / 16);
    EXPECT(file_explains(FROM_TABLE)); /* too large */
    store_one(context);
    EXPECT(file_explains(FROM_WISDOM) && truncate(path, 100) == 0 && file_explains(FROM_TABLE));
    EXPECT(truncate(path, 0) == 0 && file_explains(FROM_TABLE));
    struct wisdom *none = calloc(1, sizeof(*none));
    EXPECT(wisdom_store(context, none) && access(path, F_OK) != 0 && wisdom_store(context, none));
    free(none);
}

/* ---- tiles ---------------------------------------------------------------------------------- */

/* What no register file, or no private memory, has room for, and what the kernel is not made of. */
static void test_hostile_tiles(clattn_context *context)
{
    static const struct wisdom_tile hostile[] = {
        { 4096, 4096, 4096, 4096, 4096, 4096, 4096 },
        { 17, 8, 8, 1, 0, 0, 0 },
        { 48, 2, 2, 1, 0, 0, 0 },
        { 8, 8, 8, 1, 0, 0, 0 },
        { 128, 1, 1, 1, 0, 0, 0 },
        { 16, 0, 8, 1, 0, 0, 0 },
        { 16, 5, 1, 1, 0, 0, 0 },
        { 16, 64, 1, 1, 0, 0, 0 },
        { 16, 1, 64, 1, 0, 0, 0 },
        { 64, 32, 1, 1, 0, 0, 0 },
        { 16, 1, 0, 1, 0, 0, 0 },
        { 16, 1, 1, 3, 0, 0, 0 },
        { 16, 1, 1, 16, 0, 0, 0 },
        { 16, 1, 1, 0, 0, 0, 0 },
        { 0, 0, 0, 0, 0, 0, 0 },
        { -16, -1, -1, -1, 0, 0, 0 },
        { 16, 96, 1, 1, 0, 0, 0 },
        { 16, 1, 1, 1, 1, 0, 0 },
        { 16, 1, 1, 1, 0, 1, 0 },
        { 16, 1, 1, 1, 0, 0, 1 },
    };
    const clattn_problem p = problem_here();
    for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); ++i) {
        const struct wisdom_fact fact = fact_of(context, &p, hostile[i]);
        wisdom_learn(context->wisdom, &fact);
        EXPECT(explains(context, FROM_TABLE) && explains(context, REFUSED));
    }
    context->wisdom->count = 0;
    EXPECT(explains(context, FROM_TABLE) && !explains(context, REFUSED));
}

/* ---- bits ----------------------------------------------------------------------------------- */

static uint64_t hash_of_run(clattn_context *context, struct test_call *test)
{
    test_call_reset_outputs(test);
    EXPECT(device_call_run(context, test, NULL) == CLATTN_OK);
    return test_call_output_hash(test);
}

/* Random values for the fields that the strategy's tiles have. */
static struct wisdom_tile random_tile(const char *strategy, struct random *random)
{
    static const int64_t rows[] = { 16, 32, 64 }, counts[] = { 1, 2, 3, 4, 6, 7, 8, 12, 16, 24 };
    struct wisdom_tile tile;
    memset(&tile, 0, sizeof(tile));
    if (strcmp(strategy, "staged") == 0) {
        tile.shape = (int64_t)random_between(random, 1, 20);
    } else if (strcmp(strategy, "split") == 0) {
        tile.sums = (int64_t)1 << random_between(random, 0, 5);
        tile.launches = (int64_t)random_between(random, 0, 3);
    } else {
        tile.rows = rows[random_between(random, 0, 2)];
        tile.item_keys = counts[random_between(random, 0, 9)];
        tile.item_columns = counts[random_between(random, 0, 9)];
        tile.shared = (int64_t)1 << random_between(random, 0, 3);
    }
    return tile;
}

/* With legal tiles that may be the table's; how many there were. */
static int same_bits(clattn_context *context, struct test_call *test, struct random *random)
{
    const struct strategy *strategy = strategy_named(test->problem.strategy);
    struct text words = TEXT_INIT;
    int taken = 0;
    context->wisdom->count = 0;
    const uint64_t without = hash_of_run(context, test);
    for (int attempt = 0; attempt < 100 && taken < TILES_A_PROBLEM; ++attempt) {
        const struct wisdom_fact fact = fact_of(context, &test->problem, random_tile(strategy->name, random));
        struct ask ask = { .context = context, .problem = &test->checked.any, .by_name = 1 };
        if (strategy->is_legal(&ask, &fact.tile)) {
            wisdom_learn(context->wisdom, &fact);
            const int same = hash_of_run(context, test) == without;
            EXPECT(same);
            if (!same) {
                wisdom_describe_tile(&fact.tile, &words);
                printf("  %s: %s\n", strategy->name, words.data ? words.data : "");
                text_free(&words);
            }
            ++taken;
        }
    }
    context->wisdom->count = 0;
    return taken;
}

static void test_bits_of(clattn_context *context, const char *name, uint64_t count)
{
    static const clattn_type types[] = { CLATTN_FLOAT32, CLATTN_FLOAT16, CLATTN_BFLOAT16 };
    int taken = 0;
    uint64_t done = 0;
    for (uint64_t index = 0; done < count && index < 200 * count; ++index) {
        const struct random_call_options what = { .type = types[index % 3], .mixed = index % 4 == 3 };
        struct random random = random_start(5, index);
        struct test_call test;
        enum value_family family;
        EXPECT(random_call_create(&test, 40, index, &what, &family) == CLATTN_OK);
        strategy_set(&test.problem, name);
        struct text why = TEXT_INIT;
        EXPECT(test_call_validate(&test) == CLATTN_OK);
        struct ask ask = { .context = context, .problem = &test.checked.any, .by_name = 1, .why = &why };
        const struct strategy *strategy = strategy_named(name);
        if (!(problem_flags(ask.problem) & ~strategy->knows) && strategy->applicable(&ask)) {
            taken += same_bits(context, &test, &random);
            ++done;
        }
        text_free(&why);
        test_call_free(&test);
    }
    printf("%s: %d tiles of wisdom, %d problems\n", name, taken, (int)done);
    EXPECT(done == count && taken >= (int)count);
}

static void test_bits(clattn_context *context)
{
    const char *wanted = getenv("CLATTN_WISDOM_PROBLEMS");
    const uint64_t count = wanted ? strtoull(wanted, NULL, 0) : 12;
    test_bits_of(context, "fused_simd", count);
    test_bits_of(context, "split", count / 3);
    test_bits_of(context, "staged", count / 3);
}

/* ---- strategies ----------------------------------------------------------------------------- */

static void learn_strategy(clattn_context *context, const clattn_problem *p, const char *name)
{
    const struct wisdom_fact fact = { .of = wisdom_strategy_class_of(name, p), .table_ns = 3, .tuned_ns = 2 };
    wisdom_learn(context->wisdom, &fact);
}

/* What is learned is taken where that strategy takes the problem, and a strategy that was asked for stays. */
static void test_strategies(clattn_context *context)
{
    clattn_problem p = problem_here();
    learn_strategy(context, &p, "plain");
    EXPECT(explains(context, "strategy: fused_simd ") && !explains(context, FROM_WISDOM_STRATEGY));
    is_auto = 1;
    EXPECT(explains(context, "strategy: plain ") && explains(context, FROM_WISDOM_STRATEGY));
    EXPECT(explains(context, "fused_simd: not asked for"));
    learn_strategy(context, &p, "split"); /* 200 rows are too many for it */
    EXPECT(!explains(context, "strategy: split ") && !explains(context, FROM_WISDOM_STRATEGY));
    EXPECT(explains(context, "split: declined: "));
    learn_strategy(context, &p, "nobody");
    EXPECT(explains(context, "strategy: ") && !explains(context, FROM_WISDOM_STRATEGY));
    learn_strategy(context, &p, "this_name_is_longer_than_that_of_a_strategy");
    EXPECT(explains(context, "strategy: ") && !explains(context, FROM_WISDOM_STRATEGY));
    learn_strategy(context, &p, "fused_mma"); /* only emulated here, and not for float32 */
    EXPECT(explains(context, "strategy: ") && !explains(context, FROM_WISDOM_STRATEGY));
    is_auto = 0;
    context->wisdom->count = 0;
}

int main(void)
{
    folder_begin();
    setenv("CLATTN_WISDOM_DIR", folder_path(""), 1);
    unsetenv("XDG_STATE_HOME");
    clattn_context *context = open_context();
    if (!context) {
        return 1;
    }
    test_file(context);
    test_suspicion();
    test_damage(context);
    test_hostile_tiles(context);
    test_strategies(context);
    test_bits(context);
    clattn_context_destroy(context);
    folder_end();
    return report();
}
