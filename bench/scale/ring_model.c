/* Plays a schedule of clattn_ring.h on SimGrid's simulated MPI: messages of the right size to the right rank, as
 * libclattn_mpi sends them, and for each partial call as much simulated time as the words (words.h) say it takes.
 * Nothing is computed, and all ranks share one buffer, whose contents mean nothing.
 *
 * Prints: seconds of the call, of the slowest rank's computing, and of computing divided evenly. */
#include <mpi.h>

#include "clattn_ring.h"
#include "words.h"

#define MESSAGES_MOST 16 /* of a step */
#define ROWS_LOOKED_AT 4096
#define SHRINK 1024.0 /* messages are as many times smaller, and so is the bandwidth (model.py) */

struct model {
    const double *values;
    clattn_problem whole;
    clattn_ring *ring;
    char *buffer;
    MPI_Request requests[MESSAGES_MOST], sent, last;
    double computed_s;
};

/* smpi_execute counts seconds of a host of the platform, all of which are alike. */
static void compute(struct model *model, double seconds)
{
    model->computed_s += seconds;
    smpi_execute(seconds);
}

/* Pairs of a row and a key, in each head; of more than ROWS_LOOKED_AT rows so many are looked at, evenly. */
static double pairs_of(const struct model *model, const clattn_ring_task *task)
{
    const clattn_ring_piece *rows = &task->rows, *keys = &task->keys;
    if (!model->whole.causal) {
        return (double)rows->count * (double)keys->count;
    }
    const int64_t looks = rows->count < ROWS_LOOKED_AT ? rows->count : ROWS_LOOKED_AT;
    double pairs = 0;
    for (int64_t n = 0; n < looks; ++n) {
        const int64_t row = rows->first + (n * rows->count / looks) * rows->step;
        const int64_t before = row < keys->first ? 0 : (row - keys->first) / keys->step + 1;
        pairs += (double)(before < keys->count ? before : keys->count);
    }
    return looks > 0 ? pairs * (double)rows->count / (double)looks : 0;
}

/* As mpi/shards.c packs them: keys and values in their type, sums in float64. */
static double bytes_of(const struct model *model, const clattn_ring_message *message)
{
    const clattn_problem *p = &model->whole;
    const double row = (double)clattn_row_bytes(p->type, p->head_dim);
    const double of_row[CLATTN_RING_CONTENTS] = { 0, 2 * (double)p->kv_heads * row, (double)p->query_heads * row,
                                                  (double)p->query_heads * 8 * (double)(p->head_dim + 1), 0 };
    const int64_t rows = message->content == CLATTN_RING_OF_KEYS ? clattn_ring_keys(model->ring, message->shard)
                         : message->shard < 0                    ? p->query_len
                                                                 : clattn_ring_rows(model->ring, message->shard);
    return of_row[message->content] * (double)rows;
}

/* A partial call, and adding its results to the sum. */
static double task_s(const struct model *model, const clattn_ring_task *task)
{
    const double heads = (double)model->whole.query_heads, columns = (double)model->whole.head_dim;
    return model->values[WORD_TASK] + pairs_of(model, task) * heads * 4 * columns / model->values[WORD_FLOPS] +
           (double)task->rows.count * heads * columns / model->values[WORD_SUMS];
}

/* Adding a sum that came. */
static double sum_s(const struct model *model, const clattn_ring_message *message)
{
    return message->use == CLATTN_RING_USE_PUT ? 0 : bytes_of(model, message) / 8 / model->values[WORD_SUMS];
}

/* Adds to *carried the bytes that processors of the device carry. */
static MPI_Request start(const struct model *model, const clattn_ring_message *message, double *carried)
{
    const double bytes = bytes_of(model, message);
    const int count = (int)(bytes / SHRINK);
    MPI_Request request;
    if (message->is_send) {
        *carried += bytes;
        MPI_Isend(model->buffer, count, MPI_BYTE, (int)message->peer, message->tag, MPI_COMM_WORLD, &request);
    } else {
        MPI_Irecv(model->buffer, count, MPI_BYTE, (int)message->peer, message->tag, MPI_COMM_WORLD, &request);
    }
    return request;
}

/* As mpi/ranks.c plays it. */
static void play_step(struct model *model, const clattn_ring_step *step)
{
    int count = 0;
    double carried = 0;
    for (int64_t n = 0; n < step->messages; ++n) {
        if (step->message[n].when == CLATTN_RING_WHEN_BEGIN) {
            model->requests[count++] = start(model, &step->message[n], &carried);
        }
    }
    compute(model, carried * model->values[WORD_BYTE]);
    for (int64_t n = 0; n < step->tasks; ++n) {
        compute(model, task_s(model, &step->task[n]));
    }
    MPI_Waitall(count, model->requests, MPI_STATUSES_IGNORE);
    for (int64_t n = 0; n < step->messages; ++n) {
        if (!step->message[n].is_send && step->message[n].when == CLATTN_RING_WHEN_BEGIN &&
            step->message[n].content >= CLATTN_RING_OF_RESULTS) {
            compute(model, sum_s(model, &step->message[n]));
        }
    }
    MPI_Wait(&model->sent, MPI_STATUS_IGNORE);
    for (int64_t n = 0; n < step->messages; ++n) {
        if (step->message[n].when == CLATTN_RING_WHEN_END) {
            model->sent = start(model, &step->message[n], &carried);
        }
    }
}

static void play(struct model *model)
{
    clattn_ring_step step;
    double carried = 0;
    for (int64_t n = 0; n < clattn_ring_steps(model->ring); ++n) {
        clattn_ring_step_at(model->ring, n, &step);
        for (int64_t i = 0; i < step.messages && n == 0; ++i) {
            if (step.message[i].when == CLATTN_RING_WHEN_LAST) {
                model->last = start(model, &step.message[i], &carried);
            }
        }
        play_step(model, &step);
    }
    MPI_Wait(&model->sent, MPI_STATUS_IGNORE);
    MPI_Wait(&model->last, MPI_STATUS_IGNORE);
}

static double largest_message(const struct model *model)
{
    double most = 1;
    clattn_ring_step step;
    for (int64_t n = 0; n < clattn_ring_steps(model->ring); ++n) {
        clattn_ring_step_at(model->ring, n, &step);
        for (int64_t i = 0; i < step.messages; ++i) {
            const double bytes = bytes_of(model, &step.message[i]);
            most = bytes > most ? bytes : most;
        }
    }
    return most;
}

int main(int argc, char **argv)
{
    double values[WORDS];
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    words_read(argc, argv, values);
    const clattn_ring_options options = options_of(values, rank, ranks);
    static struct model model;
    model.values = values;
    model.whole = problem_of(values);
    model.sent = model.last = MPI_REQUEST_NULL;
    if (clattn_ring_create(&model.whole, &options, &model.ring) != CLATTN_OK) {
        fprintf(stderr, "%s\n", clattn_last_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (clattn_ring_chosen(model.ring) == CLATTN_RING_HEADS) { /* whose steps have two messages for each rank */
        fprintf(stderr, "algorithm=auto: took heads, which are not modelled; name another\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    model.buffer = SMPI_SHARED_MALLOC((size_t)(largest_message(&model) / SHRINK) + 1);
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    compute(&model, values[WORD_OWN] *
                        (double)(clattn_ring_rows(model.ring, rank) * model.whole.query_heads * model.whole.head_dim));
    play(&model);
    MPI_Barrier(MPI_COMM_WORLD);
    const double whole_s = MPI_Wtime() - begin;
    double most, sum;
    MPI_Reduce(&model.computed_s, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&model.computed_s, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%.6f %.6f %.6f\n", whole_s, most, sum / ranks);
    }
    SMPI_SHARED_FREE(model.buffer);
    clattn_ring_destroy(model.ring);
    MPI_Finalize();
    return 0;
}
