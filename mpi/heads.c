#include "heads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS = 5 + 1 }; /* tensors of a message, at most, and none, which ends them */

/* A tensor in two places: the caller's, with this rank's rows of all heads, and all rows of this rank's heads, dense in
 * the order of the whole. */
struct part {
    clattn_type type;
    int64_t columns;
    const clattn_host_tensor *shard;
    char *whole;
};

/* Rows, or keys. */
struct side {
    int64_t (*count)(const clattn_ring *ring, int64_t rank);
    int64_t length, heads, group; /* of the whole; this rank's; of a key/value head */
    int64_t *place;               /* [length]: of each row in the whole, in the order of the layout */
};

struct heads {
    struct part part[CLATTN_RING_CONTENTS][PARTS];
    struct side rows, keys;
    char *mail; /* the messages of a step, one behind the other */
    void **handles;
};

/* ---- memory ------------------------------------------------------------------------------------- */

static const struct side *side_of(const struct heads *heads, clattn_ring_content content)
{
    return content == CLATTN_RING_OF_KEYS || content == CLATTN_RING_OF_KEY_RESULTS ? &heads->keys : &heads->rows;
}

static size_t row_bytes(const struct part *part)
{
    return clattn_row_bytes(part->type, part->columns);
}

/* Rows of this rank's shard. */
static int64_t count_of(const struct play *play, const struct side *side)
{
    const int64_t rank = play->carrier->rank;
    return side == &play->heads->keys ? clattn_ring_keys(play->ring, rank) : clattn_ring_rows(play->ring, rank);
}

static clattn_status add_part(struct play *play, clattn_ring_content content, const char *name, clattn_type type,
                              int64_t columns, const clattn_host_tensor *shard)
{
    const struct side *side = side_of(play->heads, content);
    struct part *part = play->heads->part[content];
    char text[FAILURE_BYTES];
    if (count_of(play, side) > 0 && (!shard->data || (columns > 1 && shard->stride[3] != 1))) {
        snprintf(text, sizeof(text), "%s: must be given, with an innermost stride of 1", name);
        return play_fails(play->failure, CLATTN_INVALID_ARGUMENT, text);
    }
    while (part->shard) {
        ++part;
    }
    *part = (struct part){ type, columns, shard, NULL };
    part->whole = calloc((size_t)(play->given.whole.batch * side->heads * side->length) + 1, row_bytes(part));
    return part->whole ? CLATTN_OK
                       : play_fails(play->failure, CLATTN_OUT_OF_HOST_MEMORY, "out of memory for all rows of heads");
}

static clattn_status add_parts(struct play *play)
{
    const clattn_problem *p = &play->given.whole;
    const clattn_host_tensors *t = &play->given.tensors;
    const clattn_backward_problem *backward = play->c->backward ? &play->given.backward : NULL;
    const clattn_host_gradients *g = &play->given.gradients;
    const clattn_type wanted = backward ? backward->gradient_type : CLATTN_TYPE_NONE;
    const clattn_ring_content out = backward ? CLATTN_RING_OF_QUERIES : CLATTN_RING_OF_RESULTS;
    const struct {
        int is_there;
        clattn_ring_content content;
        const char *name;
        clattn_type type;
        int64_t columns;
        const clattn_host_tensor *shard;
    } parts[] = {
        { 1, CLATTN_RING_OF_QUERIES, "query", p->type, p->head_dim, &t->query },
        { 1, CLATTN_RING_OF_KEYS, "key", p->key_type, p->head_dim, &t->key },
        { 1, CLATTN_RING_OF_KEYS, "value", p->value_type, p->head_dim_v, &t->value },
        { 1, out, "out", p->out_type, p->head_dim_v, &t->out },
        { backward || p->features & CLATTN_WITH_LSE, out, "lse", CLATTN_FLOAT32, 1, &t->lse },
        { backward != NULL, CLATTN_RING_OF_QUERIES, "dout", p->out_type, p->head_dim_v, &g->dout },
        { backward && backward->features & CLATTN_WITH_DLSE, CLATTN_RING_OF_QUERIES, "dlse", CLATTN_FLOAT32, 1,
          &g->dlse },
        { backward != NULL, CLATTN_RING_OF_RESULTS, "dquery", wanted ? wanted : p->type, p->head_dim, &g->dquery },
        { backward != NULL, CLATTN_RING_OF_KEY_RESULTS, "dkey", wanted ? wanted : p->key_type, p->head_dim, &g->dkey },
        { backward != NULL, CLATTN_RING_OF_KEY_RESULTS, "dvalue", wanted ? wanted : p->value_type, p->head_dim_v,
          &g->dvalue },
    };
    clattn_status status = CLATTN_OK;
    for (size_t n = 0; n < sizeof(parts) / sizeof(parts[0]) && status == CLATTN_OK; ++n) {
        if (parts[n].is_there) {
            status = add_part(play, parts[n].content, parts[n].name, parts[n].type, parts[n].columns, parts[n].shard);
        }
    }
    return status;
}

/* Numbers of rows, permuted as rows are. */
static int make_side(const struct play *play, struct side *side)
{
    const size_t bytes = (size_t)(side->length + 1) * sizeof(int64_t);
    int64_t *in_order = malloc(bytes);
    side->place = malloc(bytes);
    for (int64_t n = 0; n < side->length && in_order; ++n) {
        in_order[n] = n;
    }
    const int is_made = in_order && side->place &&
                        clattn_ring_permute(play->c->layout, play->carrier->ranks, 1, side->length, sizeof(int64_t), 0,
                                            in_order, side->place) == CLATTN_OK;
    free(in_order);
    return is_made;
}

static size_t message_bytes(const struct play *play, const clattn_ring_message *message)
{
    const struct side *side = side_of(play->heads, message->content);
    const size_t rows =
        (size_t)(play->given.whole.batch * message->kv_heads * side->group * side->count(play->ring, message->shard));
    size_t bytes = 0;
    for (const struct part *part = play->heads->part[message->content]; part->shard; ++part) {
        bytes += rows * row_bytes(part);
    }
    return bytes;
}

/* This rank's rows of its own heads, which no message is of. */
static clattn_ring_message own_message(const struct play *play, clattn_ring_content content, int is_send)
{
    const int64_t heads = play->given.whole.kv_heads / play->carrier->ranks, rank = play->carrier->rank;
    const clattn_ring_message own = {
        .is_send = is_send, .content = content, .shard = rank, .first_kv_head = rank * heads, .kv_heads = heads
    };
    return own;
}

static int make_mail(struct play *play)
{
    size_t most = 1;
    int64_t messages = 1;
    for (int content = CLATTN_RING_OF_KEYS; content < CLATTN_RING_CONTENTS; ++content) {
        const clattn_ring_message own = own_message(play, (clattn_ring_content)content, 1);
        const size_t bytes = message_bytes(play, &own);
        most = bytes > most ? bytes : most;
    }
    for (int64_t index = 0; index < clattn_ring_steps(play->ring); ++index) {
        clattn_ring_step step;
        size_t bytes = 0;
        clattn_ring_step_at(play->ring, index, &step);
        for (int64_t n = 0; n < step.messages; ++n) {
            bytes += message_bytes(play, &step.message[n]);
        }
        most = bytes > most ? bytes : most;
        messages = step.messages > messages ? step.messages : messages;
    }
    play->heads->mail = malloc(most);
    play->heads->handles = malloc((size_t)messages * sizeof(*play->heads->handles));
    return play->heads->mail && play->heads->handles;
}

clattn_status heads_begin(struct play *play)
{
    const clattn_problem *p = &play->given.whole;
    const int64_t heads = p->kv_heads / play->carrier->ranks;
    const int64_t group = p->kv_heads > 0 ? p->query_heads / p->kv_heads : 1;
    play->heads = calloc(1, sizeof(*play->heads));
    if (play->heads) {
        play->heads->rows = (struct side){ clattn_ring_rows, p->query_len, heads * group, group, NULL };
        play->heads->keys = (struct side){ clattn_ring_keys, p->key_len, heads, 1, NULL };
    }
    if (!play->heads || !make_side(play, &play->heads->rows) || !make_side(play, &play->heads->keys)) {
        return play_fails(play->failure, CLATTN_OUT_OF_HOST_MEMORY, "out of memory for the order of rows");
    }
    const clattn_status status = add_parts(play);
    return status != CLATTN_OK || make_mail(play)
               ? status
               : play_fails(play->failure, CLATTN_OUT_OF_HOST_MEMORY, "out of memory for messages");
}

void heads_end(struct play *play)
{
    struct heads *heads = play->heads;
    for (int content = 0; content < CLATTN_RING_CONTENTS && heads; ++content) {
        for (int n = 0; n < PARTS; ++n) {
            free(heads->part[content][n].whole);
        }
    }
    if (heads) {
        free(heads->rows.place);
        free(heads->keys.place);
        free(heads->mail);
        free(heads->handles);
        free(heads);
    }
}

/* ---- messages ------------------------------------------------------------------------------------- */

static int64_t shard_begin(const struct play *play, const struct side *side, int64_t shard)
{
    int64_t begin = 0;
    for (int64_t before = 0; before < shard; ++before) {
        begin += side->count(play->ring, before);
    }
    return begin;
}

/* Between a message and tensors. Results leave from all rows of this rank's heads and come to its shard; all else goes
 * the other way. */
static void carry(const struct play *play, const clattn_ring_message *message, char *mail)
{
    const struct side *side = side_of(play->heads, message->content);
    const int of_whole = message->is_send == (message->content >= CLATTN_RING_OF_RESULTS);
    const int64_t heads = message->kv_heads * side->group, first = message->first_kv_head * side->group;
    const int64_t rows = side->count(play->ring, message->shard);
    const int64_t *place = side->place + shard_begin(play, side, message->shard);
    for (const struct part *part = play->heads->part[message->content]; part->shard; ++part) {
        const size_t bytes = row_bytes(part), element = clattn_type_size(part->type);
        for (int64_t n = 0; n < play->given.whole.batch * heads * rows; ++n, mail += bytes) {
            const int64_t plane = n / rows, i = n % rows;
            char *row = of_whole ? part->whole + (size_t)(plane * side->length + place[i]) * bytes
                                 : tensor_row(part->shard, element, plane / heads, first + plane % heads, i);
            memcpy(message->is_send ? mail : row, message->is_send ? row : mail, bytes);
        }
    }
}

static void carry_own(const struct play *play, clattn_ring_content content)
{
    for (int is_send = 1; is_send >= 0; --is_send) {
        const clattn_ring_message own = own_message(play, content, is_send);
        carry(play, &own, play->heads->mail);
    }
}

static void exchange(const struct play *play, const clattn_ring_step *step)
{
    const struct carrier *carrier = play->carrier;
    void **handles = play->heads->handles;
    char *mail = play->heads->mail;
    for (int64_t n = 0; n < step->messages; ++n) {
        const clattn_ring_message *message = &step->message[n];
        const size_t bytes = message_bytes(play, message);
        if (message->is_send) {
            carry(play, message, mail);
        }
        handles[n] = message->is_send ? carrier->send(carrier->self, message->peer, message->tag, mail, bytes)
                                      : carrier->receive(carrier->self, message->peer, message->tag, mail, bytes);
        mail += bytes;
    }
    mail = play->heads->mail;
    for (int64_t n = 0; n < step->messages; ++n) {
        carrier_wait(carrier, &handles[n]);
    }
    for (int64_t n = 0; n < step->messages; ++n) {
        if (!step->message[n].is_send) {
            carry(play, &step->message[n], mail);
        }
        mail += message_bytes(play, &step->message[n]);
    }
}

/* ---- the call ------------------------------------------------------------------------------------- */

/* Part n of a content, of all rows; a tensor that is not there where the content has no more. */
static clattn_host_tensor whole_of(const struct play *play, clattn_ring_content content, int n)
{
    const struct side *side = side_of(play->heads, content);
    const struct part *part = &play->heads->part[content][n];
    return clattn_host_tensor_bhsd(part->whole, side->heads, side->length, part->columns);
}

/* A number for each head. */
static void skip_heads(clattn_host_tensor *tensor, int64_t heads)
{
    tensor->offset += tensor->data ? heads * tensor->stride[1] : 0;
}

static void compute(struct play *play, const clattn_ring_task *task)
{
    clattn_problem p = CLATTN_PROBLEM_INIT;
    clattn_call call = play->given.call;
    clattn_host_tensors t = play->given.tensors;
    clattn_host_gradients g = CLATTN_HOST_GRADIENTS_INIT;
    clattn_status status = clattn_ring_call(play->ring, task, &p, &call, play->offsets, play->lengths);
    const clattn_ring_content out = play->c->backward ? CLATTN_RING_OF_QUERIES : CLATTN_RING_OF_RESULTS;
    const int first = play->c->backward ? 1 : 0; /* behind the query */
    play_lengths(play, &p, &t);
    skip_heads(&t.slopes, task->first_kv_head * play->heads->rows.group);
    skip_heads(&t.sinks, task->first_kv_head * play->heads->rows.group);
    t.query = whole_of(play, CLATTN_RING_OF_QUERIES, 0);
    t.key = whole_of(play, CLATTN_RING_OF_KEYS, 0);
    t.value = whole_of(play, CLATTN_RING_OF_KEYS, 1);
    t.out = whole_of(play, out, first);
    t.lse = whole_of(play, out, first + 1);
    if (status == CLATTN_OK && play->c->backward) {
        clattn_backward_problem backward = play->given.backward;
        backward.forward = &p;
        g.dout = whole_of(play, CLATTN_RING_OF_QUERIES, 3);
        g.dlse = whole_of(play, CLATTN_RING_OF_QUERIES, 4);
        g.dquery = whole_of(play, CLATTN_RING_OF_RESULTS, 0);
        g.dkey = whole_of(play, CLATTN_RING_OF_KEY_RESULTS, 0);
        g.dvalue = whole_of(play, CLATTN_RING_OF_KEY_RESULTS, 1);
        const struct total_place place = play_place(play, task);
        totals_place(play, &place, &g);
        status = clattn_backward_host(play->c->context, &backward, &call, &t, &g);
        if (status == CLATTN_OK) {
            totals_add(play, &place, backward.gradients);
        }
    } else if (status == CLATTN_OK) {
        status = clattn_forward_host(play->c->context, &p, &call, &t);
    }
    if (status != CLATTN_OK) {
        play_fails(play->failure, status, clattn_last_error());
    }
}

void heads_play(struct play *play)
{
    carry_own(play, CLATTN_RING_OF_QUERIES);
    carry_own(play, CLATTN_RING_OF_KEYS);
    for (int64_t index = 0; index < clattn_ring_steps(play->ring); ++index) {
        clattn_ring_step step;
        clattn_ring_step_at(play->ring, index, &step);
        exchange(play, &step);
        for (int64_t n = 0; n < step.tasks; ++n) {
            compute(play, &step.task[n]);
        }
    }
    carry_own(play, CLATTN_RING_OF_RESULTS);
    carry_own(play, CLATTN_RING_OF_KEY_RESULTS);
}
