/* Why nodes of attention are left to another provider, and how often; what was computed. */
#ifndef CLATTN_ORT_DECLINED_H
#define CLATTN_ORT_DECLINED_H

#include <stddef.h>

/* The text says which rule the node breaks. */
#define DECLINED_REASONS(R)                                                                                            \
    R(TYPE, "queries are not float32, float16, bfloat16 or float64, or keys are of another type than they are")        \
    R(FLOAT64, "float64, in which the device, or clattn's part of the operation, does not compute")                    \
    R(VALUE_TYPE, "values are of no type that goes with the queries'")                                                 \
    R(MASK_TYPE, "the mask is neither boolean nor floating, or is float64 beside narrower queries")                    \
    R(RANK, "queries, keys and values do not all have 3 axes, or all 4")                                               \
    R(HEADS, "the node has 3 axes, and does not say how many heads")                                                   \
    R(INPUTS, "an input that clattn has nothing for")                                                                  \
    R(OUTPUTS, "an output that clattn has nothing for")                                                                \
    R(ATTRIBUTES, "an attribute has a value that clattn does not know")                                                \
    R(PATTERN, "a softmax between products that is not written as the known exporters write attention")

#define R(name, text) DECLINED_##name,
enum declined { DECLINED_NOT = -1, DECLINED_REASONS(R) DECLINED_COUNT };
#undef R

/* Counts an answer about a node of this operation. With CLATTN_ORT_LOG set in the environment each reason is told on
 * stderr when it first comes. */
void declined_count(enum declined reason, const char *operation);

/* With CLATTN_ORT_LOG set: all counts, on stderr. */
void log_report(void);

/* Count attention that was claimed (of a graph), computed (in a call), a plan that was made. */
void claimed_count(void);
void computed_count(void);
void planned_count(void);

/* What was counted since the library was loaded, as lines "COUNT WHAT": nodes claimed, nodes computed, plans made, then
 * each reason that came, by how often ONNX Runtime was told it. Writes at most `size` bytes, with the 0 behind, and
 * returns how many the whole text has without it. Any thread. */
__attribute__((visibility("default"))) size_t clattn_ort_report(char *text, size_t size);

#endif
