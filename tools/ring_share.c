#include "ring_share.h"

#include "insides.h"

struct ring_share ring_share_of(const clattn_ring *ring)
{
    const int64_t rank = ring->options.rank;
    struct ring_share share = { clattn_ring_rows(ring, rank), clattn_ring_keys(ring, rank), 0, 0, 0, 0 };
    clattn_ring_step step;
    for (int64_t n = 0; n < clattn_ring_steps(ring) && clattn_ring_step_at(ring, n, &step) == CLATTN_OK; n++) {
        share.calls += step.tasks;
        for (int64_t i = 0; i < step.tasks; i++) {
            share.pairs += ring_pairs(ring, &step.task[i]);
        }
        for (int64_t i = 0; i < step.messages; i++) {
            share.sends += step.message[i].is_send;
            share.sent_bytes += step.message[i].is_send ? ring_bytes(ring, &step.message[i]) : 0;
        }
    }
    return share;
}
