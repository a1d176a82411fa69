/* A step of decoding whose keys lie on all ranks of MPI, each with a contiguous part; all ranks get the result:
 * mpirun -n 4 ./decode */
#include "mpi_example.h"

enum { HEADS = 8, KEYS = 4096, DIM = 32 };

int main(int argc, char **argv)
{
    int level, rank, ranks;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    clattn_context *context;
    clattn_mpi *mpi;
    must_all(clattn_context_open(NULL, NULL, &context), clattn_last_error());
    must_all(clattn_mpi_create(MPI_COMM_WORLD, context, &mpi), "MPI gives no MPI_THREAD_FUNNELED");

    const size_t size = (size_t)HEADS * KEYS * DIM;
    float *key = numbers(size), *value = numbers(size);
    float query[HEADS * DIM], out[HEADS * DIM], right[HEADS * DIM];
    fill(query, HEADS * DIM, 1);
    fill(key, size, 2);
    fill(value, size, 3);
    clattn_problem whole = CLATTN_PROBLEM_INIT;
    clattn_host_tensors t = CLATTN_HOST_TENSORS_INIT;
    whole.query_heads = whole.kv_heads = HEADS;
    whole.query_len = 1;
    whole.key_len = KEYS;
    whole.head_dim = DIM;
    t.query = clattn_host_tensor_bhsd(query, HEADS, 1, DIM);
    t.key = clattn_host_tensor_bhsd(key, HEADS, KEYS, DIM);
    t.value = clattn_host_tensor_bhsd(value, HEADS, KEYS, DIM);
    t.out = clattn_host_tensor_bhsd(right, HEADS, 1, DIM);
    must_all(clattn_reference_forward(&whole, NULL, &t), clattn_last_error());

    /* Only this rank's keys are looked at: from rank * KEYS / ranks on. */
    t.key.offset = t.value.offset = (int64_t)rank * KEYS / ranks * DIM;
    t.out = clattn_host_tensor_bhsd(out, HEADS, 1, DIM);
    must_all(clattn_mpi_decode(mpi, &whole, NULL, &t), clattn_mpi_last_error(mpi));
    const int is_right = all_are_right("decode", largest_difference(out, right, HEADS * DIM), 1e-5);
    free(key);
    free(value);
    clattn_mpi_destroy(mpi);
    clattn_context_destroy(context);
    MPI_Finalize();
    return !is_right;
}
