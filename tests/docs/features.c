/* usage: features [--print]
 *
 * The table of docs/features.md, asked of the library: which strategy takes which feature in which types. Each cell is
 * whether a plan can be made, on devices that have everything and compile nothing (tests/offline/null_driver.c), so
 * that it is the same on every machine. Without --print: fails where the document differs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cl/forward/forward_flags.h"
#include "clattn_code.h"
#include "offline/null_driver.h"
#include "operation/problem.h"
#include "plan/strategy.h"
#include "support/device_options.h"

#define BEGIN "<!-- made by tests/docs/features --print -->\n"
#define END "<!-- end -->\n"
#define STRATEGIES_MAX 16

static void drop_kernel(const struct null_kernel *kernel)
{
    (void)kernel;
}

static void nothing(clattn_problem *p)
{
    (void)p;
}

static void causal(clattn_problem *p)
{
    p->causal = 1;
    p->alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
}

static void window(clattn_problem *p)
{
    p->window_left = 4;
    p->always_visible_keys = 1;
    p->alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
}

#define TEXT(name, function, bit)                                                                                      \
    static void name(clattn_problem *p)                                                                                \
    {                                                                                                                  \
        static clattn_user_code code = CLATTN_USER_CODE_INIT;                                                          \
        code.source = function;                                                                                        \
        code.functions = bit;                                                                                          \
        p->code = &code;                                                                                               \
    }
TEXT(score_text, "clattn_score", CLATTN_CODE_SCORE)
TEXT(mask_text, "clattn_mask", CLATTN_CODE_MASK)

/* What asks for a tensor and no more. */
#define WITH(name, feature)                                                                                            \
    static void name(clattn_problem *p)                                                                                \
    {                                                                                                                  \
        p->features = CLATTN_WITH_##feature;                                                                           \
    }
WITH(lengths, KEY_LENGTHS)
WITH(mask, MASK)
WITH(sinks, SINKS)
WITH(varlen, VARLEN)
WITH(row_ranges, ROW_RANGES)
WITH(lse, LSE)

/* What sets one field. */
#define SETS(name, field, value)                                                                                       \
    static void name(clattn_problem *p)                                                                                \
    {                                                                                                                  \
        p->field = value;                                                                                              \
    }
SETS(bias, bias_type, CLATTN_FLOAT32)
SETS(softcap, softcap, 30)
SETS(weights, weights, CLATTN_WEIGHTS_SOFTMAX)
SETS(dropout, dropout, 0.1)
SETS(grouped, query_heads, 4)
SETS(many_rows, query_len, 100)
SETS(wide_values, head_dim_v, 80)
SETS(wide_heads, head_dim, 512)
SETS(strided, strided_columns, 1)

static void slopes(clattn_problem *p)
{
    p->features = CLATTN_WITH_SLOPES;
    p->alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
}

static void pages(clattn_problem *p)
{
    p->features = CLATTN_WITH_PAGES | CLATTN_WITH_KEY_LENGTHS;
    p->page_size = 16;
    p->pages = 10;
}

static void page_starts(clattn_problem *p)
{
    pages(p);
    p->features |= CLATTN_WITH_PAGE_STARTS;
}

static void pools(clattn_problem *p)
{
    pages(p);
    p->pool_pages = 4;
}

static void latent(clattn_problem *p)
{
    p->head_dim_v = 32;
    p->value_in_key = 1;
}

static void small_cache(clattn_problem *p)
{
    if (p->type != CLATTN_FLOAT64) {
        p->key_type = p->value_type = p->type == CLATTN_BFLOAT16 ? CLATTN_FLOAT16 : CLATTN_BFLOAT16;
    }
}

static void wide_out(clattn_problem *p)
{
    p->out_type = p->type == CLATTN_FLOAT64 ? CLATTN_FLOAT64 : CLATTN_FLOAT32;
}

static void tf32(clattn_problem *p)
{
    p->allow_tf32 = p->type == CLATTN_FLOAT32;
}

static void rounded_weights(clattn_problem *p)
{
    p->allow_rounded_weights = p->type == CLATTN_FLOAT16 || p->type == CLATTN_BFLOAT16;
}

static void blocks(clattn_problem *p)
{
    p->key_type = p->value_type = CLATTN_Q8_0;
}

static void codes(clattn_problem *p)
{
    p->key_type = p->value_type = CLATTN_INT8;
    p->features = CLATTN_WITH_KEY_SCALES | CLATTN_WITH_VALUE_SCALES;
}

static void mask_bits(clattn_problem *p)
{
    mask(p);
    p->mask_bits = 1;
}

static void block_mask(clattn_problem *p)
{
    p->features = CLATTN_WITH_BLOCK_MASK;
    p->block_mask_rows = p->block_mask_keys = 64;
}

static void key_lists(clattn_problem *p)
{
    p->features = CLATTN_WITH_KEY_LISTS;
    p->key_list_rows = 4;
    p->key_list_keys = 20;
}

static void ring(clattn_problem *p)
{
    window(p);
    p->ring = 20;
}

static const struct feature {
    const char *name;
    void (*ask)(clattn_problem *problem);
} features[] = {
    { "nothing of the below", nothing },
    { "grouped heads", grouped },
    { "more than 16 query rows a key head", many_rows },
    { "head_dim_v other than head_dim", wide_values },
    { "values that are the first columns of keys", latent },
    { "head_dim 512", wide_heads },
    { "columns of any stride", strided },
    { "causal", causal },
    { "window, always visible keys", window },
    { "key lengths", lengths },
    { "mask", mask },
    { "a mask of bits", mask_bits },
    { "bias", bias },
    { "ALiBi slopes", slopes },
    { "softcap", softcap },
    { "sinks", sinks },
    { "packed sequences", varlen },
    { "pages of a cache, a table", pages },
    { "pages of a cache, one line with page starts", page_starts },
    { "pages of a cache in several buffers", pools },
    { "row ranges", row_ranges },
    { "a mask of blocks", block_mask },
    { "lists of keys", key_lists },
    { "lse", lse },
    { "weights, in any mode", weights },
    { "dropout", dropout },
    { "keys and values of another 16-bit type", small_cache },
    { "out in float32", wide_out },
    { "allow_tf32, in float32", tf32 },
    { "allow_rounded_weights, in 16 bits", rounded_weights },
    { "keys and values of block types (q8_0, mxfp4_ggml, ...)", blocks },
    { "keys and values in codes with scales (int8, u8, nvfp4, ...)", codes },
    { "a ring of keys", ring },
    { "a score of your own, as text", score_text },
    { "a mask of your own, as text", mask_text },
};

static const char *const type_names[] = { "", "f32", "f16", "bf16", "f64" };

/* A device that has everything, and what was opened on it. */
struct machine {
    const struct null_device *device;
    clattn_context *context;
};

static clattn_problem problem_with(const struct feature *feature, clattn_type type)
{
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    problem.type = type;
    problem.query_heads = problem.kv_heads = 2;
    problem.query_len = 4;
    problem.key_len = 100;
    problem.head_dim = 64;
    feature->ask(&problem);
    return problem;
}

/* The rows above ask for all that a problem can ask kernels for. */
static int have_every_flag(void)
{
    uint32_t missing = (1u << CLATTN_FLAG_BITS) - 1;
    struct text names = TEXT_INIT;
    for (size_t f = 0; f < sizeof(features) / sizeof(features[0]); ++f) {
        const clattn_problem problem = problem_with(&features[f], CLATTN_FLOAT32);
        struct problem checked;
        problem_init(&checked, &problem); /* no flags, where that fails */
        missing &= ~checked.flags;
        problem_release(&checked.any);
    }
    if (missing) {
        forward_flags_describe(missing, &names);
        printf("features: no row asks for %s\n", names.data);
    }
    text_free(&names);
    return missing == 0;
}

static int takes(const struct machine *machine, const char *strategy, const struct feature *feature, clattn_type type)
{
    clattn_problem problem = problem_with(feature, type);
    clattn_plan *plan;
    problem.strategy = strategy;
    null_driver_use(machine->device);
    const clattn_status status = clattn_plan_create(machine->context, &problem, &plan);
    if (status == CLATTN_OK) {
        clattn_plan_destroy(plan);
    } else if (status != CLATTN_UNSUPPORTED && type != CLATTN_FLOAT64) { /* which goes with no other type */
        fprintf(stderr, "features: %s, %s: %s\n", strategy, feature->name, clattn_last_error());
        exit(1);
    }
    return status == CLATTN_OK;
}

static void types_taken(struct text *types, const struct machine *machine, const char *strategy,
                        const struct feature *feature)
{
    int taken = 0;
    for (clattn_type type = CLATTN_FLOAT32; type <= CLATTN_FLOAT64; ++type) {
        if (takes(machine, strategy, feature, type)) {
            text_append(types, "%s%s", taken++ ? " " : "", type_names[type]);
        }
    }
    if (taken == 0 || taken == 4) {
        text_free(types);
        text_append(types, "%s", taken ? "all" : "–");
    }
}

/* `usual` is what the strategy takes without any feature: a cell that says the same stays empty. */
static void cell(struct text *table, struct text *usual, const struct machine *machine, const char *strategy,
                 const struct feature *feature)
{
    struct text types = TEXT_INIT;
    types_taken(&types, machine, strategy, feature);
    if (feature == features) {
        text_append(usual, "%s", types.data);
        text_append(table, " %s |", types.data);
    } else {
        text_append(table, strcmp(types.data, usual->data) == 0 ? " |" : " %s |", types.data);
    }
    text_free(&types);
}

static struct machine machine_open(const char *target)
{
    const struct machine machine = { null_device_named(target), null_context_open(target) };
    return machine;
}

static void make_table(struct text *table)
{
    const struct machine cpu = machine_open("x86-64-v4"), gpu = machine_open("sm_80");
    if (strategy_of_table(STRATEGIES_MAX)) {
        fprintf(stderr, "features: more than %d strategies: let STRATEGIES_MAX grow\n", STRATEGIES_MAX);
        exit(1);
    }
    text_append(table, "| |");
    struct text usual[STRATEGIES_MAX] = { TEXT_INIT };
    const char *name;
    for (size_t s = 0; (name = strategy_of_table(s)); ++s) {
        text_append(table, " `%s` |", name);
    }
    text_append(table, "\n|---|");
    for (size_t s = 0; strategy_of_table(s); ++s) {
        text_append(table, "---|");
    }
    for (size_t f = 0; f < sizeof(features) / sizeof(features[0]); ++f) {
        text_append(table, "\n| %s |", features[f].name);
        for (size_t s = 0; (name = strategy_of_table(s)); ++s) {
            cell(table, &usual[s], strategy_is_for_gpus(name) ? &gpu : &cpu, name, &features[f]);
        }
    }
    text_append(table, "\n");
    for (size_t s = 0; s < STRATEGIES_MAX; ++s) {
        text_free(&usual[s]);
    }
    clattn_context_destroy(cpu.context);
    clattn_context_destroy(gpu.context);
}

/* What the document has between the two marks is the table. */
static int document_has(const char *path, const char *table)
{
    static char document[65536];
    FILE *stream = fopen(path, "r");
    const size_t length = stream ? fread(document, 1, sizeof(document) - 1, stream) : 0;
    if (!stream) {
        perror(path);
        return 0;
    }
    fclose(stream);
    document[length] = 0;
    const char *from = strstr(document, BEGIN);
    from = from ? from + strlen(BEGIN) : NULL;
    const char *to = from ? strstr(from, END) : NULL;
    return to && (size_t)(to - from) == strlen(table) && memcmp(from, table, strlen(table)) == 0;
}

int main(int argc, char **argv)
{
    struct text table = TEXT_INIT;
    char path[4096];
    int status = 0;
    setenv("CLATTN_CACHE", "off", 1);
    setenv("CLATTN_SELF_CHECK", "off", 1); /* nothing computes here */
    null_driver_on_kernel(drop_kernel);
    null_library_has_all_rungs(1);
    make_table(&table);
    if (argc == 2 && strcmp(argv[1], "--print") == 0) {
        fputs(table.data, stdout);
    } else {
        snprintf(path, sizeof(path), "%s/docs/features.md", getenv("srcdir") ? getenv("srcdir") : ".");
        const int is_there = document_has(path, table.data);
        status = !have_every_flag() || !is_there;
        if (!is_there) {
            printf("features: %s is not what the library does; between its marks belongs:\n%s", path, table.data);
        }
    }
    text_free(&table);
    return status;
}
