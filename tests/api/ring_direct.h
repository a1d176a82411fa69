/* Ranks' partial calls, one after the other, without messages. */
#ifndef CLATTN_TESTS_API_RING_DIRECT_H
#define CLATTN_TESTS_API_RING_DIRECT_H

#include "api/ring_shards.h"
#include "support/test_call.h"

/* That out, in `list`, has the bits of the same partial calls merged by one process. */
void check_bits(const struct setting *setting, const struct test_call *test, const struct permuted *list);

#endif
