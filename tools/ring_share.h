/* What a rank of a schedule comes to. */
#ifndef CLATTN_TOOLS_RING_SHARE_H
#define CLATTN_TOOLS_RING_SHARE_H

#include "clattn_ring.h"

struct ring_share {
    int64_t rows, keys, calls, sends;
    double pairs, sent_bytes;
};

struct ring_share ring_share_of(const clattn_ring *ring);

#endif
