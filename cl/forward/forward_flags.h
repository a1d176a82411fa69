/* Flags of a problem of attention, CLATTN_FLAG_*: what it asks for, a bit each, made of the lists of forward_tensors.h.
 * Kernels see them by HAS(). C and OpenCL C both include this. */
#ifndef CLATTN_FORWARD_FLAGS_H
#define CLATTN_FORWARD_FLAGS_H

#include "forward/forward_places.h"

/* All that a problem may ask for, by the rows' last column: ALWAYS, FEATURE, FIELD and SILENT_FIELD are what the place
 * that it stands in makes of them. */
#define CLATTN_ASKED_BY(id, field, axes, element, access, place, asked_by) asked_by
#define CLATTN_ALL_ASKED                                                                                              \
    CLATTN_FIELDS_OF_ALL(FIELD) CLATTN_FIELDS_OF_SOME(FIELD) CLATTN_FORWARD_TENSORS(CLATTN_ASKED_BY)

#define ALWAYS
#define SILENT_FIELD(condition)
#define FIELD(name, effect, condition) FEATURE(name, effect)

enum clattn_flag_bit {
#define FEATURE(name, effect) CLATTN_BIT_##name,
    CLATTN_ALL_ASKED
#undef FEATURE
    CLATTN_FLAG_BITS
};

enum clattn_flag {
#define FEATURE(name, effect) CLATTN_FLAG_##name = 1 << CLATTN_BIT_##name,
    CLATTN_ALL_ASKED
#undef FEATURE

    /* Flags that every strategy knows. */
#define FEATURE(name, effect) | CLATTN_FLAG_##name
    CLATTN_FLAGS_OF_ALL = 0 CLATTN_FIELDS_OF_ALL(FIELD) CLATTN_TENSORS_OF_ALL(CLATTN_ASKED_BY),
    /* Flags of tensors that a program does not take: no problem that comes to it has them. */
    CLATTN_FLAGS_LEFT = 0 CLATTN_LEFT_TENSORS(CLATTN_ASKED_BY),
#undef FEATURE

    /* By effect on a pair of row and key, the words of forward_tensors.h. */
#define NOTHING 0
#define BOUNDS 1
#define HIDES 2
#define ADDS 4
#define CHANGES 8
#define OF_EFFECT(flag, effect, wanted) | (((effect) & (wanted)) != 0 ? flag : 0)
#define FEATURE(name, effect) OF_EFFECT(CLATTN_FLAG_##name, effect, BOUNDS | HIDES)
    CLATTN_FLAGS_HIDING = 0 CLATTN_ALL_ASKED,
#undef FEATURE
#define FEATURE(name, effect) OF_EFFECT(CLATTN_FLAG_##name, effect, HIDES)
    CLATTN_FLAGS_HIDING_PAIRS = 0 CLATTN_ALL_ASKED,
#undef FEATURE
#define FEATURE(name, effect) OF_EFFECT(CLATTN_FLAG_##name, effect, ADDS)
    CLATTN_FLAGS_ADDING = 0 CLATTN_ALL_ASKED,
#undef FEATURE
#define FEATURE(name, effect) OF_EFFECT(CLATTN_FLAG_##name, effect, CHANGES)
    CLATTN_FLAGS_CHANGING = 0 CLATTN_ALL_ASKED,
#undef FEATURE
#undef OF_EFFECT
#undef NOTHING
#undef BOUNDS
#undef HIDES
#undef ADDS
#undef CHANGES

    /* What makes a logit of a scaled score. */
    CLATTN_FLAGS_FINISHING = CLATTN_FLAGS_ADDING | CLATTN_FLAGS_CHANGING
};

#undef ALWAYS
#undef SILENT_FIELD
#undef FIELD

#endif
