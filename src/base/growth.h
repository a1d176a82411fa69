/* The one rule by which public structs grow. Each begins with struct_size, what sizeof said where its user was
 * compiled. New fields stand at the end, and their zero is the old behaviour. So a shorter struct (an older user) is
 * taken as it is, and what it lacks has its default; a longer one (a newer user) is taken where the rest is zero, and
 * refused where it asks for something that this library does not know. A struct ends with its last field: else a new
 * field would stand where older users have padding, and padding has no value. */
#ifndef CLATTN_SRC_GROWTH_H
#define CLATTN_SRC_GROWTH_H

#include <stddef.h>

#include "clattn.h"

struct growth {
    const char *name;     /* in messages: "problem" */
    const char *macro;    /* what sets struct_size: "CLATTN_PROBLEM_INIT" */
    size_t known_bytes;   /* of this library's struct */
    size_t least_bytes;   /* every version has had so much; a smaller size is no struct of this kind */
    const void *defaults; /* a whole struct */
};

#define GROWTH_BYTES_MAX 2048 /* of a public struct */

/* The bytes up to and with a field. */
#define GROWTH_UP_TO(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))

/* How a public struct grows, GROWTH_OF(type): what messages call it, the last field that every version has had, the
 * last field of all, behind which there is no padding, and the macro of its defaults. */
#define GROWTH(type, name, least, last, defaults)                                                                      \
    static const type type##_defaults = defaults;                                                                      \
    GROWTH_OF_BYTES(type, name, #defaults, least, GROWTH_UP_TO(type, last))

/* Declares one of another file. */
#define GROWTH_ELSEWHERE(type) extern const struct growth growth_##type

/* GROWTH where type##_defaults is there, by the bytes that its fields take. */
#define GROWTH_OF_BYTES(type, name, macro, least, bytes)                                                               \
    const struct growth growth_##type = { name, macro, sizeof(type), GROWTH_UP_TO(type, least), &type##_defaults };    \
    _Static_assert(sizeof(type) <= GROWTH_BYTES_MAX, "copies of public structs have room");                            \
    _Static_assert((bytes) == sizeof(type), #type " must end with its last field")
#define GROWTH_OF(type) (&growth_##type)

/* `given` of any size into `copy` of known_bytes, whose struct_size becomes known_bytes. */
clattn_status growth_copy(const struct growth *growth, const void *given, void *copy);

/* For who only reads: *known becomes `given` itself where that has all fields, otherwise `copy`, which is filled then.
 * Its struct_size is not for use. */
clattn_status growth_read(const struct growth *growth, const void *given, void *copy, const void **known);

/* The other way: what the library fills in, a struct of known_bytes, into one of any size that `given` is and whose
 * struct_size stays. What is given must be as the macro leaves it where this library knows no field. */
clattn_status growth_give(const struct growth *growth, const void *filled, void *given);

/* The body of an exported init function, whose arguments are `to` and `size`. */
#define GROWTH_INIT(type, defaults)                                                                                    \
    static const type values = defaults;                                                                               \
    growth_init(&values, sizeof(values), to, size)

/* The defaults, a whole struct of known_bytes, into a struct of `bytes` bytes: not more than it has room for. Nothing
 * where `to` is NULL. */
void growth_init(const void *defaults, size_t known_bytes, void *to, size_t bytes);

#endif
