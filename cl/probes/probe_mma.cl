/* Probe of a GPU's matrix unit, through the same operations that fused_mma uses: a product of 48 x 16 and
 * 16 x MATRIX_N in three parts, by one sub-group.
 *
 *     rows 0 to 15     keys * queries
 *     rows 16 to 31    values * weights
 *     rows 32 to 47    each lane adds what its own elements of C stand for; sums over the lanes that share */
#define TILE_ROWS MATRIX_N
#define TILE_KEYS 16
#define DEPTH 16
#define COLUMNS 16
#define WORK_ITEMS SUB_GROUP_ITEMS
#include "mma/unit.clh"

__kernel __attribute__((reqd_work_group_size(SUB_GROUP_ITEMS, 1, 1))) SUB_GROUP void
probe_product(__global const float *a, __global const float *b, __global float *product)
{
    __local element queries[QUERY_TILE] __attribute__((aligned(16)));
    __local element keys[KEY_TILE] __attribute__((aligned(16)));
    __local element values[VALUE_TILE] __attribute__((aligned(16)));
#if EMULATED
    __local int scratch[SCRATCH];
    const unit u = { (int)get_local_id(0), (int)get_local_id(0), scratch };
#else
    const unit u = { (int)get_local_id(0), (int)get_local_id(0) };
#endif
    /* Keys wait in the type where the product will be, for the copy from global memory. */
    __global element *waiting = (__global element *)product;
    for (int i = u.lane; i < 16 * 16; i += SUB_GROUP_ITEMS) {
        waiting[i] = element_of(a[i]);
        const int column = i / 16, position = i % 16;
        values[VALUE_AT(position, column)] = element_of(a[256 + column * 16 + VALUE_KEY(position)]);
    }
    for (int i = u.lane; i < 16 * MATRIX_N; i += SUB_GROUP_ITEMS) {
        queries[QUERY_AT(i % MATRIX_N, i / MATRIX_N)] = element_of(b[i]);
    }
    barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
    for (int i = u.lane; i < 16 * 16 / RUN; i += SUB_GROUP_ITEMS) {
        copy_16_bytes(keys + KEY_AT(i / (16 / RUN), i % (16 / RUN) * RUN), waiting + i * RUN);
    }
    copies_wait();
    barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);

    uint key[A_WORDS], query[B_WORDS], value[A_WORDS], weight[B_WORDS];
    float score[C_ELEMENTS], output[C_ELEMENTS];
    load_keys(&u, key, keys, 0, 0);
    load_queries(&u, query, queries, 0, 0);
    load_values(&u, value, values, 0, 0);
    UNROLL
    for (int i = 0; i < C_ELEMENTS; ++i) {
        score[i] = 0;
        output[i] = 0;
    }
    multiply_add(&u, score, key, query);
    UNROLL
    for (int i = 0; i < C_ELEMENTS; ++i) {
        const int at = c_row(u.lane, i) * MATRIX_N + c_column(u.lane, SLOT(i));
        product[at] = score[i];
        score[i] = b[at];
    }
    uint packed[C_ELEMENTS * ELEMENT_BYTES / 4];
    UNROLL
    for (int i = 0; i < C_ELEMENTS; i += 2) {
        pack_at(packed, i, score[i], score[i + 1]);
    }
    weights_to_b(&u, weight, packed);
    multiply_add(&u, output, value, weight);
    UNROLL
    for (int i = 0; i < C_ELEMENTS; ++i) {
        product[(16 + c_row(u.lane, i)) * MATRIX_N + c_column(u.lane, SLOT(i))] = output[i];
    }
    for (int row = 32; row < 48; ++row) {
        UNROLL
        for (int slot = 0; slot < SLOTS; ++slot) {
            float sum = 0;
            UNROLL
            for (int i = 0; i < C_ELEMENTS; ++i) {
                sum += SLOT(i) == slot ? a[row * 16 + c_row(u.lane, i)] * score[i] : 0;
            }
            sum = sharers_sum(&u, sum);
            if ((u.lane & SHARERS) == 0) {
                product[row * MATRIX_N + c_column(u.lane, slot)] = sum;
            }
        }
    }
}
