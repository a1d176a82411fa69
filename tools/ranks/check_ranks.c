#include "check_ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "check_gradients.h"
#include "check_part.h"

#define CHECK_BUDGET 1e8 /* multiplications of the reference a row */

/* A key head of the whole with its query heads, and what made the results. */
struct head {
    const struct shard *shard;
    clattn_context *context;
    const clattn_plan *plan, *backward_plan; /* NULL: no gradients */
    int64_t b, kv_head, group;
    struct tensor key, value;            /* [1, key_len, columns] */
    struct tensor query, dout, out, lse; /* of gradients: [group, query_len, columns] */
};

static clattn_host_tensor dense(const struct tensor *tensor)
{
    return clattn_host_tensor_bhsd(tensor->data, tensor->shape[0], tensor->shape[1],
                                   tensor->dims > 2 ? tensor->shape[2] : 1);
}

/* The shard's tensor, from one row of a head of an entry on. */
static clattn_host_tensor from(clattn_host_tensor tensor, const struct head *head, int64_t first_head, int64_t place)
{
    tensor.offset += head->b * tensor.stride[0] + first_head * tensor.stride[1] + place * tensor.stride[2];
    return tensor;
}

/* A part of this head's problem. */
static clattn_problem problem_of(const struct head *head, const struct check_part *part, int32_t *offset)
{
    const clattn_problem *whole = head->shard->whole;
    clattn_problem p = check_part_problem(whole, whole->key_len, part, offset);
    p.query_heads = head->group;
    p.kv_heads = 1;
    return p;
}

static void place_of_heads(const struct head *head, const clattn_problem *p, int32_t *offset, clattn_host_tensors *t)
{
    t->slopes.offset += head->kv_head * head->group;
    t->sinks.offset += head->kv_head * head->group;
    if (p->alignment != CLATTN_ALIGN_UNSET) {
        t->query_offsets.data = offset;
    }
}

static int check_row(const struct head *head, int64_t place, struct ranks_check *found, struct failure *failure)
{
    const struct shard *shard = head->shard;
    const int64_t first_head = head->kv_head * head->group;
    struct gradient_check gradients[GRADIENT_KINDS] = { { 0, 0, 0 } };
    struct check check;
    int32_t offset;
    const struct check_part part = { shard_axis_at(&shard->rows, place), 1, 0, shard->whole->key_len };
    const clattn_problem p = problem_of(head, &part, &offset);
    const clattn_call call = CLATTN_CALL_INIT;
    clattn_host_tensors t = shard->host;
    t.query = from(t.query, head, first_head, place);
    t.out = from(t.out, head, first_head, place);
    t.lse = from(t.lse, head, first_head, place);
    t.key = dense(&head->key);
    t.value = dense(&head->value);
    place_of_heads(head, &p, &offset, &t);
    if (check_forward(head->context, &p, &call, &t, head->plan, CHECK_BUDGET, &check, failure) != 0) {
        return -1;
    }
    found->share = fmax(found->share, fmax(check.out_share, check.lse_share));
    found->rows += head->group;
    if (!head->backward_plan) {
        return 0;
    }
    clattn_backward_problem backward = CLATTN_BACKWARD_PROBLEM_INIT;
    clattn_host_gradients g = CLATTN_HOST_GRADIENTS_INIT;
    backward.forward = &p;
    backward.gradients = CLATTN_GRADIENT_QUERY;
    g.dout = from(shard->gradients.dout, head, first_head, place);
    g.dquery = from(shard->gradients.dquery, head, first_head, place);
    const int result = check_gradients(&backward, NULL, &t, &g, head->backward_plan, gradients, failure);
    found->share = fmax(found->share, check_gradients_share(gradients));
    return result;
}

/* One key with all rows: out and lse are those of all keys, which a backward pass may have. */
static int check_key(const struct head *head, int64_t place, struct ranks_check *found, struct failure *failure)
{
    const struct shard *shard = head->shard;
    struct gradient_check gradients[GRADIENT_KINDS] = { { 0, 0, 0 } };
    int32_t offset;
    const struct check_part part = { 0, shard->whole->query_len, shard_axis_at(&shard->keys, place), 1 };
    const clattn_problem p = problem_of(head, &part, &offset);
    clattn_backward_problem backward = CLATTN_BACKWARD_PROBLEM_INIT;
    clattn_host_tensors t = shard->host;
    clattn_host_gradients g = CLATTN_HOST_GRADIENTS_INIT;
    t.query = dense(&head->query);
    t.out = dense(&head->out);
    t.lse = dense(&head->lse);
    t.key = from(t.key, head, head->kv_head, place);
    t.value = from(t.value, head, head->kv_head, place);
    place_of_heads(head, &p, &offset, &t);
    backward.forward = &p;
    backward.gradients = CLATTN_GRADIENT_KEY | CLATTN_GRADIENT_VALUE;
    g.dout = dense(&head->dout);
    g.dkey = from(shard->gradients.dkey, head, head->kv_head, place);
    g.dvalue = from(shard->gradients.dvalue, head, head->kv_head, place);
    const int result = check_gradients(&backward, NULL, &t, &g, head->backward_plan, gradients, failure);
    found->share = fmax(found->share, check_gradients_share(gradients));
    found->keys++;
    return result;
}

/* ---- results of all ranks ---- */

/* Rows of one head, from all ranks, in the order of the whole: `to` has them behind one another. */
static int gather_rows(MPI_Comm communicator, const clattn_ring_options *o, const struct head *head,
                       const struct tensor *own, int64_t query_head, char *to, struct failure *failure)
{
    const clattn_problem *whole = head->shard->whole;
    const int64_t rows = head->shard->rows.count;
    const size_t row_bytes = tensor_type_size(own->type) * (size_t)own->shape[3];
    int *counts = calloc(2 * (size_t)o->ranks, sizeof *counts), *first = counts + o->ranks, at = 0;
    char *shards = malloc((size_t)whole->query_len * row_bytes + 1);
    if (!counts || !shards) {
        free(counts);
        free(shards);
        return failure_failed(failure, "out of memory for %lld rows of all ranks", (long long)whole->query_len);
    }
    for (int rank = 0; rank < o->ranks; rank++) {
        clattn_ring_piece pieces[2];
        int n;
        clattn_ring_pieces(o->layout, o->ranks, rank, whole->query_len, pieces, &n);
        counts[rank] = (int)((n > 0 ? pieces[0].count : 0) + (n > 1 ? pieces[1].count : 0));
        first[rank] = at;
        at += counts[rank];
    }
    MPI_Datatype row;
    MPI_Type_contiguous((int)row_bytes, MPI_BYTE, &row);
    MPI_Type_commit(&row);
    MPI_Allgatherv((char *)own->data + (size_t)((head->b * whole->query_heads + query_head) * rows) * row_bytes,
                   (int)rows, row, shards, counts, first, row, communicator);
    MPI_Type_free(&row);
    clattn_ring_permute(o->layout, o->ranks, 1, whole->query_len, row_bytes, 1, shards, to);
    free(counts);
    free(shards);
    return 0;
}

static int gather(MPI_Comm communicator, const clattn_ring_options *o, const struct head *head, enum shard_tensor id,
                  struct tensor *tensor, struct failure *failure)
{
    const struct tensor *own = &head->shard->tensor[id];
    const int64_t shape[] = { head->group, head->shard->whole->query_len, own->shape[3] };
    if (tensor_create(tensor, own->type, 3, shape, "rows of all ranks", failure) != 0) {
        return -1;
    }
    const size_t head_bytes = head->group ? tensor_bytes(tensor) / (size_t)head->group : 0;
    for (int64_t h = 0; h < head->group; h++) {
        if (gather_rows(communicator, o, head, own, head->kv_head * head->group + h,
                        (char *)tensor->data + (size_t)h * head_bytes, failure) != 0) {
            return -1;
        }
    }
    return 0;
}

/* ---- a head ---- */

static int make_head(MPI_Comm communicator, const clattn_ring_options *o, struct head *head, struct failure *failure)
{
    const clattn_problem *whole = head->shard->whole;
    const int64_t first_head = head->kv_head * head->group;
    if (shard_make_heads(whole, SHARD_KEY, head->b, head->kv_head, 1, &head->key, failure) != 0 ||
        shard_make_heads(whole, SHARD_VALUE, head->b, head->kv_head, 1, &head->value, failure) != 0) {
        return -1;
    }
    return head->backward_plan &&
                   (shard_make_heads(whole, SHARD_QUERY, head->b, first_head, head->group, &head->query, failure) !=
                        0 ||
                    shard_make_heads(whole, SHARD_DOUT, head->b, first_head, head->group, &head->dout, failure) != 0 ||
                    gather(communicator, o, head, SHARD_OUT, &head->out, failure) != 0 ||
                    gather(communicator, o, head, SHARD_LSE, &head->lse, failure) != 0)
               ? -1
               : 0;
}

static int check_head(const struct head *head, struct ranks_check *check, struct failure *failure)
{
    int result = 0;
    for (int n = 0; n < CHECK_SAMPLES && head->shard->rows.count > 0 && result == 0; n++) {
        result = check_row(head, check_sample(n, head->shard->rows.count), check, failure);
    }
    for (int n = 0; n < CHECK_SAMPLES && head->backward_plan && head->shard->keys.count > 0 && result == 0; n++) {
        result = check_key(head, check_sample(n, head->shard->keys.count), check, failure);
    }
    return result;
}

static int check_heads(MPI_Comm communicator, const clattn_ring_options *o, struct head *head,
                       struct ranks_check *check, struct failure *failure)
{
    const clattn_problem *whole = head->shard->whole;
    const int64_t heads = whole->batch * whole->kv_heads;
    for (int n = 0; n < CHECK_SAMPLES && heads > 0; n++) {
        const int64_t at = check_sample(n, heads);
        head->b = at / whole->kv_heads;
        head->kv_head = at % whole->kv_heads;
        int result = make_head(communicator, o, head, failure);
        if (result == 0) {
            result = check_head(head, check, failure);
        }
        struct tensor *const made[] = { &head->key, &head->value, &head->query, &head->dout, &head->out, &head->lse };
        for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
            tensor_free(made[i]);
        }
        if (result != 0) {
            return -1;
        }
    }
    return 0;
}

int check_ranks(MPI_Comm communicator, const clattn_ring_options *options, clattn_context *context,
                const struct shard *shard, int backward, struct ranks_check *check, struct failure *failure)
{
    const clattn_problem *whole = shard->whole;
    struct head head = { .shard = shard, .context = context };
    clattn_backward_problem gradients = CLATTN_BACKWARD_PROBLEM_INIT;
    clattn_plan *plan = NULL, *backward_plan = NULL;
    memset(check, 0, sizeof *check);
    head.group = whole->kv_heads ? whole->query_heads / whole->kv_heads : 0;
    gradients.forward = whole;
    gradients.gradients = CLATTN_GRADIENT_QUERY | CLATTN_GRADIENT_KEY | CLATTN_GRADIENT_VALUE;
    clattn_status status = clattn_plan_create(context, whole, &plan); /* tells what its kind rounds */
    if (status == CLATTN_OK && backward) {
        status = clattn_backward_plan_create(context, &gradients, &backward_plan);
    }
    head.plan = plan;
    head.backward_plan = backward_plan;
    const int result = status == CLATTN_OK ? check_heads(communicator, options, &head, check, failure)
                                           : failure_of_library(failure, EXIT_FAILED, clattn_last_error());
    clattn_plan_destroy(plan);
    clattn_plan_destroy(backward_plan);
    return result;
}
