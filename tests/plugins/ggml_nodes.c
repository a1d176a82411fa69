/* The backend of plugins/ggml, loaded as programs load it: each node against float64 attention of the same inputs.
 *
 *     usage: ggml_nodes LIBRARY            the tests; the last line says "N passed, N failed, N skipped"
 *            ggml_nodes LIBRARY --refused  whether ggml refuses the library, without a crash
 *            ggml_nodes LIBRARY --cost     microseconds of a call beside those of ggml's own CPU backend
 */
#include "nodes.h"

#include "ggml-cpu.h"

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ERROR_BOUND 1e-5

/* A row: name, types of keys and values, head_dim, head_dim_v, heads, kv_heads, rows, keys, batch, mask, mask_heads,
 * mask_batch, has_sinks, is_permuted, max_bias, softcap. */
#define ROW(name, key_type, value_type, dim, dim_v, heads, kv_heads, rows, keys, batch, mask, ...)                     \
    {                                                                                                                  \
        name, GGML_TYPE_##key_type, GGML_TYPE_##value_type, dim, dim_v, heads, kv_heads, rows, keys, batch,            \
            MASK_##mask, __VA_ARGS__                                                                                   \
    }
#define PROMPT(type) ROW("prompt, " #type, type, type, 64, 64, 9, 3, 33, 256, 1, PADDED, 1, 1, 0, 1, 0, 0)
#define TOKEN(type) ROW("token, " #type, type, type, 64, 64, 9, 3, 1, 512, 1, PADDED, 1, 1, 0, 1, 0, 0)
#define TYPES(T) T(F32), T(F16), T(BF16), T(Q8_0), T(Q4_0), T(Q4_1), T(Q5_0), T(Q5_1)

/* clang-format off */
static const struct node_case cases[] = {
    TYPES(PROMPT),
    TYPES(TOKEN),
    ROW("no mask",                            F16,  F16,   64,  64,  6, 2, 20,  100, 2, NONE,       1, 1, 0, 0, 0,  0),
    ROW("a window",                           F16,  F16,   64,  64,  6, 2, 50,  200, 1, WINDOW,     1, 1, 0, 0, 0,  0),
    ROW("a window, one token",                F16,  F16,   64,  64,  6, 2,  1,  300, 1, WINDOW,     1, 1, 0, 0, 0,  0),
    ROW("rows that see nothing",              F16,  F16,   64,  64,  6, 2, 20,   64, 2, BLIND,      1, 2, 0, 0, 0,  0),
    ROW("rows that see nothing but a sink",   F16,  F16,   64,  64,  6, 2, 20,   64, 2, BLIND,      1, 1, 1, 0, 0,  0),
    ROW("nobody sees anything",               F16,  F16,   64,  64,  6, 2,  5,   64, 1, NOBODY,     1, 1, 0, 0, 0,  0),
    ROW("holes",                              F16,  F16,   64,  64,  6, 2, 20,  100, 1, HOLES,      1, 1, 0, 0, 0,  0),
    ROW("holes, one token",                   F16,  F16,   64,  64,  6, 2,  1,  100, 1, HOLES,      1, 1, 0, 0, 0,  0),
    ROW("numbers, a mask a head",             F16,  F16,   64,  64,  6, 2, 20,  100, 2, NUMBERS,    6, 1, 0, 0, 0,  0),
    ROW("numbers, a mask a head and entry",   F16,  F16,   64,  64,  6, 2, 20,  100, 2, NUMBERS,    6, 2, 0, 0, 0,  0),
    ROW("a causal mask a head and entry",     F16,  F16,   64,  64,  6, 2, 20,  100, 2, CAUSAL,     6, 2, 0, 0, 0,  0),
    ROW("sinks",                              F16,  F16,   64,  64,  6, 2, 20,  100, 1, CAUSAL,     1, 1, 1, 0, 0,  0),
    ROW("softcap, and numbers behind it",     F16,  F16,   64,  64,  6, 2, 20,  100, 1, NUMBERS,    1, 1, 0, 0, 0,  5),
    ROW("ALiBi",                              F16,  F16,   64,  64, 12, 4, 20,  100, 2, DISTANCE,   1, 2, 0, 0, 8,  0),
    ROW("ALiBi, one token, sinks",            F16,  F16,   64,  64, 12, 4,  1,  300, 1, DISTANCE,   1, 1, 1, 0, 8,  0),
    ROW("ALiBi, a mask for two entries",      F16,  F16,   64,  64, 12, 4, 20,  100, 2, DISTANCE,   1, 1, 0, 0, 8,  0),
    ROW("ALiBi, twice as steep",              F16,  F16,   64,  64, 12, 4, 20,  100, 1, STEEP,      1, 1, 0, 0, 8,  0),
    ROW("ALiBi, all rows at one place",       F16,  F16,   64,  64, 12, 4, 20,  100, 1, SAME,       1, 1, 0, 0, 8,  0),
    ROW("rows that begin later",              F16,  F16,   64,  64,  6, 2, 20,  100, 1, LATE,       1, 1, 0, 0, 0,  0),
    ROW("the same numbers without a softcap", F16,  F16,   64,  64,  6, 2, 20,  100, 1, NUMBERS,    1, 1, 0, 0, 0,  0),
    ROW("only keys of another type",          F32,  F16,   64,  64,  9, 3,  1,  512, 1, PADDED,     1, 1, 0, 1, 0,  0),
    ROW("ALiBi, max_bias 3",                  F16,  F16,   64,  64, 12, 4, 20,  100, 1, DISTANCE,   1, 1, 0, 0, 3,  0),
    ROW("ALiBi both ways",                    F16,  F16,   64,  64, 12, 4, 20,  100, 2, BOTH_WAYS,  1, 1, 0, 0, 8,  0),
    ROW("ALiBi beyond what float16 counts",   F16,  F16,   64,  64,  3, 1,  2, 3000, 1, DISTANCE,   1, 1, 0, 0, 8,  0),
    ROW("ALiBi, a mask that is causal only",  F16,  F16,   64,  64, 12, 4, 20,  100, 1, CAUSAL,     1, 1, 0, 0, 8,  0),
    ROW("ALiBi, numbers for a head, sinks",   F16,  F16,   64,  64, 12, 4, 20,  100, 2, NUMBERS,   12, 2, 1, 0, 8,  0),
    ROW("values narrower than keys",          F16,  F16,  192, 128,  4, 1,  9,  100, 1, CAUSAL,     1, 1, 0, 1, 0,  0),
    ROW("keys q8_0, values q4_0",             Q8_0, Q4_0, 128, 128,  4, 2,  7,  100, 1, CAUSAL,     1, 1, 0, 1, 0,  0),
    ROW("any head dim",                       F32,  F16,   40,  24,  4, 2,  7,  100, 1, CAUSAL,     1, 1, 0, 0, 0,  0),
};
/* clang-format on */

static ggml_backend_reg_t library;
static ggml_backend_t backend;
static int passed, failed;

static void judge(const char *name, int is_good, const char *what, double value)
{
    printf("%s: %s: %s %g\n", is_good ? "passed" : "FAILED", name, what, value);
    passed += is_good;
    failed += !is_good;
}

static double compute(ggml_backend_t on, const struct node_case *of, unsigned seed)
{
    struct node node;
    node_new(&node, of);
    ggml_backend_buffer_t buffer =
        ggml_backend_alloc_ctx_tensors_from_buft(node.context, ggml_backend_cpu_buffer_type());
    node_fill(&node, of, seed);
    const enum ggml_status status = ggml_backend_graph_compute(on, node.graph);
    const double error = status == GGML_STATUS_SUCCESS ? node_error(&node, of) : 1e30;
    ggml_backend_buffer_free(buffer);
    ggml_free(node.context);
    return error;
}

static int is_taken(const struct node *node)
{
    return ggml_backend_supports_op(backend, node->out);
}

/* The number before `what` in the backend's report. */
static long counted(const char *what)
{
    size_t (*report)(char *, size_t);
    void *address = ggml_backend_reg_get_proc_address(library, "ggml_backend_clattn_report");
    char text[2048];
    if (!address) {
        return -1;
    }
    memcpy(&report, &address, sizeof(report));
    if (report(text, sizeof(text)) >= sizeof(text)) {
        return -1;
    }
    for (char *line = text; *line; line = strchr(line, '\n') + 1) {
        char *end;
        const long count = strtol(line, &end, 10);
        if (strncmp(end + 1, what, strlen(what)) == 0) {
            return count;
        }
    }
    return 0;
}

static void test_case(const struct node_case *of)
{
    struct node node;
    node_new(&node, of);
    const int taken = is_taken(&node);
    ggml_free(node.context);
    if (!taken) {
        judge(of->name, 0, "was declined", 0);
        return;
    }
    const double error = compute(backend, of, 1);
    judge(of->name, error <= ERROR_BOUND, "error", error);
}

/* Tokens of a growing cache: one plan for all, and none is wrong. */
static void test_growing_cache(void)
{
    struct node_case of = {
        "a growing cache", GGML_TYPE_F16, GGML_TYPE_F16, 32, 32, 4, 2, 1, 0, 1, MASK_CAUSAL, 1, 1, 0, 1, 0, 0
    };
    const long before = counted("plans made");
    double error = 0;
    for (of.keys = 1; of.keys <= 200; ++of.keys) {
        const double of_token = compute(backend, &of, (unsigned)of.keys);
        error = of_token > error ? of_token : error;
    }
    judge(of.name, error <= ERROR_BOUND, "error", error);
    judge("plans of a growing cache", counted("plans made") - before == 1, "made",
          (double)(counted("plans made") - before));
}

/* ggml asks, is refused, and the reason was counted once more. */
static void must_decline(const char *name, const struct node_case *of, enum ggml_type query_type, const char *reason)
{
    struct node node;
    const long before = counted(reason);
    node_new(&node, of);
    node.q->type = query_type;
    const int taken = is_taken(&node);
    const long after = counted(reason);
    ggml_free(node.context);
    judge(name, !taken && after == before + 1, "counted", (double)(after - before));
}

static void test_declined(void)
{
    const struct node_case fine = {
        "declined", GGML_TYPE_F16, GGML_TYPE_F16, 32, 32, 4, 2, 3, 40, 1, MASK_CAUSAL, 1, 1, 0, 0, 0, 0
    };
    struct node_case of = fine;
    must_decline("queries of float16", &fine, GGML_TYPE_F16, "queries are not float32");
    of.key_type = GGML_TYPE_IQ4_NL;
    must_decline("a type that clattn has not", &of, GGML_TYPE_F32, "keys or values are of a type");
    of = fine;
    of.mask_heads = 2;
    must_decline("a mask of 2 of 4 heads", &of, GGML_TYPE_F32, "the mask has several heads");
}

/* Two backends at once share what was compiled, and the context lives as long as one of them. */
static void test_two_backends(void)
{
    ggml_backend_t other = ggml_backend_dev_init(ggml_backend_reg_dev_get(library, 0), NULL);
    const double error = compute(other, &cases[0], 2);
    ggml_backend_free(other);
    judge("a second backend", error <= ERROR_BOUND, "error", error);
    const double of_first = compute(backend, &cases[0], 3);
    judge("the first, after it", of_first <= ERROR_BOUND, "error", of_first);
}

/* Threads with a backend each, as programs with several contexts of a model have them. */
static void *compute_often(void *error)
{
    ggml_backend_t own = ggml_backend_dev_init(ggml_backend_reg_dev_get(library, 0), NULL);
    double most = own ? 0 : 1e30;
    for (unsigned n = 0; own && n < 60; ++n) {
        const double one = compute(own, &cases[n % 20], n);
        most = one > most ? one : most;
    }
    if (own) {
        ggml_backend_free(own);
    }
    *(double *)error = most;
    return NULL;
}

static void test_threads(void)
{
    pthread_t threads[4];
    double errors[4], most = 0;
    for (int n = 0; n < 4; ++n) {
        pthread_create(&threads[n], NULL, compute_often, &errors[n]);
    }
    for (int n = 0; n < 4; ++n) {
        pthread_join(threads[n], NULL);
        most = errors[n] > most ? errors[n] : most;
    }
    judge("4 threads", most <= ERROR_BOUND, "error", most);
}

/* What malloc has given and not got back, of all threads. What is resident would hide a leak: a process has hundreds of
 * megabytes that were given back, and a leak goes there first. */
static long in_use_bytes(void)
{
    const struct mallinfo2 info = mallinfo2();
    return (long)(info.uordblks + info.hblkhd);
}

static int compare_long(const void *a, const void *b)
{
    return (*(const long *)a > *(const long *)b) - (*(const long *)a < *(const long *)b);
}

/* Backends that come, compute with what a first one compiled, and go: what each round of them leaves behind. Drivers
 * take memory for their own when their threads decide, so that one round may say anything; what leaks is in every
 * round, and the median tells it. */
static void test_leaks(void)
{
    enum { BACKENDS = 2000, ROUNDS = 5, ALLOWED_BYTES = BACKENDS };
    long grown[1 + ROUNDS], before = 0;
    for (int round = 0; round < 1 + ROUNDS; ++round) {
        for (int n = 0; n < BACKENDS; ++n) {
            ggml_backend_t one = ggml_backend_dev_init(ggml_backend_reg_dev_get(library, 0), NULL);
            if (n % 10 == 0) {
                compute(one, &cases[8], 1);
            }
            ggml_backend_free(one);
        }
        const long after = in_use_bytes();
        grown[round] = after - before;
        before = after;
    }
    qsort(grown + 1, ROUNDS, sizeof(*grown), compare_long); /* the first is what the process had */
    const long median = grown[1 + ROUNDS / 2];
    judge("10,000 backends", median <= ALLOWED_BYTES, "bytes that 2,000 leave behind", (double)median);
}

/* ---- cost -------------------------------------------------------------------------------------- */

static double now_us(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void cost_of(const char *name, ggml_backend_t on, const struct node_case *of, int calls)
{
    struct node node;
    node_new(&node, of);
    ggml_backend_buffer_t buffer =
        ggml_backend_alloc_ctx_tensors_from_buft(node.context, ggml_backend_cpu_buffer_type());
    node_fill(&node, of, 1);
    ggml_backend_graph_compute(on, node.graph);
    double least = 1e30;
    const double processor = now_us(CLOCK_PROCESS_CPUTIME_ID);
    for (int n = 0; n < calls; ++n) {
        const double begin = now_us(CLOCK_MONOTONIC);
        ggml_backend_graph_compute(on, node.graph);
        const double took = now_us(CLOCK_MONOTONIC) - begin;
        least = took < least ? took : least;
    }
    printf("%-9s rows %4d keys %5d: least %9.1f us, of processors %9.1f us a call\n", name, (int)of->rows,
           (int)of->keys, least, (now_us(CLOCK_PROCESS_CPUTIME_ID) - processor) / calls);
    ggml_backend_buffer_free(buffer);
    ggml_free(node.context);
}

static void tell_costs(void)
{
    ggml_backend_t cpu = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(cpu, 2);
    struct node_case of = { "", GGML_TYPE_F16, GGML_TYPE_F16, 64, 64, 9, 3, 1, 1, 1, MASK_CAUSAL, 1, 1, 0, 1, 0, 0 };
    static const struct {
        enum ggml_type type;
        int64_t rows, keys;
        int calls;
    } shapes[] = { { GGML_TYPE_F16, 1, 1, 2000 },    { GGML_TYPE_F16, 1, 128, 2000 }, { GGML_TYPE_F16, 1, 8192, 200 },
                   { GGML_TYPE_Q8_0, 1, 8192, 200 }, { GGML_TYPE_F16, 512, 512, 20 }, { GGML_TYPE_F16, 512, 2048, 10 },
                   { GGML_TYPE_Q8_0, 512, 2048, 10 } };
    for (size_t n = 0; n < sizeof(shapes) / sizeof(shapes[0]); ++n) {
        of.key_type = of.value_type = shapes[n].type;
        of.rows = shapes[n].rows;
        of.keys = shapes[n].keys;
        printf("%s\n", ggml_type_name(of.key_type));
        cost_of("clattn", backend, &of, shapes[n].calls);
        cost_of("ggml", cpu, &of, shapes[n].calls);
        cost_of("clattn", backend, &of, shapes[n].calls);
        cost_of("ggml", cpu, &of, shapes[n].calls);
    }
    ggml_backend_free(cpu);
}

int main(int count, char **words)
{
    library = count > 1 ? ggml_backend_load(words[1]) : NULL;
    if (count > 2 && strcmp(words[2], "--refused") == 0) {
        puts(library ? "taken" : "refused");
        return library != NULL;
    }
    backend = library ? ggml_backend_dev_init(ggml_backend_reg_dev_get(library, 0), NULL) : NULL;
    if (!backend) {
        return 1;
    }
    if (count > 2 && strcmp(words[2], "--cost") == 0) {
        tell_costs();
        ggml_backend_free(backend);
        return 0;
    }
    for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); ++n) {
        test_case(&cases[n]);
    }
    test_growing_cache();
    test_declined();
    test_two_backends();
    test_threads();
    test_leaks();
    ggml_backend_free(backend);
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed > 0;
}
