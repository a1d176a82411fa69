/* The exported functions of clattn_mpi.h: MPI as a carrier of messages. Errors of MPI itself end the program, as the
 * communicator's error handler does it. */
#include "clattn_mpi.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ranks.h"

#define CHUNK_BYTES ((size_t)1 << 30) /* MPI counts in int */

struct clattn_mpi {
    MPI_Comm communicator;
    clattn_context *context;
    struct failure failure;
    char *explained; /* NULL: nothing was */
};

/* ---- a carrier ------------------------------------------------------------------------------------ */

struct request {
    int count;
    MPI_Request parts[];
};

static int chunks(size_t bytes)
{
    return (int)((bytes + CHUNK_BYTES - 1) / CHUNK_BYTES) + (bytes == 0);
}

static void *start(struct clattn_mpi *mpi, int is_send, int64_t peer, int tag, char *data, size_t bytes)
{
    const int count = chunks(bytes);
    struct request *request = malloc(sizeof(*request) + (size_t)count * sizeof(MPI_Request));
    if (!request) {
        MPI_Abort(mpi->communicator, 1); /* the other rank waits for it */
        return NULL;
    }
    request->count = count;
    for (int n = 0; n < count; ++n) {
        const size_t at = (size_t)n * CHUNK_BYTES;
        const int part = (int)(bytes - at < CHUNK_BYTES ? bytes - at : CHUNK_BYTES);
        if (is_send) {
            MPI_Isend(data + at, part, MPI_BYTE, (int)peer, tag, mpi->communicator, &request->parts[n]);
        } else {
            MPI_Irecv(data + at, part, MPI_BYTE, (int)peer, tag, mpi->communicator, &request->parts[n]);
        }
    }
    return request;
}

static void *send_by_mpi(void *self, int64_t peer, int tag, const void *data, size_t bytes)
{
    return start(self, 1, peer, tag, (char *)(uintptr_t)data, bytes);
}

static void *receive_by_mpi(void *self, int64_t peer, int tag, void *data, size_t bytes)
{
    return start(self, 0, peer, tag, data, bytes);
}

static int is_done(void *self, void *handle)
{
    struct request *request = handle;
    int done = 1;
    (void)self;
    for (int n = 0; n < request->count; ++n) {
        int part_is_done = 0;
        MPI_Status status; /* not MPI_STATUS_IGNORE, an address that makes compilers warn in MPICH */
        MPI_Test(&request->parts[n], &part_is_done, &status);
        done &= part_is_done;
    }
    if (done) {
        free(request);
    }
    return done;
}

/* The device may be the cores that MPI's polling would take. */
static void rest(void *self, int64_t ns)
{
    const struct timespec nap = { 0, (long)ns };
    (void)self;
    nanosleep(&nap, NULL);
}

static void largest(void *self, int64_t *values, int count)
{
    struct clattn_mpi *mpi = self;
    MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_INT64_T, MPI_MAX, mpi->communicator);
}

static void tell(void *self, int64_t root, void *data, int bytes)
{
    struct clattn_mpi *mpi = self;
    MPI_Bcast(data, bytes, MPI_BYTE, (int)root, mpi->communicator);
}

static struct carrier carrier_of(struct clattn_mpi *mpi)
{
    struct carrier carrier = { .self = mpi,
                               .send = send_by_mpi,
                               .receive = receive_by_mpi,
                               .is_done = is_done,
                               .rest = rest,
                               .largest = largest,
                               .tell = tell };
    int rank, ranks;
    MPI_Comm_rank(mpi->communicator, &rank);
    MPI_Comm_size(mpi->communicator, &ranks);
    carrier.rank = rank;
    carrier.ranks = ranks;
    return carrier;
}

/* ---- the functions ----------------------------------------------------------------------------------- */

clattn_status clattn_mpi_create(MPI_Comm communicator, clattn_context *context, clattn_mpi **mpi)
{
    int level = MPI_THREAD_SINGLE;
    if (!context || !mpi) {
        return CLATTN_INVALID_ARGUMENT;
    }
    *mpi = NULL;
    MPI_Query_thread(&level);
    if (level < MPI_THREAD_FUNNELED) {
        return CLATTN_UNSUPPORTED;
    }
    clattn_mpi *made = calloc(1, sizeof(*made));
    if (!made) {
        return CLATTN_OUT_OF_HOST_MEMORY;
    }
    made->context = context;
    MPI_Comm_dup(communicator, &made->communicator);
    *mpi = made;
    return CLATTN_OK;
}

void clattn_mpi_destroy(clattn_mpi *mpi)
{
    if (mpi) {
        MPI_Comm_free(&mpi->communicator);
        free(mpi->explained);
        free(mpi);
    }
}

const char *clattn_mpi_last_error(const clattn_mpi *mpi)
{
    return mpi ? mpi->failure.text : "";
}

const char *clattn_mpi_explain(const clattn_mpi *mpi)
{
    return mpi && mpi->explained ? mpi->explained : "";
}

/* What succeeds leaves the message of what failed before. */
static clattn_status run(clattn_mpi *mpi, struct rank_call *call)
{
    const struct carrier carrier = carrier_of(mpi);
    struct failure failure;
    char *explained = NULL;
    call->context = mpi->context;
    call->explained = &explained;
    const clattn_status status = ranks_run(&carrier, call, &failure);
    if (status != CLATTN_OK) {
        mpi->failure = failure;
    }
    if (explained) {
        free(mpi->explained);
        mpi->explained = explained;
    }
    return status;
}

clattn_status clattn_mpi_forward(clattn_mpi *mpi, const clattn_problem *whole, clattn_ring_layout layout,
                                 clattn_ring_algorithm algorithm, const clattn_call *call,
                                 const clattn_host_tensors *tensors)
{
    struct rank_call of = {
        .whole = whole, .layout = layout, .algorithm = algorithm, .call = call, .tensors = tensors
    };
    return mpi && whole && tensors ? run(mpi, &of) : CLATTN_INVALID_ARGUMENT;
}

clattn_status clattn_mpi_backward(clattn_mpi *mpi, const clattn_backward_problem *problem, clattn_ring_layout layout,
                                  clattn_ring_algorithm algorithm, const clattn_call *call,
                                  const clattn_host_tensors *tensors, const clattn_host_gradients *gradients)
{
    struct rank_call of = { .backward = problem,
                            .layout = layout,
                            .algorithm = algorithm,
                            .call = call,
                            .tensors = tensors,
                            .gradients = gradients };
    return mpi && problem && problem->forward && tensors && gradients ? run(mpi, &of) : CLATTN_INVALID_ARGUMENT;
}

clattn_status clattn_mpi_decode(clattn_mpi *mpi, const clattn_problem *whole, const clattn_call *call,
                                const clattn_host_tensors *tensors)
{
    struct rank_call of = { .whole = whole, .algorithm = CLATTN_RING_TREE, .call = call, .tensors = tensors };
    return mpi && whole && tensors ? run(mpi, &of) : CLATTN_INVALID_ARGUMENT;
}
