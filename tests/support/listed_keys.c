/* Steps through all keys, from another one on in each list, which end at different places. */
#include "listed_keys.h"

double listed_keys_fill(struct random *random, const int64_t index[4], const void *context)
{
    const int64_t given = *(const int64_t *)context, keys = given > 0 ? given : 1;
    const int64_t step = keys % 7 ? 7 : keys % 11 ? 11 : 1; /* that goes round through all of them */
    const int64_t number = index[3], turn = index[0] * 7 + index[1] * 3 + index[2];
    const int64_t end = (turn * 5 + keys / 3) % (2 * keys) - turn % 3;
    if (number >= keys || number == end) {
        return -(double)random_between(random, 1, 9);
    }
    if (number > end) {
        return (double)random_between(random, -3, 1 << 30);
    }
    return (double)((number + turn) * step % keys + (turn % 4 == 1 ? number / 7 * keys : 0));
}
