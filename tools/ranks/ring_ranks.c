/* clattn ring, on the ranks that mpirun started: measures libclattn_mpi's calls on them, and checks their results. A
 * program of its own, which `clattn ring` becomes there, so that `clattn` is not linked with MPI. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "call_times.h"
#include "check_ranks.h"
#include "clattn_mpi.h"
#include "commands.h"
#include "document.h"
#include "library.h"
#include "problem_options.h"
#include "progress.h"
#include "ring_options.h"
#include "ring_share.h"
#include "shard.h"

#define CALLS_LEAST 3
#define CALLS_MOST 100000

struct measured {
    struct times ms;
    int calls;
};

struct subject {
    const struct options *options;
    clattn_problem whole;
    clattn_backward_problem backward;
    clattn_ring_options ring;
    clattn_context *context;
    clattn_mpi *mpi;
    struct shard shard;
    double seconds;
    double pairs, most_pairs; /* of all ranks, and of the one with most to compute */
    double rate;              /* pairs a millisecond of a rank by itself */
    struct measured forward, gradients;
    struct ranks_check check;
};

/* ---- calls ---- */

static clattn_status forward(struct subject *s)
{
    return s->ring.algorithm == CLATTN_RING_TREE
               ? clattn_mpi_decode(s->mpi, &s->whole, NULL, &s->shard.host)
               : clattn_mpi_forward(s->mpi, &s->whole, s->ring.layout, s->ring.algorithm, NULL, &s->shard.host);
}

static clattn_status gradients(struct subject *s)
{
    return clattn_mpi_backward(s->mpi, &s->backward, s->ring.layout, s->ring.algorithm, NULL, &s->shard.host,
                               &s->shard.gradients);
}

/* An even share of the whole, on this rank alone. */
static clattn_status alone(struct subject *s)
{
    clattn_problem p = s->whole;
    clattn_host_tensors t = s->shard.host;
    p.query_len = s->shard.rows.count;
    p.key_len = s->shard.keys.count;
    p.causal = 0;
    p.window_left = p.window_right = -1;
    p.always_visible_keys = 0;
    p.alignment = p.features & CLATTN_WITH_SLOPES ? CLATTN_ALIGN_TOP_LEFT : CLATTN_ALIGN_UNSET;
    return clattn_forward_host(s->context, &p, NULL, &t);
}

/* ---- measuring ---- */

/* Calls of the slowest rank, for about `seconds`; the first, which compiles, does not count. */
static int measure(struct subject *s, clattn_status (*call)(struct subject *s), struct measured *found,
                   struct failure *failure)
{
    double *ms = malloc(CALLS_MOST * sizeof *ms), all = 0;
    int n = -1;
    for (; ms && n < CALLS_MOST && (n < CALLS_LEAST || all < s->seconds * 1e3); n++) {
        MPI_Barrier(MPI_COMM_WORLD);
        const double begin = MPI_Wtime();
        const clattn_status status = call(s);
        if (status != CLATTN_OK) {
            free(ms);
            const char *said = call == alone ? clattn_last_error() : clattn_mpi_last_error(s->mpi);
            return failure_of_library(failure, status == CLATTN_UNSUPPORTED ? EXIT_MISUSE : EXIT_FAILED, said);
        }
        double own = (MPI_Wtime() - begin) * 1e3, most;
        MPI_Allreduce(&own, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        all += n >= 0 ? most : 0;
        ms[n >= 0 ? n : 0] = most;
    }
    if (!ms) {
        return failure_failed(failure, "out of memory");
    }
    *found = (struct measured){ times_of(ms, n), n };
    free(ms);
    return 0;
}

/* What ranks have to compute, by their schedules. */
static int find_pairs(struct subject *s, struct failure *failure)
{
    clattn_ring *ring;
    s->ring.gradients = 0;
    if (clattn_ring_create(&s->whole, &s->ring, &ring) != CLATTN_OK) {
        return failure_of_library(failure, EXIT_MISUSE, clattn_last_error());
    }
    const double own = ring_share_of(ring).pairs;
    clattn_ring_destroy(ring);
    MPI_Allreduce(&own, &s->pairs, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(&own, &s->most_pairs, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return 0;
}

static int measure_all(struct subject *s, struct failure *failure)
{
    const int with_gradients = s->options->value[OPTION_EXPLAIN_BACKWARD] != NULL;
    struct measured share;
    if (find_pairs(s, failure) != 0 || measure(s, alone, &share, failure) != 0 ||
        measure(s, forward, &s->forward, failure) != 0 ||
        (with_gradients && measure(s, gradients, &s->gradients, failure) != 0)) {
        return -1;
    }
    const double heads = (double)(s->whole.batch * s->whole.query_heads);
    double own = heads * (double)(s->shard.rows.count * s->shard.keys.count) / share.ms.min_ms;
    MPI_Allreduce(&own, &s->rate, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
    if (check_ranks(MPI_COMM_WORLD, &s->ring, s->context, &s->shard, with_gradients, &s->check, failure) != 0) {
        return -1;
    }
    int64_t looked_at[2] = { s->check.rows, s->check.keys };
    double share_of_bound = isnan(s->check.share) ? INFINITY : s->check.share;
    MPI_Allreduce(MPI_IN_PLACE, looked_at, 2, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &share_of_bound, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    s->check = (struct ranks_check){ share_of_bound, looked_at[0], looked_at[1] };
    return 0;
}

/* ---- telling, by rank 0 ---- */

/* Milliseconds of the forward call, were its pairs divided evenly and nothing waited for. */
static double even_ms(const struct subject *s)
{
    return s->pairs / (double)s->ring.ranks / s->rate;
}

static double balance(const struct subject *s)
{
    return s->pairs > 0 ? s->most_pairs / (s->pairs / (double)s->ring.ranks) : 1;
}

static void print_text(const struct subject *s)
{
    char device[256];
    library_device_name(s->context, device, sizeof device);
    printf("%lld ranks, each with one device: %s\n%s", (long long)s->ring.ranks, device, clattn_mpi_explain(s->mpi));
    printf("\n%-10s %12s %12s %7s\n", "", "least", "median", "calls");
    printf("%-10s %9.3f ms %9.3f ms %7d   %.0f %% of attention alone, divided evenly (%.3f ms)\n", "forward",
           s->forward.ms.min_ms, s->forward.ms.median_ms, s->forward.calls, 100 * even_ms(s) / s->forward.ms.min_ms,
           even_ms(s));
    if (s->gradients.calls) {
        printf("%-10s %9.3f ms %9.3f ms %7d\n", "backward", s->gradients.ms.min_ms, s->gradients.ms.median_ms,
               s->gradients.calls);
    }
    printf("balance: the rank with most to compute has %.2f times the mean\n", balance(s));
    printf("check:   %lld rows and %lld keys of all ranks, error %.2g of what is allowed\n", (long long)s->check.rows,
           (long long)s->check.keys, s->check.share);
}

static void add_times(cJSON *document, const char *name, const struct measured *found)
{
    cJSON *one = cJSON_AddObjectToObject(document, name);
    cJSON_AddNumberToObject(one, "least_ms", found->ms.min_ms);
    cJSON_AddNumberToObject(one, "median_ms", found->ms.median_ms);
    cJSON_AddNumberToObject(one, "calls", found->calls);
}

static int print_json(const struct subject *s, struct failure *failure)
{
    cJSON *document = document_begin("ring", s->context);
    cJSON_AddNumberToObject(document, "ranks", (double)s->ring.ranks);
    add_times(document, "forward", &s->forward);
    if (s->gradients.calls) {
        add_times(document, "backward", &s->gradients);
    }
    cJSON_AddNumberToObject(document, "even_ms", even_ms(s));
    cJSON_AddNumberToObject(document, "balance", balance(s));
    cJSON_AddNumberToObject(document, "error_share", s->check.share);
    document_add_lines(document, "explanation", clattn_mpi_explain(s->mpi));
    return document_print(document, failure);
}

static int tell(const struct subject *s, struct failure *failure)
{
    if (s->ring.rank == 0 && s->options->value[OPTION_JSON]) {
        if (print_json(s, failure) != 0) {
            return -1;
        }
    } else if (s->ring.rank == 0) {
        print_text(s);
    }
    return s->check.share <= 1 ? 0 : failure_failed(failure, "the results of ranks are not those of the whole");
}

/* ---- running ---- */

static int run_subject(struct subject *s, struct failure *failure)
{
    const int with_gradients = s->options->value[OPTION_EXPLAIN_BACKWARD] != NULL;
    if (library_open(s->options, &s->context, failure) != 0) {
        return -1;
    }
    if (clattn_mpi_create(MPI_COMM_WORLD, s->context, &s->mpi) != CLATTN_OK) {
        return failure_failed(failure, "MPI: gives no MPI_THREAD_FUNNELED");
    }
    return shard_make(&s->whole, &s->ring, s->ring.algorithm == CLATTN_RING_TREE, with_gradients, &s->shard, failure) !=
                       0 ||
                   measure_all(s, failure) != 0
               ? -1
               : tell(s, failure);
}

static int run(const struct options *options, struct failure *failure)
{
    struct subject s = { .options = options, .whole = CLATTN_PROBLEM_INIT, .ring = CLATTN_RING_OPTIONS_INIT };
    const clattn_backward_problem backward = CLATTN_BACKWARD_PROBLEM_INIT;
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ring_options_read_measured(options, &s.whole, &s.ring, &s.seconds, failure) != 0) {
        return -1;
    }
    s.ring.rank = rank;
    s.ring.ranks = ranks;
    s.whole.features |= CLATTN_WITH_LSE;
    s.backward = backward;
    s.backward.forward = &s.whole;
    s.backward.gradients = CLATTN_GRADIENT_QUERY | CLATTN_GRADIENT_KEY | CLATTN_GRADIENT_VALUE;
    const int result = run_subject(&s, failure);
    shard_free(&s.shard);
    clattn_mpi_destroy(s.mpi);
    clattn_context_destroy(s.context);
    return result;
}

int main(int argc, char **argv)
{
    struct failure failure = { EXIT_GOOD, "" };
    struct options options;
    int level, result;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    result = options_parse(&command_ring, argc - 2, argv + 2, &options, &failure);
    result = result == 0 ? run(&options, &failure) : result;
    fflush(stdout);
    if (result < 0) {
        MPI_Abort(MPI_COMM_WORLD, failure_report(&failure, command_ring.name));
    }
    MPI_Finalize();
    return EXIT_GOOD;
}
