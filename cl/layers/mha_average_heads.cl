/* average_heads: attention weights of all heads -> their mean.
 *
 *     heads [batch][query_heads][pairs]      average [batch][pairs],      pairs = rows * keys
 *
 *     global id 0: pair        1: batch */
#include "common/types.clh"

__kernel void average_heads(const clattn_i64 pairs, const int query_heads,
                            const clattn_i64 heads_offset, __global const REAL *heads,
                            const clattn_i64 average_offset, __global REAL *average)
{
    const clattn_i64 pair = get_global_id(0), batch = get_global_id(1);
    REAL sum = 0;
    if (pair >= pairs) {
        return;
    }
    for (int h = 0; h < query_heads; ++h) {
        sum += heads[heads_offset + (batch * query_heads + h) * pairs + pair];
    }
    average[average_offset + batch * pairs + pair] = sum / query_heads;
}
