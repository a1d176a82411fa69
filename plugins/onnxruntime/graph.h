/* Ways through a graph, from a node to those beside it. */
#ifndef CLATTN_ORT_GRAPH_H
#define CLATTN_ORT_GRAPH_H

#include "ort.h"

/* More readers than that are too many. */
#define GRAPH_READERS_MAX 16

/* The node whose output this value is. *is_found 0: it is an input or a constant of the graph. */
OrtStatus *graph_producer(const struct value *value, struct node *producer, int *is_found);

/* That node, where one node alone reads the value. */
OrtStatus *graph_own_producer(const struct value *value, struct node *producer, int *is_found);

/* Nodes that read a value, at most `max` of them; *count 0 where there are more. */
OrtStatus *graph_readers(const struct value *value, const OrtNode **readers, size_t max, size_t *count);

/* Nodes that read a value which nobody else gets: *count 0 also where the graph hands it out. */
OrtStatus *graph_consumers(const struct value *value, const OrtNode **consumers, size_t max, size_t *count);

/* The node of this operation that alone reads a value. */
OrtStatus *graph_only_consumer(const struct value *value, const char *operation, struct node *consumer, int *is_found);

/* A constant of one floating element. */
OrtStatus *graph_scalar(const struct value *value, float *number, int *is_found);

/* Whether the node is of ONNX's own operations, and this one. */
int node_is(const struct node *node, const char *operation);

#endif
