/* Attention whose rows and keys lie on the ranks of an MPI communicator: clattn_ring.h's schedule, carried by MPI, on
 * host memory. Libraries: clattn-mpi by pkg-config, which brings clattn; who compiles needs MPI's own flags (mpicc).
 *
 *     clattn_mpi *mpi;
 *     clattn_mpi_create(MPI_COMM_WORLD, context, &mpi);
 *     clattn_mpi_forward(mpi, &whole, CLATTN_RING_ZIGZAG, CLATTN_RING_KEYS, NULL, &shards);
 *
 * Every function but clattn_mpi_last_error and clattn_mpi_explain is collective: all ranks call it with the same
 * problem, layout, algorithm, call, key_lengths and query_offsets, each with its own shards. What one rank finds
 * wrong all ranks return, with the same message, and none of them waits for another for ever. A rank that dies ends
 * the others as MPI does it.
 *
 * While messages are on their way the device computes, in a thread of its own that calls no MPI: MPI must have been
 * initialised with MPI_THREAD_FUNNELED at least, and calls come from the thread that did it. Who waits sleeps between
 * looks, so that a CPU device has the core. Memory of a rank, beside the caller's: two shards of keys and values, one
 * partial result and, where sums travel, three of them; where heads go apart, all rows and keys of its heads, and
 * what is on its way. */
#ifndef CLATTN_MPI_H
#define CLATTN_MPI_H

#include <mpi.h>

#include <clattn_ring.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct clattn_mpi clattn_mpi;

/* A duplicate of `communicator`, so that messages meet no others, and a device. The context stays the caller's, and
 * lives longer. CLATTN_UNSUPPORTED: MPI was initialised without MPI_THREAD_FUNNELED. NULL arguments are the one error
 * that other ranks do not hear of, here and below. */
CLATTN_API clattn_status clattn_mpi_create(MPI_Comm communicator, clattn_context *context, clattn_mpi **mpi);
CLATTN_API void clattn_mpi_destroy(clattn_mpi *mpi);

/* What the last call that failed had to say, the same on all ranks; "" when none did. Owned by *mpi. */
CLATTN_API const char *clattn_mpi_last_error(const clattn_mpi *mpi);

/* What this rank did in the last call that was played: clattn_ring_explain's lines, with what AUTO took and the
 * estimates that it compared; "" when none was. Owned by *mpi, until the next call. */
CLATTN_API const char *clattn_mpi_explain(const clattn_mpi *mpi);

/* As clattn_forward_host, of this rank's rows. `whole` is the problem of all ranks together, as clattn_ring_create
 * takes it; query, out, lse, mask and bias have this rank's rows in the order of the layout (clattn_ring_pieces tells
 * which; clattn_ring_permute brings whole tensors there), key and value its keys; masks and biases have columns for
 * all keys of the whole, in their own order. Key lengths, offsets, slopes and sinks are those of the whole, on each
 * rank. Innermost strides are 1; types of blocks are CLATTN_UNSUPPORTED. Partial results are summed in float64 in the
 * order of the schedule: the same bits every time. algorithm: KEYS, QUERIES, HEADS or AUTO. */
CLATTN_API clattn_status clattn_mpi_forward(clattn_mpi *mpi, const clattn_problem *whole, clattn_ring_layout layout,
                                            clattn_ring_algorithm algorithm, const clattn_call *call,
                                            const clattn_host_tensors *tensors);

/* Gradients, after clattn_mpi_forward with lse: keys and values go around again, their gradients with them, or heads
 * go apart, by whichever algorithm, whatever the forward call took: KEYS, HEADS or AUTO. dout and dlse are as out and
 * lse, dquery, dkey and dvalue as this rank's query, key and value, dbias as its bias. dslopes, dsinks, dscale, and a
 * dbias that is a sum over rows (a stride of 0), are those of the whole: sums over all ranks, in their order, the same
 * bits on each; strides of 0 must be alike on all. problem->forward is the whole; gradients: CLATTN_GRADIENT_QUERY,
 * _KEY and _VALUE, and any others; nothing accumulated. A dbias takes twice its float32
 * memory beside it, and a part; one that is a sum over rows six times. */
CLATTN_API clattn_status clattn_mpi_backward(clattn_mpi *mpi, const clattn_backward_problem *problem,
                                             clattn_ring_layout layout, clattn_ring_algorithm algorithm,
                                             const clattn_call *call, const clattn_host_tensors *tensors,
                                             const clattn_host_gradients *gradients);

/* Decoding: every rank has all rows of query, out and lse (and of mask and bias), and its contiguous part of the keys.
 * Partial results are merged in log2(ranks) exchanges, and all ranks get the same bits. */
CLATTN_API clattn_status clattn_mpi_decode(clattn_mpi *mpi, const clattn_problem *whole, const clattn_call *call,
                                           const clattn_host_tensors *tensors);

#ifdef __cplusplus
}
#endif

#endif
