/* What rotary and append share: the columns that are turned, by which tables, and the tensors that tell where each row
 * stands. */
#ifndef CLATTN_SRC_TURNING_H
#define CLATTN_SRC_TURNING_H

#include "cl/cache/rotary_params.h"
#include "clattn_cache.h"
#include "operation/operands.h"

/* Out of the problem of either operation; no columns where nothing is turned. */
struct turning {
    clattn_rotary_pairs pairs;
    int inverse;
    int64_t first_column, columns;
    int64_t positions;
    uint32_t features;
};

/* The tensors of CLATTN_TURN_TENSORS stand first among those of both operations. */
enum turn_tensor {
#define ID_OF_ROW(id, field, axes, element, access, place, asked_by) TURN_##id,
    CLATTN_TURN_TENSORS(ID_OF_ROW)
#undef ID_OF_ROW
        TURN_TENSOR_COUNT
};

/* Where no columns are given: all from the first one on. */
void turning_resolve(struct turning *turning, int64_t head_dim);

/* The rules on its fields; features of rotary only where something is turned. */
clattn_status turning_check(const struct turning *turning, int64_t head_dim);

/* "halves of 128 columns at starts", or "interleaved, 64 columns from 16 on, back, at positions". */
void turning_describe(const struct turning *turning, struct text *text);

/* The extents of a call's tensors that do not hang on the operation. `operands` have been read. */
struct turn_extents {
    int64_t packs, rows; /* of what is turned, packed rows of all sequences together */
    int64_t table_packs, table_rows;
    int rows_are_unknown; /* only the device can count packed rows: at least so many are there in one sequence */
};
struct turn_extents turning_extents(const struct turning *turning, const struct operands *operands, int64_t batch,
                                    int64_t query_len);

/* The length of one call, of a problem's most. `given` may be NULL. */
clattn_status turning_query_len(const clattn_cache_call *given, int64_t most, int64_t *query_len);

/* What kernels are to know of a call beside its places. */
void turning_fill(const struct turning *turning, int64_t batch, int64_t query_len, clattn_turn_params *params);

/* ---- values in host memory -------------------------------------------------------------------- */

/* A sequence: its first row in packed tensors, and how many rows it has in the call. */
struct turn_sequence {
    int64_t first_row, rows;
    int64_t pack; /* its index on the batch axis of packed tensors: 0 */
};
struct turn_sequence turning_sequence(const struct operands *operands, int64_t b, int64_t query_len);

/* Where row i of sequence b stands: starts[b] + i; and the row of the tables by which it is turned. */
int64_t turning_position(const struct operands *operands, int64_t b, int64_t i);
int64_t turning_table_row(const struct turning *turning, const struct operands *operands, int64_t b, int64_t i);

/* Seams do not fall, sequences are no longer than the problem's, every row of every sequence is in the tables. */
clattn_status turning_check_values(const struct turning *turning, const struct operands *operands, int64_t batch,
                                   int64_t query_len);

#endif
