/* The backend of plugins/ggml, loaded as programs load it: each node against float64 attention of the same inputs.
 *
 *     usage: ggml_nodes LIBRARY            the tests; the last line says "N passed, N failed, N skipped"
 *            ggml_nodes LIBRARY --refused  whether ggml refuses the library, without a crash
 *            ggml_nodes LIBRARY --for-ever tells the bits of a result, and computes until it is killed
 *            ggml_nodes LIBRARY --once     tells those bits
 *            ggml_nodes LIBRARY --cost     microseconds of a call beside those of ggml's own CPU backend
 */
#include "ggml_cases.h"
#include "nodes.h"

#include "ggml-cpu.h"

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static ggml_backend_reg_t library;
static ggml_backend_t backend;
static int passed, failed;

static void judge(const char *name, int is_good, const char *what, double value)
{
    printf("%s: %s: %s %g\n", is_good ? "passed" : "FAILED", name, what, value);
    passed += is_good;
    failed += !is_good;
}

/* A node with inputs, in memory that is returned. */
static ggml_backend_buffer_t filled(struct node *node, const struct node_case *of, unsigned seed)
{
    node_new(node, of);
    ggml_backend_buffer_t buffer =
        ggml_backend_alloc_ctx_tensors_from_buft(node->context, ggml_backend_cpu_buffer_type());
    node_fill(node, of, seed);
    return buffer;
}

static double compute(ggml_backend_t on, const struct node_case *of, unsigned seed)
{
    struct node node;
    ggml_backend_buffer_t buffer = filled(&node, of, seed);
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

/* Lists of keys where n_kv_max promises that rows choose few of many; where it lies, the mask is what counts. */
static void test_chosen_keys(void)
{
    struct node_case of = {
        "chosen keys", GGML_TYPE_F16, GGML_TYPE_F16, 64, 64, 6, 2, 20, 1024, 1, MASK_CHOSEN_NUMBERS, 1, 1, 0, 0, 0, 5
    };
    static const struct {
        const char *name;
        enum mask_kind mask;
        int64_t mask_heads;
        long lists;
    } rows[] = { { "numbers for chosen keys", MASK_CHOSEN_NUMBERS, 1, 1 },
                 { "chosen keys of each head", MASK_CHOSEN, 6, 0 },
                 { "more keys than n_kv_max says", MASK_CHOSEN_WRONG, 1, 0 } };
    for (size_t n = 0; n < sizeof(rows) / sizeof(rows[0]); ++n) {
        of.mask = rows[n].mask;
        of.mask_heads = rows[n].mask_heads;
        const long before = counted("of them by lists of keys");
        const double error = compute(backend, &of, 1);
        const long lists = counted("of them by lists of keys") - before;
        judge(rows[n].name, error <= ERROR_BOUND && lists == rows[n].lists, "error", error);
    }
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

/* ---- a process that will be killed ---------------------------------------------------------------- */

/* FNV-1a of the bits of a result. */
static uint64_t bits_of(const struct node_case *of)
{
    struct node node;
    ggml_backend_buffer_t buffer = filled(&node, of, 1);
    uint64_t hash = 14695981039346656037u;
    ggml_backend_graph_compute(backend, node.graph);
    for (size_t at = 0; at < ggml_nbytes(node.out); ++at) {
        hash = (hash ^ ((const unsigned char *)node.out->data)[at]) * 1099511628211u;
    }
    ggml_backend_buffer_free(buffer);
    ggml_free(node.context);
    return hash;
}

static void tell_bits(int for_ever)
{
    printf("%016llx %016llx\n", (unsigned long long)bits_of(&cases[1]), (unsigned long long)bits_of(&cases[11]));
    fflush(stdout);
    while (for_ever) {
        bits_of(&cases[1]);
    }
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
    ggml_backend_buffer_t buffer = filled(&node, of, 1);
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
        enum mask_kind mask;
        int64_t rows, keys;
        int calls;
    } shapes[] = {
        { GGML_TYPE_F16, MASK_CAUSAL, 1, 1, 2000 },     { GGML_TYPE_F16, MASK_CAUSAL, 1, 128, 2000 },
        { GGML_TYPE_F16, MASK_CAUSAL, 1, 8192, 200 },   { GGML_TYPE_Q8_0, MASK_CAUSAL, 1, 8192, 200 },
        { GGML_TYPE_F16, MASK_CAUSAL, 512, 512, 20 },   { GGML_TYPE_F16, MASK_CAUSAL, 512, 2048, 10 },
        { GGML_TYPE_Q8_0, MASK_CAUSAL, 512, 2048, 10 }, { GGML_TYPE_F16, MASK_CHOSEN, 1, 8192, 200 },
        { GGML_TYPE_F16, MASK_CHOSEN, 64, 8192, 10 },
    };
    for (size_t n = 0; n < sizeof(shapes) / sizeof(shapes[0]); ++n) {
        of.key_type = of.value_type = shapes[n].type;
        of.mask = shapes[n].mask;
        of.rows = shapes[n].rows;
        of.keys = shapes[n].keys;
        printf("%s%s\n", ggml_type_name(of.key_type), of.mask == MASK_CHOSEN ? ", one key of eight" : "");
        for (int turn = 0; turn < 2; ++turn) {
            cost_of("clattn", backend, &of, shapes[n].calls);
            cost_of("ggml", cpu, &of, shapes[n].calls);
        }
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
    if (count > 2) {
        tell_bits(strcmp(words[2], "--for-ever") == 0);
        ggml_backend_free(backend);
        return 0;
    }
    for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); ++n) {
        test_case(&cases[n]);
    }
    test_growing_cache();
    test_chosen_keys();
    test_declined();
    test_two_backends();
    test_threads();
    test_leaks();
    ggml_backend_free(backend);
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed > 0;
}
