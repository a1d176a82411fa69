/* One sequence on all ranks of MPI, causal, in zigzag order, and its gradients; each rank compares its rows with the
 * reference of the whole: mpirun -n 4 ./sequence, or, heads apart, mpirun -n 2 ./sequence heads */
#include <string.h>

#include "mpi_example.h"

enum { HEADS = 4, KV_HEADS = 2, ROWS = 192, DIM = 32 };

/* This rank's rows of a whole tensor; a rank that reads them from a file needs nothing else. */
static float *shard(const float *whole, int heads, const clattn_ring_piece *pieces, int count, int64_t rows)
{
    float *own = numbers((size_t)(heads * rows * DIM));
    for (int64_t h = 0; h < heads; ++h) {
        for (int n = 0; n < count; ++n) { /* in zigzag order a piece's rows lie behind one another: its step is 1 */
            memcpy(own + (h * rows + pieces[n].place) * DIM, whole + (h * ROWS + pieces[n].first) * DIM,
                   (size_t)(pieces[n].count * DIM) * sizeof(float));
        }
    }
    return own;
}

int main(int argc, char **argv)
{
    int level, rank, ranks;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const clattn_ring_algorithm algorithm = argc > 1 ? CLATTN_RING_HEADS : CLATTN_RING_KEYS;
    clattn_context *context;
    clattn_mpi *mpi;
    must_all(clattn_context_open(NULL, NULL, &context), clattn_last_error());
    must_all(clattn_mpi_create(MPI_COMM_WORLD, context, &mpi), "MPI gives no MPI_THREAD_FUNNELED");

    /* The whole, which only an example has on every rank: what is right. */
    const size_t size = HEADS * ROWS * DIM, key_size = KV_HEADS * ROWS * DIM;
    float *query = numbers(size), *key = numbers(key_size), *value = numbers(key_size), *dout = numbers(size);
    float *out = numbers(size), *lse = numbers(HEADS * ROWS);
    float *dquery = numbers(size), *dkey = numbers(key_size), *dvalue = numbers(key_size);
    fill(query, size, 1);
    fill(key, key_size, 2);
    fill(value, key_size, 3);
    fill(dout, size, 4);
    clattn_problem whole = CLATTN_PROBLEM_INIT;
    clattn_backward_problem backward = CLATTN_BACKWARD_PROBLEM_INIT;
    whole.query_heads = HEADS;
    whole.kv_heads = KV_HEADS;
    whole.query_len = whole.key_len = ROWS;
    whole.head_dim = DIM;
    whole.causal = 1;
    whole.alignment = CLATTN_ALIGN_TOP_LEFT;
    whole.features = CLATTN_WITH_LSE;
    backward.forward = &whole;
    backward.gradients = CLATTN_GRADIENT_QUERY | CLATTN_GRADIENT_KEY | CLATTN_GRADIENT_VALUE;
    clattn_host_tensors t = CLATTN_HOST_TENSORS_INIT;
    clattn_host_gradients g = CLATTN_HOST_GRADIENTS_INIT;
    t.query = clattn_host_tensor_bhsd(query, HEADS, ROWS, DIM);
    t.key = clattn_host_tensor_bhsd(key, KV_HEADS, ROWS, DIM);
    t.value = clattn_host_tensor_bhsd(value, KV_HEADS, ROWS, DIM);
    t.out = clattn_host_tensor_bhsd(out, HEADS, ROWS, DIM);
    t.lse = clattn_host_tensor_bhsd(lse, HEADS, ROWS, 1);
    g.dout = clattn_host_tensor_bhsd(dout, HEADS, ROWS, DIM);
    g.dquery = clattn_host_tensor_bhsd(dquery, HEADS, ROWS, DIM);
    g.dkey = clattn_host_tensor_bhsd(dkey, KV_HEADS, ROWS, DIM);
    g.dvalue = clattn_host_tensor_bhsd(dvalue, KV_HEADS, ROWS, DIM);
    must_all(clattn_reference_forward(&whole, NULL, &t), clattn_last_error());
    must_all(clattn_reference_backward(&backward, NULL, &t, &g), clattn_last_error());

    /* This rank's part. */
    clattn_ring_piece pieces[2];
    int count;
    int64_t rows = 0;
    must_all(clattn_ring_pieces(CLATTN_RING_ZIGZAG, ranks, rank, ROWS, pieces, &count), clattn_last_error());
    for (int n = 0; n < count; ++n) {
        rows += pieces[n].count;
    }
    const size_t own = (size_t)(HEADS * rows * DIM), own_keys = (size_t)(KV_HEADS * rows * DIM);
    float *own_out = numbers(own), *own_lse = numbers((size_t)(HEADS * rows)), *own_dquery = numbers(own);
    float *own_dkey = numbers(own_keys), *own_dvalue = numbers(own_keys);
    t.query = clattn_host_tensor_bhsd(shard(query, HEADS, pieces, count, rows), HEADS, rows, DIM);
    t.key = clattn_host_tensor_bhsd(shard(key, KV_HEADS, pieces, count, rows), KV_HEADS, rows, DIM);
    t.value = clattn_host_tensor_bhsd(shard(value, KV_HEADS, pieces, count, rows), KV_HEADS, rows, DIM);
    t.out = clattn_host_tensor_bhsd(own_out, HEADS, rows, DIM);
    t.lse = clattn_host_tensor_bhsd(own_lse, HEADS, rows, 1);
    g.dout = clattn_host_tensor_bhsd(shard(dout, HEADS, pieces, count, rows), HEADS, rows, DIM);
    g.dquery = clattn_host_tensor_bhsd(own_dquery, HEADS, rows, DIM);
    g.dkey = clattn_host_tensor_bhsd(own_dkey, KV_HEADS, rows, DIM);
    g.dvalue = clattn_host_tensor_bhsd(own_dvalue, KV_HEADS, rows, DIM);
    must_all(clattn_mpi_forward(mpi, &whole, CLATTN_RING_ZIGZAG, algorithm, NULL, &t), clattn_mpi_last_error(mpi));
    must_all(clattn_mpi_backward(mpi, &backward, CLATTN_RING_ZIGZAG, algorithm, NULL, &t, &g),
             clattn_mpi_last_error(mpi));

    int right = all_are_right("out", largest_difference(own_out, shard(out, HEADS, pieces, count, rows), own), 1e-5);
    right &=
        all_are_right("dquery", largest_difference(own_dquery, shard(dquery, HEADS, pieces, count, rows), own), 1e-4);
    right &=
        all_are_right("dkey", largest_difference(own_dkey, shard(dkey, KV_HEADS, pieces, count, rows), own_keys), 1e-4);
    right &= all_are_right(
        "dvalue", largest_difference(own_dvalue, shard(dvalue, KV_HEADS, pieces, count, rows), own_keys), 1e-4);
    clattn_mpi_destroy(mpi);
    clattn_context_destroy(context);
    MPI_Finalize();
    return !right;
}
