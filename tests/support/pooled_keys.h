/* The keys and values of a call in pages, cut into several buffers: another place for the same numbers, which must give
 * the same bits. */
#ifndef CLATTN_TESTS_SUPPORT_POOLED_KEYS_H
#define CLATTN_TESTS_SUPPORT_POOLED_KEYS_H

#include "cl/forward/forward_params.h"
#include "test_call.h"

/* One buffer of keys or values. */
struct pooled_array {
    enum tensor_id id;
    unsigned char *data;
    size_t bytes;
};

struct pooled_call {
    clattn_problem problem;
    clattn_host_tensors tensors;
    int count; /* 0: the call itself */
    struct pooled_array arrays[2 * CLATTN_POOLS_MOST];
};

/* The pools of a call whose pool_pages is not 0; any other call as it is. In each buffer all but its own pages is
 * poison, and the further ones begin elsewhere than the first. */
void pooled_call_cut(const struct test_call *test, struct pooled_call *cut);
void pooled_call_free(struct pooled_call *cut);

/* Pages of a buffer, so that there are `pools` of them, the last one as full as `fill` says, of its pages; 0 where so
 * many pages cannot fill so many buffers. */
int64_t pooled_call_pages(int64_t pages, int pools, int64_t fill);

#endif
