/* What run, grad and mha tell of a call: lines of text, or members of a JSON document (document.h). `document` is NULL
 * where --json is not given. */
#ifndef CLATTN_TOOLS_SUMMARY_H
#define CLATTN_TOOLS_SUMMARY_H

#include <cjson/cJSON.h>

#include "attention.h"

/* --json goes with nothing else that prints on standard output. */
int summary_check_options(const struct options *options, struct failure *failure);

/* NULL where --json is not given. */
cJSON *summary_begin(const struct options *options, const char *command, const clattn_context *context);

/* Prints the document, where there is one, and deletes it; `result` is what the command came to, which is returned
 * where it is not 0. */
int summary_end(cJSON *document, int result, struct failure *failure);

/* "label     text", of a name that may hold anything; a string. */
void summary_name(cJSON *document, const char *label, const char *text);

/* For a label that may come more than once: an array of strings. `key`: the label in the document. */
void summary_item(cJSON *document, const char *label, const char *key, const char *text);

/* "label     shape type"; in the document's "tensors". Nothing where there is no tensor. */
void summary_tensor(cJSON *document, const char *label, const struct tensor *tensor);

/* The file's name and text, the shapes of queries, keys and values, and what masks cover. */
void summary_inputs(cJSON *document, const struct options *options, const struct inputs *inputs,
                    const struct attention *attention);

/* "1.2 ms what", "1.2 s what" from a second on: text alone. */
void summary_duration(double seconds, const char *what);

/* Seconds as milliseconds, by a name that ends in _ms; null where they are 0, which is: not measured. */
void summary_milliseconds(cJSON *document, const char *key, double seconds);

/* The device, the plan's strategy, how long preparing and the calls took; again_seconds 0: no second call. */
void summary_call(cJSON *document, const clattn_context *context, const clattn_plan *plan, double prepare_seconds,
                  double first_seconds, double again_seconds);

/* An output beside another, the stored one: of the same shape, or not, which is never alike. */
struct summary_difference {
    const char *name;
    const char *whose; /* the other is: "stored", "reference"; also its list in the document */
    const struct tensor *got, *stored;
    int is_alike, same_shape;
    double largest, limit;
};
void summary_difference(cJSON *document, const struct summary_difference *difference);

#endif
