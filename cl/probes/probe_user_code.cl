/* Whether a text of the user's own can be compiled, and at which width (src/plan/code_programs.c): it is in this
 * program alone, with one call of each of its functions. Nobody runs it. */
#include "user/code.clh"
#include "vector/lanes.clh"

#define CALL_AT (INDEX_AT)(0), (INDEX_AT)(1), (INDEX_AT)(2), (INDEX_AT)(3), &values

#if CODE_WIDTH == 16
#define INDEX_AT int16
#define NUMBER_AT float16
#else
#define INDEX_AT int
#define NUMBER_AT CODE_REAL
#endif

__kernel void probe_user_code(__global NUMBER_AT *numbers, __global INDEX_AT *truths CODE_ARGUMENTS)
{
    const user_values values = CODE_VALUES;
#if CODE & CODE_SCORE
    const NUMBER_AT score = clattn_score(numbers[0], CALL_AT);
    numbers[1] = score;
#endif
#if CODE & CODE_SCORE_SLOPE
    const NUMBER_AT slope = clattn_score_slope(numbers[0], CALL_AT);
    numbers[2] = slope;
#endif
#if CODE & CODE_MASK
    const INDEX_AT sees = clattn_mask(CALL_AT);
    truths[0] = sees;
#endif
}
