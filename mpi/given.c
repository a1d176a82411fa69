#include "given.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "operation/problem_fields.h"
#include "play.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* ---- copies ------------------------------------------------------------------------------------- */

/* A public struct. */
struct kind {
    const char *name, *macro;
    size_t known_bytes, least_bytes; /* of this version; all versions have so much */
    void (*init)(void *to, size_t bytes);
};

/* An init function of the library, as one that takes any struct. */
#define KIND(type, name, macro, least)                                                                                 \
    static void init_##type(void *to, size_t bytes)                                                                    \
    {                                                                                                                  \
        type##_init(to, bytes);                                                                                        \
    }                                                                                                                  \
    static const struct kind kind_##type = { name, macro, sizeof(type), offsetof(type, least), init_##type };

KIND(clattn_problem, "problem", "CLATTN_PROBLEM_INIT", head_dim_v)
KIND(clattn_backward_problem, "problem", "CLATTN_BACKWARD_PROBLEM_INIT", accumulate)
KIND(clattn_call, "call", "CLATTN_CALL_INIT", has_scale)
KIND(clattn_host_tensors, "tensors", "CLATTN_HOST_TENSORS_INIT", lse)
KIND(clattn_host_gradients, "gradients", "CLATTN_HOST_GRADIENTS_INIT", dbias)

static clattn_status refuse(const struct kind *kind, clattn_status status, size_t bytes, const char *rule,
                            struct failure *failure)
{
    char text[FAILURE_BYTES];
    snprintf(text, sizeof(text), "%s.struct_size %zu: %s; this library has %zu, set by %s", kind->name, bytes, rule,
             kind->known_bytes, kind->macro);
    return play_fails(failure, status, text);
}

static clattn_status copy(const struct kind *kind, const void *from, void *to, struct failure *failure)
{
    size_t bytes;
    memcpy(&bytes, from, sizeof(bytes));
    if (bytes < kind->least_bytes || bytes > 65536 || bytes % sizeof(bytes) != 0) {
        return refuse(kind, CLATTN_INVALID_ARGUMENT, bytes, "must be sizeof of the struct", failure);
    }
    for (size_t n = kind->known_bytes; n < bytes; ++n) {
        if (((const char *)from)[n] != 0) {
            return refuse(kind, CLATTN_UNSUPPORTED, bytes,
                          "sets a field that this library does not know; use a newer libclattn_mpi", failure);
        }
    }
    kind->init(to, kind->known_bytes);
    const size_t taken = bytes < kind->known_bytes ? bytes : kind->known_bytes;
    memcpy((char *)to + sizeof(bytes), (const char *)from + sizeof(bytes), taken - sizeof(bytes));
    return CLATTN_OK;
}

clattn_status given_read(const struct rank_call *c, struct given *given, struct failure *failure)
{
    clattn_status status = CLATTN_OK;
    clattn_backward_problem_init(&given->backward, sizeof(given->backward));
    clattn_call_init(&given->call, sizeof(given->call));
    clattn_host_gradients_init(&given->gradients, sizeof(given->gradients));
    if (c->backward) {
        status = copy(&kind_clattn_backward_problem, c->backward, &given->backward, failure);
    }
    const clattn_problem *whole = c->backward ? given->backward.forward : c->whole;
    const struct {
        const struct kind *kind;
        const void *from; /* NULL: its defaults */
        void *to;
    } others[] = { { &kind_clattn_problem, whole, &given->whole },
                   { &kind_clattn_call, c->call, &given->call },
                   { &kind_clattn_host_tensors, c->tensors, &given->tensors },
                   { &kind_clattn_host_gradients, c->gradients, &given->gradients } };
    for (int n = 0; n < COUNT(others) && status == CLATTN_OK; ++n) {
        status = others[n].from ? copy(others[n].kind, others[n].from, others[n].to, failure) : CLATTN_OK;
    }
    return status;
}

/* ---- what ranks say alike ----------------------------------------------------------------------- */

/* A field, whose bytes are a number: it itself, or a hash of them (FNV-1a). */
static int64_t number_of(const void *data, size_t bytes)
{
    uint64_t hash = 14695981039346656037u;
    int32_t word;
    if (bytes == sizeof(word)) {
        memcpy(&word, data, sizeof(word));
        return word;
    }
    for (size_t n = 0; n < bytes; ++n) {
        hash = (hash ^ ((const unsigned char *)data)[n]) * 1099511628211u;
    }
    return (int64_t)(hash >> 2);
}

struct field {
    const char *name;
    size_t at, bytes;
};
#define FIELD(type, of, field) { of #field, offsetof(type, field), sizeof(((type *)0)->field) },
#define PROBLEM_FIELD(field) FIELD(clattn_problem, "problem.", field)
#define NULL_FIELD(field) /* clattn_ring_create wants it NULL */
#define BACKWARD_FIELD(field) FIELD(clattn_backward_problem, "problem.", field)
#define CALL_FIELD(field) FIELD(clattn_call, "call.", field)
static const struct field problem_fields[] = { PROBLEM_FIELDS(PROBLEM_FIELD, NULL_FIELD) };
static const struct field backward_fields[] = { BACKWARD_FIELD(gradients) BACKWARD_FIELD(accumulate)
                                                    BACKWARD_FIELD(features) BACKWARD_FIELD(gradient_type) };
static const struct field call_fields[] = { CALL_FIELDS(CALL_FIELD, CALL_FIELD) };
_Static_assert(COUNT(problem_fields) + COUNT(backward_fields) + COUNT(call_fields) + 9 <= ALIKE_MOST, "have room");

static struct alike *add_fields(const void *of, const struct field *fields, int count, struct alike *alike)
{
    for (int n = 0; n < count; ++n) {
        *alike++ = (struct alike){ fields[n].name, number_of((const char *)of + fields[n].at, fields[n].bytes) };
    }
    return alike;
}

/* Which axes a gradient that ranks add up is summed over: a bit each. What is of a rank's own rows stays with the rank,
 * and where that has none all its strides are 0. */
static int64_t summed(const clattn_host_tensor *tensor, int is_of_rows)
{
    const int stays = is_of_rows && tensor->stride[2] != 0;
    int64_t bits = 0;
    for (int axis = 0; axis < 4 && !stays; ++axis) {
        bits |= (int64_t)(tensor->stride[axis] == 0) << axis;
    }
    return tensor->data ? bits : -1;
}

int given_alike(const struct rank_call *c, const struct given *given, struct alike alike[ALIKE_MOST])
{
    const int32_t *lengths = integers_of(&given->tensors.key_lengths);
    const int32_t *offsets = integers_of(&given->tensors.query_offsets);
    const size_t bytes = (size_t)given->whole.batch * sizeof(int32_t);
    const char *strategy = given->backward.strategy ? given->backward.strategy : "";
    const struct alike others[] = { { "forward, or backward,", c->backward != NULL },
                                    { "layout", c->layout },
                                    { "algorithm", c->algorithm },
                                    { "problem.strategy", number_of(strategy, strlen(strategy)) },
                                    { "tensors.key_lengths", lengths ? number_of(lengths, bytes) : -1 },
                                    { "tensors.query_offsets", offsets ? number_of(offsets, bytes) : -1 },
                                    { "strides of 0 of dbias", summed(&given->gradients.dbias, 1) },
                                    { "strides of 0 of dslopes", summed(&given->gradients.dslopes, 0) },
                                    { "strides of 0 of dsinks", summed(&given->gradients.dsinks, 0) } };
    struct alike *end = alike;
    for (int n = 0; n < COUNT(others); ++n) {
        *end++ = others[n];
    }
    end = add_fields(&given->whole, problem_fields, COUNT(problem_fields), end);
    end = add_fields(&given->backward, backward_fields, COUNT(backward_fields), end);
    return (int)(add_fields(&given->call, call_fields, COUNT(call_fields), end) - alike);
}
