#include "ranks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "heads.h"

#define NAP_LEAST_NS 50000
#define NAP_MOST_NS 1000000

/* ---- agreeing ------------------------------------------------------------------------------------ */

/* The worst of all ranks becomes the failure of each. */
static clattn_status agree(const struct carrier *carrier, struct failure *failure)
{
    const int64_t place = carrier->ranks + 1;
    char text[FAILURE_BYTES];
    int64_t worst = failure->status ? (int64_t)failure->status * place + carrier->ranks - carrier->rank : 0;
    carrier->largest(carrier->self, &worst, 1);
    if (worst == 0) {
        return CLATTN_OK;
    }
    snprintf(text, sizeof(text), "rank %d: %.900s", (int)carrier->rank, failure->text);
    carrier->tell(carrier->self, carrier->ranks - worst % place, text, FAILURE_BYTES);
    return play_fails(failure, (clattn_status)(worst / place), text);
}

/* That all ranks say alike what they must, once none has failed; the first thing that they do not is named. */
static clattn_status agree_on(const struct play *play)
{
    const struct carrier *carrier = play->carrier;
    struct alike alike[ALIKE_MOST];
    int64_t values[2 * ALIKE_MOST];
    char text[FAILURE_BYTES];
    const int count = given_alike(play->c, &play->given, alike);
    for (int n = 0; n < count; ++n) {
        values[2 * n] = alike[n].value;
        values[2 * n + 1] = -alike[n].value;
    }
    carrier->largest(carrier->self, values, 2 * count);
    for (int n = 0; n < count; ++n) {
        if (values[2 * n] != -values[2 * n + 1]) {
            snprintf(text, sizeof(text), "%s: must be the same on all ranks", alike[n].name);
            return play_fails(play->failure, CLATTN_INVALID_ARGUMENT, text);
        }
    }
    return CLATTN_OK;
}

/* ---- a step ----------------------------------------------------------------------------------------- */

struct computing {
    struct play *play;
    const clattn_ring_step *step;
    atomic_int is_done;
};

static void *compute(void *argument)
{
    struct computing *computing = argument;
    for (int64_t n = 0; n < computing->step->tasks && computing->play->failure->status == CLATTN_OK; ++n) {
        play_task(computing->play, &computing->step->task[n]);
    }
    atomic_store(&computing->is_done, 1);
    return NULL;
}

static const struct shard_shape *shape_of(const struct play *play, clattn_ring_content content)
{
    const struct shard_shape *const shapes[] = { NULL, &play->keys, &play->queries, &play->results,
                                                 &play->key_results };
    return shapes[content];
}

static int64_t rows_of(const struct play *play, const clattn_ring_message *message)
{
    const int is_of_keys = message->content == CLATTN_RING_OF_KEYS || message->content == CLATTN_RING_OF_KEY_RESULTS;
    return is_of_keys ? clattn_ring_keys(play->ring, message->shard) : clattn_ring_rows(play->ring, message->shard);
}

static char *home_of(struct play *play)
{
    return play->c->backward ? play->own_keys : play->own;
}

/* The memory that a message is of. */
static char *memory_of(struct play *play, const clattn_ring_message *message)
{
    if (message->content == CLATTN_RING_OF_KEYS || message->content == CLATTN_RING_OF_QUERIES) {
        return play->slot[message->is_send ? play->here : 1 - play->here];
    }
    if (message->when == CLATTN_RING_WHEN_LAST) {
        return home_of(play);
    }
    return !message->is_send ? play->sum[RECEIVED] : play->has_sums ? play->sum[FRESH] : play->own;
}

static void *start(struct play *play, const clattn_ring_message *message)
{
    const struct carrier *carrier = play->carrier;
    const size_t bytes = shard_bytes(shape_of(play, message->content), rows_of(play, message));
    char *memory = memory_of(play, message);
    return message->is_send ? carrier->send(carrier->self, message->peer, message->tag, memory, bytes)
                            : carrier->receive(carrier->self, message->peer, message->tag, memory, bytes);
}

/* Whether some of them are under way still. */
static int look(const struct carrier *carrier, void **handles, int64_t count)
{
    int is_waited_for = 0;
    for (int64_t n = 0; n < count; ++n) {
        if (handles[n] && carrier->is_done(carrier->self, handles[n])) {
            handles[n] = NULL;
        }
        is_waited_for |= handles[n] != NULL;
    }
    return is_waited_for;
}

void carrier_wait(const struct carrier *carrier, void **handle)
{
    while (look(carrier, handle, 1)) {
        carrier->rest(carrier->self, NAP_LEAST_NS);
    }
}

static void swap(char **a, char **b)
{
    char *kept = *a;
    *a = *b;
    *b = kept;
}

/* What came is added where the schedule says, and takes the place of what it was added to. */
static void take_sum(struct play *play, const clattn_ring_message *message)
{
    char **own = play->has_sums ? &play->sum[FRESH] : &play->own;
    const struct shard_shape *shape = shape_of(play, message->content);
    if (message->use == CLATTN_RING_USE_AFTER) {
        sum_add(shape, rows_of(play, message), *own, play->sum[RECEIVED]);
        return;
    }
    if (message->use == CLATTN_RING_USE_BEFORE) {
        sum_add(shape, rows_of(play, message), play->sum[RECEIVED], *own);
    }
    swap(own, &play->sum[RECEIVED]);
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* How long not to look while the device computes since then: a look takes one of a CPU's cores from it for some 10
 * microseconds, and what came early is not missed. */
static int64_t nap_since(int64_t begin_ns)
{
    const int64_t share = (now_ns() - begin_ns) / 16;
    return share < NAP_LEAST_NS ? NAP_LEAST_NS : share > NAP_MOST_NS ? NAP_MOST_NS : share;
}

/* Computes while messages go; `handles` are those that must be done before the next step. A send of the step before
 * may be on its way too. */
static void compute_meanwhile(struct play *play, const clattn_ring_step *step, void **handles, int64_t count)
{
    struct computing computing = { play, step, 0 };
    pthread_t thread;
    const int has_thread = step->tasks > 0 && (count > 0 || play->sending) &&
                           pthread_create(&thread, NULL, compute, &computing) == 0;
    if (!has_thread) {
        compute(&computing);
    }
    const int64_t begin_ns = now_ns();
    for (;;) {
        const int is_computing = has_thread && !atomic_load(&computing.is_done);
        const int is_receiving = look(play->carrier, handles, count);
        const int is_sending = look(play->carrier, &play->sending, 1);
        if (!is_receiving && !(is_sending && is_computing)) {
            break;
        }
        play->carrier->rest(play->carrier->self, is_computing ? nap_since(begin_ns) : NAP_LEAST_NS);
    }
    if (has_thread) {
        pthread_join(thread, NULL);
    }
}

static void end_step(struct play *play, const clattn_ring_step *step, int is_first)
{
    int is_sent = 0;
    for (int64_t n = 0; n < step->messages; ++n) {
        if (!step->message[n].is_send && step->message[n].when == CLATTN_RING_WHEN_BEGIN &&
            step->message[n].content >= CLATTN_RING_OF_RESULTS) {
            take_sum(play, &step->message[n]);
        }
    }
    carrier_wait(play->carrier, &play->sending);
    for (int64_t n = 0; n < step->messages; ++n) {
        if (step->message[n].when == CLATTN_RING_WHEN_END) {
            play->sending = start(play, &step->message[n]);
            is_sent = 1;
        }
    }
    if (is_first && play->has_sums && !is_sent) { /* its own, which nobody else sees */
        const clattn_ring_content content = play->moves_keys ? CLATTN_RING_OF_KEY_RESULTS : CLATTN_RING_OF_RESULTS;
        const clattn_ring_message own = { .content = content, .shard = play->carrier->rank };
        memcpy(home_of(play), play->sum[FRESH], shard_bytes(shape_of(play, content), rows_of(play, &own)));
    }
    swap(&play->sum[FRESH], &play->sum[SENDING]);
    play->here = 1 - play->here;
}

static void clear_fresh(struct play *play, const clattn_ring_step *step)
{
    const int64_t shard = step->tasks == 0   ? play->carrier->rank
                          : play->moves_keys ? step->task[0].key_shard
                                             : step->task[0].row_shard;
    const clattn_ring_content content = play->moves_keys ? CLATTN_RING_OF_KEY_RESULTS : CLATTN_RING_OF_RESULTS;
    clattn_ring_message of = { .content = content, .shard = shard };
    for (int64_t n = 0; n < step->messages; ++n) {
        of = step->message[n].when == CLATTN_RING_WHEN_END ? step->message[n] : of;
    }
    sum_clear(shape_of(play, content), rows_of(play, &of), play->sum[FRESH]);
}

static void play_step(struct play *play, const clattn_ring_step *step, int is_first, void **handles)
{
    int64_t count = 0;
    for (int64_t n = 0; n < step->messages; ++n) {
        if (step->message[n].when == CLATTN_RING_WHEN_BEGIN) {
            handles[count++] = start(play, &step->message[n]);
        }
    }
    if (play->has_sums) {
        clear_fresh(play, step);
    }
    compute_meanwhile(play, step, handles, count);
    end_step(play, step, is_first);
}

/* ---- all of them -------------------------------------------------------------------------------------- */

static void *start_last(struct play *play)
{
    clattn_ring_step step;
    clattn_ring_step_at(play->ring, 0, &step);
    for (int64_t n = 0; n < step.messages; ++n) {
        if (step.message[n].when == CLATTN_RING_WHEN_LAST) {
            return start(play, &step.message[n]);
        }
    }
    return NULL;
}

static void play_all(struct play *play, void **handles)
{
    void *last = start_last(play);
    for (int64_t index = 0; index < clattn_ring_steps(play->ring); ++index) {
        clattn_ring_step step;
        clattn_ring_step_at(play->ring, index, &step);
        play_step(play, &step, index == 0, handles);
    }
    carrier_wait(play->carrier, &play->sending);
    carrier_wait(play->carrier, &last);
    if (play->failure->status == CLATTN_OK) {
        play_give(play);
    }
}

clattn_status ranks_run(const struct carrier *carrier, const struct rank_call *call, struct failure *failure)
{
    enum { MESSAGES = 8 }; /* of one step of a ring or a tree, at most */
    void *handles[MESSAGES];
    struct play play = { .carrier = carrier, .c = call, .failure = failure };
    failure->status = CLATTN_OK;
    failure->text[0] = '\0';
    play_begin(&play);
    clattn_status status = agree(carrier, failure);
    if (status == CLATTN_OK) {
        status = agree_on(&play);
    }
    if (status == CLATTN_OK) {
        if (play.heads) {
            heads_play(&play);
        } else {
            play_all(&play, handles);
        }
        totals_join(&play);
        if (failure->status == CLATTN_OK) {
            totals_give(&play);
        }
        status = agree(carrier, failure);
        if (call->explained) {
            *call->explained = strdup(clattn_ring_explain(play.ring));
        }
    }
    play_end(&play);
    return status;
}
