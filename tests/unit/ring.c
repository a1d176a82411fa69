/* clattn_ring.h without a device: schedules of random problems, played by all ranks with sets in place of numbers.
 * Every pair of row and key that the masks show is computed once, and comes to who has the row (of gradients also to
 * who has the key); partial calls show the pairs that the whole does; messages are sent as they are received, nobody
 * waits for ever, and no rank has more than two shards that move. */
#include "operation/ring.h"

#include <string.h>

#include "suite.h"
#include "support/random.h"

enum { LENGTH = 20, RANKS = 8, BATCH = 2, QUEUE = 8 };

/* ---- a problem ---------------------------------------------------------------------------------- */

struct whole {
    clattn_problem problem;
    int32_t lengths[BATCH], offsets[BATCH];
};

/* Which keys of entry b each row sees or has met: how often. */
typedef unsigned char pairs[BATCH][LENGTH][LENGTH];

static void random_whole(struct random *random, struct whole *whole)
{
    const clattn_problem start = CLATTN_PROBLEM_INIT;
    clattn_problem *p = &whole->problem;
    *p = start;
    p->batch = random_between(random, 1, BATCH);
    p->query_heads = p->kv_heads = 8 * 3 * 5 * 7;
    p->query_len = random_between(random, 0, LENGTH);
    p->key_len = random_between(random, 0, LENGTH);
    p->head_dim = 2;
    p->causal = (int)random_between(random, 0, 1);
    p->window_left = random_between(random, 0, 2) ? -1 : random_between(random, 0, 8);
    p->window_right = random_between(random, 0, 2) ? -1 : random_between(random, 0, 8);
    if (p->window_left >= 0 || p->window_right >= 0) {
        p->always_visible_keys = random_between(random, 0, 3) ? 0 : random_between(random, 0, 4);
    }
    p->alignment = (clattn_alignment)random_between(random, 1, 3);
    p->features = random_between(random, 0, 2) ? 0 : CLATTN_WITH_KEY_LENGTHS;
    p->features |= random_between(random, 0, 2) ? 0 : CLATTN_WITH_SINKS;
    for (int b = 0; b < BATCH; ++b) {
        whole->lengths[b] = (int32_t)random_between(random, -1, p->key_len + 1);
        whole->offsets[b] = (int32_t)random_between(random, -LENGTH, LENGTH);
    }
}

/* As clattn.h says it, of any problem. */
static int sees(const clattn_problem *p, int64_t offset, int64_t length, int64_t i, int64_t j)
{
    const int in_window = (p->window_left < 0 || i + offset - p->window_left <= j) &&
                          (p->window_right < 0 || j <= i + offset + p->window_right);
    return j < length && (!p->causal || j <= i + offset) && (in_window || j < p->always_visible_keys);
}

static int64_t length_of(const struct whole *whole, int b)
{
    const clattn_problem *p = &whole->problem;
    const int64_t length = p->features & CLATTN_WITH_KEY_LENGTHS ? whole->lengths[b] : p->key_len;
    return length < 0 ? 0 : length > p->key_len ? p->key_len : length;
}

static int64_t offset_of(const struct whole *whole, int b)
{
    return whole->problem.alignment == CLATTN_ALIGN_OFFSETS        ? whole->offsets[b]
           : whole->problem.alignment == CLATTN_ALIGN_BOTTOM_RIGHT ? length_of(whole, b) - whole->problem.query_len
                                                                   : 0;
}

/* ---- ranks that play ---------------------------------------------------------------------------- */

struct sent {
    clattn_ring_message message;
    pairs sum;
};

struct player {
    clattn_ring *ring;
    int64_t step; /* the next one, or the one whose receives are not all there */
    int is_waiting;
    pairs results, key_results; /* of its own rows, and keys */
    pairs fresh;                /* what this step adds for a shard that moves */
    int64_t shard, next_shard;  /* that moves: here, and received; -1: none */
    int sinks;
};

static struct player players[RANKS];
static struct sent queue[RANKS][RANKS][16][QUEUE]; /* from, to, tag */
static int queued[RANKS][RANKS][16], taken[RANKS][RANKS][16];

static void add(pairs to, pairs from)
{
    for (size_t i = 0; i < sizeof(pairs); ++i) {
        ((unsigned char *)to)[i] = (unsigned char)(((unsigned char *)to)[i] + ((unsigned char *)from)[i]);
    }
}

static clattn_ring_content moving(const struct player *player)
{
    const clattn_ring_algorithm taken_one = clattn_ring_chosen(player->ring);
    return taken_one == CLATTN_RING_KEYS      ? CLATTN_RING_OF_KEYS
           : taken_one == CLATTN_RING_QUERIES ? CLATTN_RING_OF_QUERIES
                                              : CLATTN_RING_CONTENTS;
}

/* The sum that a content is of. */
static unsigned char *sum_of(struct player *player, const clattn_ring_message *message)
{
    const int moves = (moving(player) == CLATTN_RING_OF_KEYS && message->content == CLATTN_RING_OF_KEY_RESULTS) ||
                      (moving(player) == CLATTN_RING_OF_QUERIES && message->content == CLATTN_RING_OF_RESULTS);
    if (moves && message->when != CLATTN_RING_WHEN_LAST) {
        return (unsigned char *)player->fresh;
    }
    return (unsigned char *)(message->content == CLATTN_RING_OF_RESULTS ? player->results : player->key_results);
}

static void post(int64_t from, const clattn_ring_message *message)
{
    int *count = &queued[from][message->peer][message->tag];
    struct sent *sent = &queue[from][message->peer][message->tag][(*count)++ % QUEUE];
    ck_assert_int_le(*count - taken[from][message->peer][message->tag], QUEUE);
    sent->message = *message;
    memcpy(sent->sum, sum_of(&players[from], message), sizeof(pairs));
}

static int has_arrived(int64_t to, const clattn_ring_message *message)
{
    return queued[message->peer][to][message->tag] > taken[message->peer][to][message->tag];
}

static void receive(int64_t to, const clattn_ring_message *message)
{
    struct player *player = &players[to];
    struct sent *sent = &queue[message->peer][to][message->tag][taken[message->peer][to][message->tag]++ % QUEUE];
    const clattn_ring_message *m = &sent->message;
    ck_assert_msg(m->content == message->content && m->shard == message->shard && m->use == message->use &&
                      m->first_kv_head == message->first_kv_head && m->kv_heads == message->kv_heads,
                  "rank %d receives another message than rank %d sent", (int)to, (int)message->peer);
    if (message->content == moving(player)) {
        ck_assert_int_eq(player->next_shard, -1);
        player->next_shard = message->shard;
    } else if (message->content >= CLATTN_RING_OF_RESULTS && clattn_ring_chosen(player->ring) != CLATTN_RING_HEADS) {
        unsigned char *sum = sum_of(player, message);
        if (message->use == CLATTN_RING_USE_PUT) {
            memset(sum, 0, sizeof(pairs));
        }
        add((unsigned char(*)[LENGTH][LENGTH])sum, sent->sum);
    }
}

/* The pairs of a task that its partial call shows, which must be those of the whole. */
static void show(const struct whole *whole, struct player *player, const clattn_ring_task *task, pairs shown)
{
    clattn_problem p = CLATTN_PROBLEM_INIT;
    clattn_call call = CLATTN_CALL_INIT;
    int32_t offsets[BATCH] = { 0 }, lengths[BATCH];
    call.mask_first_key = 1; /* a mask of the last keys is of no piece's */
    ck_assert_int_eq(clattn_ring_call(player->ring, task, &p, &call, offsets, lengths), CLATTN_UNSUPPORTED);
    call.mask_first_key = 0;
    ck_assert_int_eq(clattn_ring_call(player->ring, task, &p, &call, offsets, lengths), CLATTN_OK);
    ck_assert(call.query_len == task->rows.count && call.key_len == task->keys.count);
    ck_assert(p.query_len >= call.query_len && p.key_len >= call.key_len);
    player->sinks += task->has_sinks ? (int)task->rows.count : 0;
    for (int b = 0; b < p.batch; ++b) {
        const int64_t length = p.features & CLATTN_WITH_KEY_LENGTHS ? lengths[b] : call.key_len;
        for (int64_t n = 0; n < call.query_len * call.key_len; ++n) {
            const int64_t i = n / call.key_len, j = n % call.key_len;
            const int64_t row = task->rows.first + i * task->rows.step, key = task->keys.first + j * task->keys.step;
            const int is_seen = sees(&p, offsets[b], length, i, j);
            const int should = sees(&whole->problem, offset_of(whole, b), length_of(whole, b), row, key);
            ck_assert_msg(is_seen == should, "row %d, key %d: the part shows %d", (int)row, (int)key, is_seen);
            shown[b][row][key] = (unsigned char)(shown[b][row][key] + is_seen);
        }
    }
}

static void compute(const struct whole *whole, struct player *player, const clattn_ring_step *step)
{
    const clattn_ring_content moves = moving(player);
    memset(player->fresh, 0, sizeof(player->fresh));
    for (int64_t n = 0; n < step->tasks; ++n) {
        const clattn_ring_task *task = &step->task[n];
        pairs shown = { 0 };
        const int64_t shard = moves == CLATTN_RING_OF_KEYS ? task->key_shard : task->row_shard;
        ck_assert(moves == CLATTN_RING_CONTENTS || shard == player->shard);
        show(whole, player, task, shown);
        add(moves == CLATTN_RING_OF_QUERIES ? player->fresh : player->results, shown);
        add(moves == CLATTN_RING_OF_KEYS ? player->fresh : player->key_results, shown);
    }
}

/* As far as it gets; whether that was any further. */
static int play(const struct whole *whole, int64_t rank)
{
    struct player *player = &players[rank];
    clattn_ring_step step;
    if (player->step == clattn_ring_steps(player->ring)) {
        return 0;
    }
    ck_assert_int_eq(clattn_ring_step_at(player->ring, player->step, &step), CLATTN_OK);
    if (!player->is_waiting) {
        for (int64_t n = 0; n < step.messages; ++n) {
            if (step.message[n].is_send && step.message[n].when == CLATTN_RING_WHEN_BEGIN) {
                ck_assert(step.message[n].content != moving(player) || step.message[n].shard == player->shard);
                post(rank, &step.message[n]);
            }
        }
        compute(whole, player, &step);
        player->is_waiting = 1;
        return 1;
    }
    for (int64_t n = 0; n < step.messages; ++n) {
        const clattn_ring_message *message = &step.message[n];
        if (!message->is_send && message->when == CLATTN_RING_WHEN_BEGIN && !has_arrived(rank, message)) {
            return 0;
        }
    }
    player->next_shard = -1;
    for (int64_t n = 0; n < step.messages; ++n) {
        if (!step.message[n].is_send && step.message[n].when == CLATTN_RING_WHEN_BEGIN) {
            receive(rank, &step.message[n]);
        }
    }
    for (int64_t n = 0; n < step.messages; ++n) {
        if (step.message[n].is_send && step.message[n].when == CLATTN_RING_WHEN_END) {
            post(rank, &step.message[n]);
        }
    }
    if (player->step == 0 && moving(player) != CLATTN_RING_CONTENTS) { /* its own, which nobody else sees */
        add(moving(player) == CLATTN_RING_OF_KEYS ? player->key_results : player->results, player->fresh);
    }
    player->shard = player->next_shard;
    player->is_waiting = 0;
    player->step++;
    return 1;
}

static void come_home(int64_t rank)
{
    clattn_ring_step step;
    for (int64_t index = 0; index < clattn_ring_steps(players[rank].ring); ++index) {
        ck_assert_int_eq(clattn_ring_step_at(players[rank].ring, index, &step), CLATTN_OK);
        for (int64_t n = 0; n < step.messages; ++n) {
            if (!step.message[n].is_send && step.message[n].when == CLATTN_RING_WHEN_LAST) {
                ck_assert(has_arrived(rank, &step.message[n]));
                receive(rank, &step.message[n]);
            }
        }
    }
}

/* ---- what came of it ---------------------------------------------------------------------------- */

/* Whether element `at` of a length is a rank's. */
static int is_own(clattn_ring_layout layout, int64_t ranks, int64_t rank, int64_t length, int64_t at)
{
    clattn_ring_piece pieces[RING_PIECES];
    int found = 0;
    for (int n = ring_pieces(layout, ranks, rank, length, pieces); n > 0; --n) {
        const clattn_ring_piece *piece = &pieces[n - 1];
        found |= at >= piece->first && at < piece->first + piece->count * piece->step &&
                 (at - piece->first) % piece->step == 0;
    }
    return found;
}

static void check_pairs(const struct whole *whole, const clattn_ring_options *o, int64_t rank, int of_keys)
{
    const struct player *player = &players[rank];
    const clattn_problem *p = &whole->problem;
    const clattn_ring_algorithm algorithm = clattn_ring_chosen(player->ring);
    for (int b = 0; b < p->batch; ++b) {
        for (int64_t i = 0; i < p->query_len; ++i) {
            for (int64_t j = 0; j < p->key_len; ++j) {
                const int is_here =
                    algorithm == CLATTN_RING_HEADS || (algorithm == CLATTN_RING_TREE && !of_keys) ||
                    is_own(o->layout, o->ranks, rank, of_keys ? p->key_len : p->query_len, of_keys ? j : i);
                const int wanted = is_here && sees(p, offset_of(whole, b), length_of(whole, b), i, j);
                const int found = of_keys ? player->key_results[b][i][j] : player->results[b][i][j];
                ck_assert_msg(found == wanted, "rank %d of %d, layout %d, algorithm %d, %s: row %d, key %d: %d, not %d",
                              (int)rank, (int)o->ranks, (int)o->layout, (int)algorithm, of_keys ? "keys" : "rows",
                              (int)i, (int)j, found, wanted);
            }
        }
    }
}

/* 0: the problem is refused. */
static int play_all(const struct whole *whole, clattn_ring_options *o)
{
    int moved = 1, sinks = 0;
    memset(players, 0, sizeof(players));
    memset(queued, 0, sizeof(queued));
    memset(taken, 0, sizeof(taken));
    for (o->rank = 0; o->rank < o->ranks; ++o->rank) {
        const clattn_status status = clattn_ring_create(&whole->problem, o, &players[o->rank].ring);
        ck_assert_msg(status == CLATTN_OK || (status == CLATTN_UNSUPPORTED && o->rank == 0), "%s", clattn_last_error());
        if (status != CLATTN_OK) {
            return 0;
        }
        players[o->rank].shard = o->rank;
    }
    while (moved) {
        moved = 0;
        for (int64_t rank = 0; rank < o->ranks; ++rank) {
            moved |= play(whole, rank);
        }
    }
    for (int64_t rank = 0; rank < o->ranks; ++rank) {
        ck_assert_msg(players[rank].step == clattn_ring_steps(players[rank].ring), "rank %d waits for ever: %s",
                      (int)rank, clattn_ring_explain(players[rank].ring));
        come_home(rank);
        check_pairs(whole, o, rank, 0);
        if (o->gradients) {
            check_pairs(whole, o, rank, 1);
        }
        sinks += players[rank].sinks;
    }
    ck_assert_int_eq(memcmp(queued, taken, sizeof(queued)), 0);
    const int64_t each = clattn_ring_chosen(players[0].ring) == CLATTN_RING_HEADS ? o->ranks : 1;
    if (whole->problem.features & CLATTN_WITH_SINKS) {
        ck_assert_int_eq(sinks, (int)(each * whole->problem.query_len));
    }
    for (int64_t rank = 0; rank < o->ranks; ++rank) {
        clattn_ring_destroy(players[rank].ring);
    }
    return 1;
}

START_TEST(test_every_pair_is_computed_once)
{
    int played[CLATTN_RING_HEADS + 1][CLATTN_RING_STRIPED + 1] = { { 0 } };
    for (uint64_t n = 0; n < 3000; ++n) {
        struct random random = random_start(7, n);
        struct whole whole;
        clattn_ring_options options = CLATTN_RING_OPTIONS_INIT;
        random_whole(&random, &whole);
        options.ranks = random_between(&random, 1, RANKS);
        options.layout = (clattn_ring_layout)random_between(&random, 0, CLATTN_RING_STRIPED);
        options.algorithm = (clattn_ring_algorithm)random_between(&random, 0, CLATTN_RING_HEADS);
        options.gradients = (int)random_between(&random, 0, 1);
        options.key_lengths = whole.problem.features & CLATTN_WITH_KEY_LENGTHS ? whole.lengths : NULL;
        options.query_offsets = whole.problem.alignment == CLATTN_ALIGN_OFFSETS ? whole.offsets : NULL;
        played[options.algorithm][options.layout] += play_all(&whole, &options);
    }
    for (int algorithm = CLATTN_RING_AUTO; algorithm <= CLATTN_RING_HEADS; ++algorithm) {
        for (int layout = 0; layout <= CLATTN_RING_STRIPED; ++layout) {
            const int is_refused = algorithm == CLATTN_RING_TREE && layout != CLATTN_RING_CONTIGUOUS;
            ck_assert_msg(is_refused || played[algorithm][layout] > 50, "algorithm %d, layout %d: %d times", algorithm,
                          layout, played[algorithm][layout]);
        }
    }
}
END_TEST

SUITE("ring", test_every_pair_is_computed_once)
