/* Keys and values that are codes: other memory for the same numbers, which must give the same bits. */
#ifndef CLATTN_TESTS_SUPPORT_CODED_KEYS_H
#define CLATTN_TESTS_SUPPORT_CODED_KEYS_H

#include "exact_call.h"

/* 0, or -1 and e->what. Calls with keys and values in block types, and in 8 bits with scales, against the same with
 * float32 keys and values that are what the codes stand for. */
int codes_are_their_values(struct exact *e, int64_t query_len, int64_t key_len);

#endif
