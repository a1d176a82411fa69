/* The list of what a rank does. Shards of one side, keys or queries, move: in step t a rank has that of the rank t
 * before it, and hands it on as long as some rank further on sees some of it. What was summed for a moving shard
 * follows it one step behind, and goes home from the last rank that had it. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "operation/ring.h"

#define HOME_TAG CLATTN_RING_CONTENTS /* beside that of the content: sums on their way home overtake others */

/* ---- a list ------------------------------------------------------------------------------------ */

/* Room for one more; 0: there is none. */
static int grow(void **items, int64_t count, int64_t *room, size_t bytes)
{
    if (count < *room) {
        return 1;
    }
    const int64_t more = *room ? *room * 2 : 16;
    void *moved = realloc(*items, (size_t)more * bytes);
    if (!moved) {
        return 0;
    }
    *items = moved;
    *room = more;
    return 1;
}

void ring_add_step(struct ring_list *list)
{
    if (!grow((void **)&list->step, list->steps, &list->step_room, sizeof(*list->step))) {
        list->failed = 1;
        return;
    }
    list->step[list->steps++] = (struct ring_range){ list->messages, 0, list->tasks, 0 };
}

void ring_add_message(struct ring_list *list, const clattn_ring_message *message)
{
    if (list->failed || !grow((void **)&list->message, list->messages, &list->message_room, sizeof(*list->message))) {
        list->failed = 1;
        return;
    }
    list->message[list->messages] = *message;
    list->message[list->messages++].tag += (int)message->content;
    list->step[list->steps - 1].messages++;
}

void ring_add_task(struct ring_list *list, const clattn_ring_task *task)
{
    if (list->failed || !grow((void **)&list->task, list->tasks, &list->task_room, sizeof(*list->task))) {
        list->failed = 1;
        return;
    }
    list->task[list->tasks++] = *task;
    list->step[list->steps - 1].tasks++;
}

static void send_to(clattn_ring *ring, const clattn_ring_message *message)
{
    clattn_ring_message sent = *message;
    sent.is_send = 1;
    ring_add_message(&ring->list, &sent);
}

/* ---- what moves around -------------------------------------------------------------------------- */

/* A ring: which side moves, and how far each of its shards does. */
struct moving {
    clattn_ring *ring;
    int of_keys;    /* nonzero: keys and values move, else queries */
    int has_sums;   /* what is summed for a moving shard moves too */
    int64_t *reach; /* [ranks]: the last step in which somebody sees some of the shard */
    int64_t last;   /* of this rank: the last step in which a shard is here */
    clattn_ring_content content, sums;
};

static int64_t around(int64_t rank, int64_t ranks)
{
    return (rank % ranks + ranks) % ranks;
}

static void rows_and_keys(const struct moving *m, int64_t shard, int64_t rank, int64_t *rows, int64_t *keys)
{
    *rows = m->of_keys ? rank : shard;
    *keys = m->of_keys ? shard : rank;
}

/* Tasks of a rank's rows and another's keys, added where the list is not NULL; whether there are any. */
static int tasks_of(const clattn_ring *ring, int64_t row_shard, int64_t key_shard, struct ring_list *list)
{
    const clattn_ring_options *o = &ring->options;
    clattn_ring_piece rows[RING_PIECES], keys[RING_PIECES];
    const int row_pieces = ring_pieces(o->layout, o->ranks, row_shard, ring->whole.query_len, rows);
    const int key_pieces = ring_pieces(o->layout, o->ranks, key_shard, ring->whole.key_len, keys);
    int found = 0;
    for (int i = 0; i < row_pieces; ++i) {
        for (int j = 0; j < key_pieces; ++j) {
            const int is_own = row_shard == key_shard && i == j;
            const int has_sinks = is_own && (ring->whole.features & CLATTN_WITH_SINKS) && rows[i].count > 0;
            const int sees = ring_sees(ring, &rows[i], &keys[j]);
            if (sees || has_sinks) {
                clattn_ring_task task = { row_shard, key_shard, rows[i], keys[j], 0, ring->whole.kv_heads, has_sinks };
                task.keys.count = sees ? task.keys.count : 0; /* for the sinks alone */
                found = 1;
                if (!list) {
                    return 1;
                }
                ring_add_task(list, &task);
            }
        }
    }
    return found;
}

static int64_t reach_of(const struct moving *m, int64_t shard)
{
    int64_t t = m->ring->options.ranks - 1, rows, keys;
    for (; t > 0; --t) {
        rows_and_keys(m, shard, around(shard + t, m->ring->options.ranks), &rows, &keys);
        if (tasks_of(m->ring, rows, keys, NULL)) {
            break;
        }
    }
    return t;
}

/* The shard that is here in step t; -1: none. */
static int64_t shard_at(const struct moving *m, int64_t t)
{
    const int64_t shard = around(m->ring->options.rank - t, m->ring->options.ranks);
    return t < m->ring->options.ranks && m->reach[shard] >= t ? shard : -1;
}

static void add_moving(const struct moving *m, int64_t t)
{
    const clattn_ring_options *o = &m->ring->options;
    const int64_t here = shard_at(m, t), next = shard_at(m, t + 1);
    clattn_ring_message message = { .content = m->content, .kv_heads = m->ring->whole.kv_heads };
    if (here >= 0 && m->reach[here] > t) {
        message.peer = around(o->rank + 1, o->ranks);
        message.shard = here;
        send_to(m->ring, &message);
    }
    if (next >= 0) {
        message.peer = around(o->rank - 1, o->ranks);
        message.shard = next;
        ring_add_message(&m->ring->list, &message);
    }
}

static void add_sums(const struct moving *m, int64_t t)
{
    const clattn_ring_options *o = &m->ring->options;
    const int64_t here = shard_at(m, t);
    clattn_ring_message message = { .content = m->sums, .kv_heads = m->ring->whole.kv_heads };
    if (t == 0 && m->reach[o->rank] > 0) { /* its own come home */
        message.when = CLATTN_RING_WHEN_LAST;
        message.peer = around(o->rank + m->reach[o->rank], o->ranks);
        message.shard = o->rank;
        message.tag = HOME_TAG;
        ring_add_message(&m->ring->list, &message);
    }
    message.tag = 0;
    message.shard = here;
    if (here >= 0 && t > 0) {
        message.when = CLATTN_RING_WHEN_BEGIN;
        message.use = CLATTN_RING_USE_BEFORE;
        message.peer = around(o->rank - 1, o->ranks);
        ring_add_message(&m->ring->list, &message);
    }
    if (here >= 0 && m->reach[here] > 0) {
        const int is_last = m->reach[here] == t;
        message.when = CLATTN_RING_WHEN_END;
        message.use = is_last ? CLATTN_RING_USE_PUT : CLATTN_RING_USE_BEFORE;
        message.peer = is_last ? here : around(o->rank + 1, o->ranks);
        message.tag = is_last ? HOME_TAG : 0;
        send_to(m->ring, &message);
    }
}

static clattn_status build_ring(clattn_ring *ring, int of_keys)
{
    const int64_t ranks = ring->options.ranks;
    const int of_gradients = ring->options.gradients != 0;
    struct moving m = { ring,
                        of_keys,
                        of_gradients || !of_keys,
                        NULL,
                        0,
                        of_keys ? CLATTN_RING_OF_KEYS : CLATTN_RING_OF_QUERIES,
                        of_keys ? CLATTN_RING_OF_KEY_RESULTS : CLATTN_RING_OF_RESULTS };
    m.reach = malloc((size_t)ranks * sizeof(*m.reach));
    if (!m.reach) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a schedule of %lld ranks", (long long)ranks);
    }
    for (int64_t shard = 0; shard < ranks; ++shard) {
        m.reach[shard] = reach_of(&m, shard);
    }
    for (int64_t t = 0; t < ranks; ++t) {
        m.last = shard_at(&m, t) >= 0 ? t : m.last;
    }
    for (int64_t t = 0; t <= m.last; ++t) {
        int64_t rows, keys;
        ring_add_step(&ring->list);
        add_moving(&m, t);
        if (shard_at(&m, t) >= 0) {
            rows_and_keys(&m, shard_at(&m, t), ring->options.rank, &rows, &keys);
            tasks_of(ring, rows, keys, &ring->list);
        }
        if (m.has_sums) {
            add_sums(&m, t);
        }
    }
    free(m.reach);
    return CLATTN_OK;
}

/* ---- a butterfly ------------------------------------------------------------------------------- */

/* Sums of two ranks become one, on the first or on both; `is_second`: this rank's keys come after the peer's. */
static void add_exchange(clattn_ring *ring, int64_t peer, int is_second, int sends, int receives)
{
    clattn_ring_message message = { .content = CLATTN_RING_OF_RESULTS,
                                    .use = is_second ? CLATTN_RING_USE_BEFORE : CLATTN_RING_USE_AFTER,
                                    .peer = peer,
                                    .shard = -1,
                                    .kv_heads = ring->whole.kv_heads };
    ring_add_step(&ring->list);
    if (receives) {
        ring_add_message(&ring->list, &message);
    }
    if (sends) {
        message.use = is_second ? CLATTN_RING_USE_AFTER : CLATTN_RING_USE_BEFORE; /* what it is to the peer */
        send_to(ring, &message);
    }
}

/* Ranks beyond a power of two begin as the second of a pair, and get the result from the first. */
static void build_tree(clattn_ring *ring)
{
    const int64_t ranks = ring->options.ranks, rank = ring->options.rank;
    const clattn_ring_piece rows = { 0, 1, ring->whole.query_len, 0 };
    clattn_ring_piece keys[RING_PIECES];
    int64_t power = 1;
    ring_pieces(CLATTN_RING_CONTIGUOUS, ranks, rank, ring->whole.key_len, keys);
    const int has_sinks = rank == 0 && (ring->whole.features & CLATTN_WITH_SINKS) != 0 && rows.count > 0;
    const clattn_ring_task task = { -1, rank, rows, keys[0], 0, ring->whole.kv_heads, has_sinks };
    while (power * 2 <= ranks) {
        power *= 2;
    }
    ring_add_step(&ring->list);
    if (ring_sees(ring, &rows, &keys[0]) || has_sinks) {
        ring_add_task(&ring->list, &task);
    }
    const int64_t paired = 2 * (ranks - power);
    const int is_paired = rank < paired, is_second = is_paired && rank % 2;
    if (is_paired) {
        add_exchange(ring, is_second ? rank - 1 : rank + 1, is_second, is_second, !is_second);
    }
    const int64_t own = is_paired ? rank / 2 : rank - paired / 2;
    for (int64_t bit = 1; bit < power && !is_second; bit *= 2) {
        const int64_t other = own ^ bit;
        const int64_t peer = other < paired / 2 ? 2 * other : other + paired / 2;
        add_exchange(ring, peer, (own & bit) != 0, 1, 1);
    }
    if (is_paired) {
        clattn_ring_message message = { .is_send = !is_second,
                                        .content = CLATTN_RING_OF_RESULTS,
                                        .peer = is_second ? rank - 1 : rank + 1,
                                        .shard = -1,
                                        .kv_heads = ring->whole.kv_heads };
        ring_add_step(&ring->list);
        ring_add_message(&ring->list, &message);
    }
}

/* ---- heads apart ------------------------------------------------------------------------------- */

/* This rank's rows with the heads of each other rank go there, and their rows with this rank's heads come; or, of
 * results, the other way around. */
static void exchange_heads(clattn_ring *ring, clattn_ring_content content, int is_back)
{
    const int64_t ranks = ring->options.ranks, rank = ring->options.rank, heads = ring->whole.kv_heads / ranks;
    for (int64_t n = 1; n < ranks; ++n) {
        const int64_t to = around(rank + n, ranks), from = around(rank - n, ranks);
        clattn_ring_message sent = { .content = content, .peer = to, .kv_heads = heads };
        clattn_ring_message received = { .content = content, .peer = from, .kv_heads = heads };
        sent.shard = is_back ? to : rank;
        sent.first_kv_head = (is_back ? rank : to) * heads;
        received.shard = is_back ? rank : from;
        received.first_kv_head = (is_back ? from : rank) * heads;
        send_to(ring, &sent);
        ring_add_message(&ring->list, &received);
    }
}

static void build_heads(clattn_ring *ring)
{
    const clattn_problem *p = &ring->whole;
    const int64_t heads = p->kv_heads / ring->options.ranks;
    const clattn_ring_task task = { -1,
                                    -1,
                                    { 0, 1, p->query_len, 0 },
                                    { 0, 1, p->key_len, 0 },
                                    ring->options.rank * heads,
                                    heads,
                                    (p->features & CLATTN_WITH_SINKS) != 0 };
    ring_add_step(&ring->list);
    exchange_heads(ring, CLATTN_RING_OF_QUERIES, 0);
    exchange_heads(ring, CLATTN_RING_OF_KEYS, 0);
    ring_add_step(&ring->list);
    ring_add_task(&ring->list, &task);
    ring_add_step(&ring->list);
    exchange_heads(ring, CLATTN_RING_OF_RESULTS, 1);
    if (ring->options.gradients) {
        exchange_heads(ring, CLATTN_RING_OF_KEY_RESULTS, 1);
    }
}

clattn_status ring_build(clattn_ring *ring)
{
    clattn_status status = CLATTN_OK;
    switch (ring->options.algorithm) {
    case CLATTN_RING_HEADS:
        build_heads(ring);
        break;
    case CLATTN_RING_TREE:
        build_tree(ring);
        break;
    default:
        status = build_ring(ring, ring->options.algorithm == CLATTN_RING_KEYS);
    }
    if (status == CLATTN_OK && ring->list.failed) {
        status = error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a schedule");
    }
    return status;
}
