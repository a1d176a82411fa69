/* Measures clattn_mpi_forward on the ranks and the network that mpirun gives, for ring_model.c to be compared with: the
 * same words (words.h), and two lines.
 *
 * Prints what the model needs (as words flops=, sums=, task=, byte=, own=), found on all ranks at once; then seconds of
 * the call, the least and the median, and of computing alone, divided evenly. */
#include <mpi.h>

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "clattn_mpi.h"
#include "words.h"

#define CALLS_MOST 1000
#define SMALL 64 /* rows and keys of the call whose time is all overhead */

static void end_if(int failed, const char *text)
{
    if (failed) {
        fprintf(stderr, "%s\n", text);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* ---- data ---------------------------------------------------------------------------------------- */

static void *numbers(int64_t count, clattn_type type)
{
    float *wide = malloc((size_t)count * sizeof(*wide)), *made = malloc((size_t)count * sizeof(*made));
    end_if(!wide || !made, "out of memory");
    for (int64_t n = 0; n < count; ++n) {
        wide[n] = (float)((n * 2654435761u) % 4096) / 2048.0f - 1.0f;
    }
    end_if(clattn_quantise(type, count, wide, NULL, 0, made) != CLATTN_OK, clattn_last_error());
    free(wide);
    return made;
}

static clattn_host_tensors tensors_of(const clattn_problem *p, int64_t rows, int64_t keys)
{
    clattn_host_tensors t = CLATTN_HOST_TENSORS_INIT;
    const int64_t queries = p->query_heads * rows, all_keys = p->kv_heads * keys;
    t.query = clattn_host_tensor_bhsd(numbers(queries * p->head_dim, p->type), p->query_heads, rows, p->head_dim);
    t.key = clattn_host_tensor_bhsd(numbers(all_keys * p->head_dim, p->type), p->kv_heads, keys, p->head_dim);
    t.value = clattn_host_tensor_bhsd(numbers(all_keys * p->head_dim, p->type), p->kv_heads, keys, p->head_dim);
    t.out = clattn_host_tensor_bhsd(numbers(queries * p->head_dim, CLATTN_FLOAT32), p->query_heads, rows, p->head_dim);
    t.lse = clattn_host_tensor_bhsd(numbers(queries, CLATTN_FLOAT32), p->query_heads, rows, 1);
    return t;
}

/* ---- measuring ----------------------------------------------------------------------------------- */

static int compare_doubles(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Seconds of the slowest rank, sorted; the first call, which compiles, is left out. */
static int measure(double seconds[CALLS_MOST], int calls, clattn_status (*call)(void *argument), void *argument)
{
    calls = calls < CALLS_MOST ? calls : CALLS_MOST;
    for (int n = -1; n < calls; ++n) {
        MPI_Barrier(MPI_COMM_WORLD);
        const double begin = MPI_Wtime();
        end_if(call(argument) != CLATTN_OK, clattn_last_error());
        double own = MPI_Wtime() - begin, most;
        MPI_Allreduce(&own, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (n >= 0) {
            seconds[n] = most;
        }
    }
    qsort(seconds, (size_t)calls, sizeof(*seconds), compare_doubles);
    return calls;
}

struct local {
    clattn_context *context;
    clattn_problem problem;
    clattn_host_tensors tensors;
    double *sum_out, *sum_lse;
};

static clattn_status compute(void *argument)
{
    struct local *local = argument;
    return clattn_forward_host(local->context, &local->problem, NULL, &local->tensors);
}

static clattn_status merge(void *argument)
{
    struct local *local = argument;
    clattn_ring_merge(local->problem.query_heads * local->problem.query_len, local->problem.head_dim,
                      local->tensors.out.data, local->tensors.lse.data, local->sum_out, local->sum_lse);
    return CLATTN_OK;
}

/* What a partial call of that many rows and keys takes at least, on all ranks at once. */
static double local_s(struct local *local, const double values[WORDS], int64_t rows, int64_t keys,
                      clattn_status (*call)(void *argument))
{
    double seconds[CALLS_MOST];
    local->problem = problem_of(values);
    local->problem.causal = 0;
    local->problem.alignment = CLATTN_ALIGN_UNSET;
    local->problem.query_len = rows;
    local->problem.key_len = keys;
    local->problem.out_type = CLATTN_FLOAT32;
    local->tensors = tensors_of(&local->problem, rows, keys);
    local->sum_out = calloc((size_t)(local->problem.query_heads * rows * local->problem.head_dim), sizeof(double));
    local->sum_lse = calloc((size_t)(local->problem.query_heads * rows), sizeof(double));
    measure(seconds, (int)values[WORD_CALLS], call, local);
    return seconds[0];
}

struct busy {
    struct local *local;
    int64_t calls;
    atomic_int is_done;
};

static void *compute_all(void *argument)
{
    struct busy *busy = argument;
    for (int64_t n = 0; n < busy->calls; ++n) {
        compute(busy->local);
    }
    atomic_store(&busy->is_done, 1);
    return NULL;
}

/* To the next rank, from the one before, all at once, while the device has `calls` to compute. Seconds until both are
 * done, the least of some. */
static double exchange_s(struct local *local, int64_t calls, int rank, int ranks, char *memory, size_t bytes)
{
    const struct timespec nap = { 0, 200000 };
    double least = 1e9;
    for (int n = 0; n < 4; ++n) {
        struct busy busy = { local, calls, calls == 0 };
        pthread_t thread;
        MPI_Request requests[2];
        MPI_Barrier(MPI_COMM_WORLD);
        const double begin = MPI_Wtime();
        end_if(calls > 0 && pthread_create(&thread, NULL, compute_all, &busy) != 0, "no thread");
        if (bytes > 0) {
            MPI_Isend(memory, (int)bytes, MPI_BYTE, (rank + 1) % ranks, 1, MPI_COMM_WORLD, &requests[0]);
            MPI_Irecv(memory + bytes, (int)bytes, MPI_BYTE, (rank + ranks - 1) % ranks, 1, MPI_COMM_WORLD,
                      &requests[1]);
            for (int is_done = 0; !is_done; nanosleep(&nap, NULL)) {
                MPI_Testall(2, requests, &is_done, MPI_STATUSES_IGNORE);
            }
        }
        if (calls > 0) {
            pthread_join(thread, NULL);
        }
        const double own = MPI_Wtime() - begin;
        double most;
        MPI_Allreduce(&own, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        least = most < least ? most : least;
    }
    return least;
}

/* How much longer the device computes for a byte that is sent and one that is received meanwhile: processors that
 * compute carry messages too. */
static double byte_s(struct local *local, int rank, int ranks, size_t bytes)
{
    char *memory = calloc(2, bytes);
    end_if(!memory, "out of memory");
    const double moving = exchange_s(local, 0, rank, ranks, memory, bytes);
    const double one = exchange_s(local, 1, rank, ranks, memory, 0);
    const int64_t calls = 1 + (int64_t)(2 * moving / one);
    const double more = exchange_s(local, calls, rank, ranks, memory, bytes) -
                        exchange_s(local, calls, rank, ranks, memory, 0);
    free(memory);
    return more > 0 ? more / (double)bytes : 0;
}

struct shared {
    clattn_mpi *mpi;
    clattn_problem whole;
    clattn_ring_layout layout;
    clattn_ring_algorithm algorithm;
    clattn_host_tensors tensors;
};

static clattn_status play(void *argument)
{
    struct shared *shared = argument;
    return clattn_mpi_forward(shared->mpi, &shared->whole, shared->layout, shared->algorithm, NULL, &shared->tensors);
}

/* Seconds that clattn_mpi_forward takes beside its one partial call, for each number of the results: a rank alone, with
 * few keys. */
static double own_s(struct local *local, const double values[WORDS], int64_t rows)
{
    double seconds[CALLS_MOST];
    const double alone = local_s(local, values, rows, SMALL, compute);
    struct shared shared = { .whole = local->problem,
                             .layout = CLATTN_RING_CONTIGUOUS,
                             .algorithm = CLATTN_RING_KEYS,
                             .tensors = local->tensors };
    end_if(clattn_mpi_create(MPI_COMM_SELF, local->context, &shared.mpi) != CLATTN_OK, "clattn_mpi_create failed");
    measure(seconds, (int)values[WORD_CALLS], play, &shared);
    clattn_mpi_destroy(shared.mpi);
    const double own = seconds[0] > alone ? seconds[0] - alone : 0;
    return own / ((double)rows * values[WORD_HEADS] * values[WORD_COLUMNS]);
}

/* Sets what the model needs. */
static void calibrate(clattn_context *context, int rank, int ranks, double values[WORDS])
{
    struct local local = { .context = context };
    const int64_t rows = (int64_t)values[WORD_ROWS] / (2 * ranks), keys = (int64_t)values[WORD_KEYS] / (2 * ranks);
    const double numbers_out = (double)rows * values[WORD_HEADS] * values[WORD_COLUMNS];
    const double small = local_s(&local, values, SMALL, SMALL, compute);
    const double large = local_s(&local, values, rows, keys, compute);
    values[WORD_TASK] = small;
    values[WORD_FLOPS] = 4 * numbers_out * (double)keys / (large > small ? large - small : large);
    if (ranks > 1) {
        values[WORD_BYTE] = byte_s(&local, rank, ranks, (size_t)(4 * numbers_out));
    }
    values[WORD_OWN] = own_s(&local, values, rows);
    values[WORD_SUMS] = numbers_out / local_s(&local, values, rows, keys, merge);
}

int main(int argc, char **argv)
{
    double values[WORDS], seconds[CALLS_MOST];
    int provided, rank, ranks;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    words_read(argc, argv, values);
    clattn_context *context;
    clattn_ring *ring;
    struct shared shared = { .whole = problem_of(values) };
    const clattn_ring_options options = options_of(values, rank, ranks);
    end_if(clattn_context_open(NULL, NULL, &context) != CLATTN_OK, clattn_last_error());
    end_if(clattn_mpi_create(MPI_COMM_WORLD, context, &shared.mpi) != CLATTN_OK, "clattn_mpi_create failed");
    end_if(clattn_ring_create(&shared.whole, &options, &ring) != CLATTN_OK, clattn_last_error());
    calibrate(context, rank, ranks, values);
    shared.layout = options.layout;
    shared.algorithm = options.algorithm;
    shared.tensors = tensors_of(&shared.whole, clattn_ring_rows(ring, rank), clattn_ring_keys(ring, rank));
    const int calls = measure(seconds, (int)values[WORD_CALLS], play, &shared);
    if (rank == 0) {
        const double pairs = values[WORD_ROWS] * values[WORD_KEYS] * (values[WORD_CAUSAL] > 0 ? 0.5 : 1);
        const double even = pairs * values[WORD_HEADS] * 4 * values[WORD_COLUMNS] / values[WORD_FLOPS] / ranks;
        printf("flops=%.4g sums=%.4g task=%.3g byte=%.3g own=%.3g\n", values[WORD_FLOPS], values[WORD_SUMS],
               values[WORD_TASK], values[WORD_BYTE], values[WORD_OWN]);
        printf("%.6f %.6f %.6f\n", seconds[0], seconds[calls / 2], even);
    }
    clattn_ring_destroy(ring);
    clattn_mpi_destroy(shared.mpi);
    clattn_context_destroy(context);
    MPI_Finalize();
    return 0;
}
