/* A list, newest first, under one lock: also while a plan is made, so that threads do not compile the same twice. */
#include "plans.h"

#include "declined.h"

#include <stdlib.h>
#include <string.h>

#define LENGTH_MIN 64                           /* of keys: shorter ones share a plan */
#define LENGTH_MAX (INT64_C(2147483647) - 4096) /* clattn_problem's */
#define KEY_FIELDS 21

/* All in which the problems of nodes differ. */
struct plan_key {
    int64_t field[KEY_FIELDS];
    double softcap;
};

struct kept_plan {
    struct plan_key key;
    clattn_plan *plan;
    int users;     /* calls under way */
    uint64_t used; /* when last, by the count of calls */
    struct kept_plan *next;
};

int64_t length_rounded_up(int64_t length, int64_t least)
{
    int64_t rounded = least;
    while (rounded < length) {
        rounded *= 2;
    }
    return rounded < LENGTH_MAX ? rounded : LENGTH_MAX;
}

static struct plan_key key_of(const clattn_problem *p)
{
    const struct plan_key key = { { p->type,
                                    p->batch,
                                    p->query_heads,
                                    p->kv_heads,
                                    p->query_len,
                                    p->key_len,
                                    p->head_dim,
                                    p->head_dim_v,
                                    p->features,
                                    p->bias_type,
                                    p->weights,
                                    p->causal,
                                    p->alignment,
                                    p->window_left,
                                    p->window_right,
                                    p->strided_columns,
                                    p->key_type,
                                    p->value_type,
                                    p->out_type,
                                    p->key_scale_columns,
                                    p->value_scale_columns },
                                  p->softcap };
    return key;
}

static int is_same(const struct plan_key *a, const struct plan_key *b)
{
    return memcmp(a->field, b->field, sizeof(a->field)) == 0 && a->softcap == b->softcap;
}

void plans_init(struct plans *plans, clattn_context *context)
{
    memset(plans, 0, sizeof(*plans));
    plans->context = context;
    pthread_mutex_init(&plans->lock, NULL);
}

static void remove_plan(struct plans *plans, struct kept_plan **place)
{
    struct kept_plan *kept = *place;
    *place = kept->next;
    --plans->count;
    clattn_plan_destroy(kept->plan);
    free(kept);
}

void plans_release(struct plans *plans)
{
    while (plans->first) {
        remove_plan(plans, &plans->first);
    }
    pthread_mutex_destroy(&plans->lock);
}

static struct kept_plan *find(const struct plans *plans, const struct plan_key *key)
{
    struct kept_plan *kept = plans->first;
    while (kept && !is_same(&kept->key, key)) {
        kept = kept->next;
    }
    return kept;
}

/* Removes the one that was not used for longest, if any is idle. */
static void make_room(struct plans *plans)
{
    struct kept_plan **oldest = NULL;
    for (struct kept_plan **place = &plans->first; *place; place = &(*place)->next) {
        if ((*place)->users == 0 && (!oldest || (*place)->used < (*oldest)->used)) {
            oldest = place;
        }
    }
    if (oldest) {
        remove_plan(plans, oldest);
    }
}

static OrtStatus *make(struct plans *plans, const clattn_problem *maxima, struct kept_plan **made)
{
    struct kept_plan *kept = calloc(1, sizeof(*kept));
    if (!kept) {
        return refuse_memory();
    }
    const clattn_status status = clattn_plan_create(plans->context, maxima, &kept->plan);
    if (status != CLATTN_OK) {
        free(kept);
        return refuse_as_clattn(status);
    }
    planned_count();
    if (plans->count >= PLANS_KEPT) {
        make_room(plans);
    }
    kept->key = key_of(maxima);
    kept->next = plans->first;
    plans->first = kept;
    ++plans->count;
    *made = kept;
    return NULL;
}

OrtStatus *plans_take(struct plans *plans, const clattn_problem *problem, struct kept_plan **kept,
                      const clattn_plan **plan)
{
    clattn_problem maxima = *problem;
    maxima.query_len = length_rounded_up(problem->query_len, 1);
    maxima.key_len = length_rounded_up(problem->key_len, LENGTH_MIN);
    const struct plan_key key = key_of(&maxima);
    OrtStatus *status = NULL;
    pthread_mutex_lock(&plans->lock);
    *kept = find(plans, &key);
    if (!*kept) {
        status = make(plans, &maxima, kept);
    }
    if (!status) {
        (*kept)->used = ++plans->calls;
        ++(*kept)->users;
        *plan = (*kept)->plan;
    }
    pthread_mutex_unlock(&plans->lock);
    return status;
}

void plans_give(struct plans *plans, struct kept_plan *kept)
{
    pthread_mutex_lock(&plans->lock);
    --kept->users;
    pthread_mutex_unlock(&plans->lock);
}
