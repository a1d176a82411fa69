#include "reference/numbers.h"

#include <math.h>
#include <stdlib.h>

#include "base/checked_math.h"
#include "base/error.h"

clattn_status numbers_no_memory(void)
{
    return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for the reference");
}

double *numbers_allocate(int64_t count)
{
    int64_t bytes;
    return checked_multiply(count + 1, (int64_t)sizeof(double), &bytes) ? calloc((size_t)bytes, 1) : NULL;
}

clattn_status numbers_create(struct numbers *numbers, int64_t rows, int64_t columns)
{
    *numbers = (struct numbers){
        numbers_allocate(rows * columns), numbers_allocate(rows * columns), rows, columns, columns, 1
    };
    return numbers->value && numbers->unit ? CLATTN_OK : numbers_no_memory();
}

struct numbers numbers_turned(struct numbers a)
{
    const struct numbers result = { a.value, a.unit, a.columns, a.rows, a.column_stride, a.row_stride };
    return result;
}

void numbers_multiply(struct numbers a, struct numbers b, const double *bias, struct numbers result)
{
    const double growth = sqrt((double)a.columns) + 8;
    for (int64_t m = 0; m < a.rows; ++m) {
        for (int64_t n = 0; n < b.columns; ++n) {
            long double sum = bias ? bias[n] : 0, carried = 0, squares = bias ? (long double)bias[n] * bias[n] : 0;
            for (int64_t k = 0; k < a.columns; ++k) {
                const int64_t at_a = m * a.row_stride + k * a.column_stride;
                const int64_t at_b = k * b.row_stride + n * b.column_stride;
                const long double x = a.value[at_a], y = b.value[at_b];
                const long double term = x * y, from_a = a.unit[at_a] * y, from_b = x * b.unit[at_b];
                if (x != 0) { /* a row that adds nothing, whatever it meets */
                    sum += term;
                    squares += term * term;
                    carried += from_a * from_a + from_b * from_b;
                } else if (isfinite(y)) {
                    carried += from_a * from_a;
                }
            }
            result.value[m * result.row_stride + n * result.column_stride] += (double)sum;
            result.unit[m * result.row_stride + n * result.column_stride] +=
                (double)(sqrtl(carried) + growth * sqrtl(squares));
        }
    }
}
