#include "api/ring_mail.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../mpi/given.h"

#define VALUES (2 * ALIKE_MOST)

struct mail {
    struct mail *next;
    int64_t from, to;
    int tag, looks; /* after which it is there */
    size_t bytes;
    char data[];
};

struct post {
    pthread_mutex_t lock;
    pthread_cond_t all_met;
    int64_t ranks, met;
    uint64_t meeting;
    int64_t values[2][VALUES]; /* of a meeting, and of the one before, which some still read */
    char *told[2];             /* the same */
    struct mail *first, **last;
    unsigned drawn;
};

struct place {
    struct post *post;
    int64_t rank;
};

struct request {
    struct place *place;
    int is_send, tag;
    int64_t peer;
    void *data;
    size_t bytes;
};

struct post *post_open(int64_t ranks)
{
    struct post *post = calloc(1, sizeof(*post));
    pthread_mutex_init(&post->lock, NULL);
    pthread_cond_init(&post->all_met, NULL);
    post->ranks = ranks;
    post->last = &post->first;
    return post;
}

void post_close(struct post *post)
{
    pthread_cond_destroy(&post->all_met);
    pthread_mutex_destroy(&post->lock);
    free(post->told[0]);
    free(post->told[1]);
    free(post);
}

static void *request(struct place *place, int is_send, int64_t peer, int tag, void *data, size_t bytes)
{
    struct request *request = malloc(sizeof(*request));
    *request = (struct request){ place, is_send, tag, peer, data, bytes };
    return request;
}

static void *send_mail(void *self, int64_t peer, int tag, const void *data, size_t bytes)
{
    struct place *place = self;
    struct post *post = place->post;
    struct mail *mail = malloc(sizeof(*mail) + bytes);
    mail->next = NULL;
    mail->from = place->rank;
    mail->to = peer;
    mail->tag = tag;
    mail->bytes = bytes;
    memcpy(mail->data, data, bytes);
    pthread_mutex_lock(&post->lock);
    post->drawn = post->drawn * 1103515245u + 12345u;
    mail->looks = (int)(post->drawn >> 16) % 20;
    *post->last = mail;
    post->last = &mail->next;
    pthread_mutex_unlock(&post->lock);
    return request(place, 1, peer, tag, NULL, bytes);
}

static void *receive_mail(void *self, int64_t peer, int tag, void *data, size_t bytes)
{
    return request(self, 0, peer, tag, data, bytes);
}

/* Takes the first mail that is meant, once it has been looked for often enough. */
static int take(struct post *post, const struct request *request)
{
    for (struct mail **at = &post->first; *at; at = &(*at)->next) {
        struct mail *mail = *at;
        if (mail->from != request->peer || mail->to != request->place->rank || mail->tag != request->tag) {
            continue;
        }
        if (mail->looks-- > 0 || mail->bytes != request->bytes) {
            return 0;
        }
        memcpy(request->data, mail->data, mail->bytes);
        *at = mail->next;
        post->last = post->last == &mail->next ? at : post->last;
        free(mail);
        return 1;
    }
    return 0;
}

static int is_done(void *self, void *handle)
{
    struct place *place = self;
    struct request *request = handle;
    pthread_mutex_lock(&place->post->lock);
    const int done = request->is_send || take(place->post, request);
    pthread_mutex_unlock(&place->post->lock);
    if (done) {
        free(request);
    }
    return done;
}

/* Sleeps: who waits leaves the cores to who computes. */
static void rest(void *self, int64_t ns)
{
    const struct timespec nap = { 0, 20000 }; /* what it carries is there at once */
    (void)self;
    (void)ns;
    nanosleep(&nap, NULL);
}

/* The lock is held. */
static void meet(struct post *post)
{
    const uint64_t meeting = post->meeting;
    if (++post->met == post->ranks) {
        post->met = 0;
        post->meeting++;
        pthread_cond_broadcast(&post->all_met);
    }
    while (post->meeting == meeting) {
        pthread_cond_wait(&post->all_met, &post->lock);
    }
}

static void largest(void *self, int64_t *values, int count)
{
    struct post *post = ((struct place *)self)->post;
    pthread_mutex_lock(&post->lock);
    int64_t *all = post->values[post->meeting % 2];
    for (int n = 0; n < count; ++n) {
        all[n] = post->met == 0 || values[n] > all[n] ? values[n] : all[n];
    }
    meet(post);
    memcpy(values, all, (size_t)count * sizeof(*values));
    pthread_mutex_unlock(&post->lock);
}

static void tell(void *self, int64_t root, void *data, int bytes)
{
    struct place *place = self;
    struct post *post = place->post;
    pthread_mutex_lock(&post->lock);
    char **told = &post->told[post->meeting % 2];
    if (place->rank == root) {
        *told = realloc(*told, (size_t)bytes);
        memcpy(*told, data, (size_t)bytes);
    }
    meet(post);
    memcpy(data, *told, (size_t)bytes);
    pthread_mutex_unlock(&post->lock);
}

struct carrier post_carrier(struct post *post, int64_t rank)
{
    static struct place places[64];
    places[rank] = (struct place){ post, rank };
    const struct carrier carrier = { &places[rank], rank, post->ranks, send_mail, receive_mail,
                                     is_done,       rest, largest,     tell };
    return carrier;
}
