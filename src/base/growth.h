/* The one rule by which public structs grow. Each begins with struct_size, what sizeof said where its user was
 * compiled. New fields stand at the end, and their zero is the old behaviour. So a shorter struct (an older user) is
 * taken as it is, and what it lacks has its default; a longer one (a newer user) is taken where the rest is zero, and
 * refused where it asks for something that this library does not know. A struct ends with its last field: else a new
 * field would stand where older users have padding, and padding has no value. GROWTH_CHECK asserts it. */
#ifndef CLATTN_SRC_GROWTH_H
#define CLATTN_SRC_GROWTH_H

#include "clattn.h"

struct growth {
    const char *name;     /* in messages: "problem" */
    const char *macro;    /* what sets struct_size: "CLATTN_PROBLEM_INIT" */
    size_t known_bytes;   /* of this library's struct */
    size_t least_bytes;   /* every version has had so much; a smaller size is no struct of this kind */
    const void *defaults; /* a whole struct */
};

/* No padding behind the last field. */
#define GROWTH_CHECK(type, last)                                                                       \
    _Static_assert(GROWTH_UP_TO(type, last) == sizeof(type), #type " must end with its last field")

/* The bytes up to and with a field. */
#define GROWTH_UP_TO(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))

/* `given` of any size into `copy` of known_bytes, whose struct_size becomes known_bytes. */
clattn_status growth_copy(const struct growth *growth, const void *given, void *copy);

/* The defaults into a struct of `bytes` bytes: not more than it has room for. Nothing where `to` is NULL. */
void growth_init(const struct growth *growth, void *to, size_t bytes);

#endif
