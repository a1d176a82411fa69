/* Which rows each rank has, and rows brought into that order and back. */
#include <inttypes.h>
#include <string.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "operation/field_rules.h"
#include "operation/ring.h"

clattn_status ring_check_layout(clattn_ring_layout layout, int64_t ranks, int64_t rank)
{
    if (ranks < 1 || ranks > RING_RANKS_MOST || rank < 0 || rank >= ranks) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "rank %" PRId64 " of ranks %" PRId64 ": must be 0 to ranks - 1, of 1 to %d", rank, ranks,
                         RING_RANKS_MOST);
    }
    if (layout < CLATTN_RING_CONTIGUOUS || layout > CLATTN_RING_STRIPED) {
        return error_set(CLATTN_INVALID_ARGUMENT, "layout %d: is no clattn_ring_layout", (int)layout);
    }
    return CLATTN_OK;
}

/* Where piece n of `pieces` begins. */
static int64_t piece_begin(int64_t n, int64_t pieces, int64_t length)
{
    return n * length / pieces;
}

static clattn_ring_piece piece_at(int64_t n, int64_t pieces, int64_t length, int64_t place)
{
    const int64_t first = piece_begin(n, pieces, length);
    return (clattn_ring_piece){ first, 1, piece_begin(n + 1, pieces, length) - first, place };
}

int ring_pieces(clattn_ring_layout layout, int64_t ranks, int64_t rank, int64_t length,
                clattn_ring_piece pieces[RING_PIECES])
{
    switch (layout) {
    case CLATTN_RING_ZIGZAG:
        pieces[0] = piece_at(rank, 2 * ranks, length, 0);
        pieces[1] = piece_at(2 * ranks - 1 - rank, 2 * ranks, length, pieces[0].count);
        return 2;
    case CLATTN_RING_STRIPED:
        pieces[0] = (clattn_ring_piece){ rank, ranks, rank < length ? ceil_div(length - rank, ranks) : 0, 0 };
        return 1;
    default:
        pieces[0] = piece_at(rank, ranks, length, 0);
        return 1;
    }
}

int64_t ring_shard(clattn_ring_layout layout, int64_t ranks, int64_t rank, int64_t length)
{
    clattn_ring_piece pieces[RING_PIECES];
    int64_t count = 0;
    for (int n = ring_pieces(layout, ranks, rank, length, pieces); n > 0; --n) {
        count += pieces[n - 1].count;
    }
    return count;
}

int64_t ring_before(const clattn_ring_piece *piece, int64_t end)
{
    if (end <= piece->first) {
        return 0;
    }
    const int64_t count = ceil_div(end - piece->first, piece->step);
    return count < piece->count ? count : piece->count;
}

/* A rank's rows of the run that begins at byte `begin`; they lie from `shard` on. Returns where the next rank's do. */
static size_t permute_shard(clattn_ring_layout layout, int64_t ranks, int64_t rank, int64_t rows, size_t row_bytes,
                            int back, const char *from, char *to, size_t begin, size_t shard)
{
    clattn_ring_piece pieces[RING_PIECES];
    const int count = ring_pieces(layout, ranks, rank, rows, pieces);
    for (int n = 0; n < count; ++n) {
        for (int64_t i = 0; i < pieces[n].count; ++i) {
            const size_t in_whole = begin + (size_t)(pieces[n].first + i * pieces[n].step) * row_bytes;
            memcpy(to + (back ? in_whole : shard), from + (back ? shard : in_whole), row_bytes);
            shard += row_bytes;
        }
    }
    return shard;
}

clattn_status ring_permute(clattn_ring_layout layout, int64_t ranks, int64_t outer, int64_t rows, size_t row_bytes,
                           int back, const void *from, void *to)
{
    const struct dimension counts[] = { { "outer", outer, 0 }, { "rows", rows, 0 } };
    clattn_status status = ring_check_layout(layout, ranks, 0);
    if (status == CLATTN_OK) {
        status = check_dimensions(counts, 2);
    }
    for (int64_t run = 0; run < outer && status == CLATTN_OK; ++run) {
        size_t shard = (size_t)(run * rows) * row_bytes;
        const size_t begin = shard;
        for (int64_t rank = 0; rank < ranks; ++rank) {
            shard = permute_shard(layout, ranks, rank, rows, row_bytes, back, from, to, begin, shard);
        }
    }
    return status;
}
