#include "summary.h"

#include <stdio.h>
#include <stdlib.h>

#include "attention_cache.h"
#include "document.h"
#include "insides.h"
#include "labels.h"
#include "library.h"
#include "number.h"
#include "page_pools.h"
#include "standard_files.h"

int summary_check_options(const struct options *options, struct failure *failure)
{
    const enum option_id outputs[] = { OPTION_OUTPUT,    OPTION_WEIGHTS,        OPTION_LSE,   OPTION_KEY_SUMS,
                                       OPTION_MAX_LOGIT, OPTION_GRADIENTS_FILE, OPTION_CODES, OPTION_SCALES_FILE };
    if (!options->value[OPTION_JSON]) {
        return 0;
    }
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
        if (options->value[outputs[i]] && is_standard_file(options->value[outputs[i]])) {
            return failure_misuse(failure, "--%s -: writes where --json prints its document; name a file",
                                  option_name(outputs[i]));
        }
    }
    if (options->value[OPTION_SHOW]) {
        return failure_misuse(failure, "--show: draws where --json prints its document; take one away, or draw into a "
                                       "file by --plot");
    }
    return 0;
}

cJSON *summary_begin(const struct options *options, const char *command, const clattn_context *context)
{
    return options->value[OPTION_JSON] ? document_begin(command, context) : NULL;
}

int summary_end(cJSON *document, int result, struct failure *failure)
{
    struct failure of_printing;
    if (!document || document_print(document, &of_printing) == 0) {
        return result;
    }
    if (result == 0) {
        *failure = of_printing;
    }
    return -1;
}

/* ---- one thing -------------------------------------------------------------------------------- */

void summary_name(cJSON *document, const char *label, const char *text)
{
    if (document) {
        cJSON_AddStringToObject(document, label, text);
    } else {
        char *clean = utf8_clean(text);
        printf("%-10s%s\n", label, clean ? clean : "");
        free(clean);
    }
}

/* The member of that name, made by `make` where it is not there. */
static cJSON *member(cJSON *document, const char *key, cJSON *(*make)(void))
{
    cJSON *found = cJSON_GetObjectItemCaseSensitive(document, key);
    if (!found && (found = make())) {
        cJSON_AddItemToObject(document, key, found);
    }
    return found;
}

void summary_item(cJSON *document, const char *label, const char *key, const char *text)
{
    if (document) {
        cJSON_AddItemToArray(member(document, key, cJSON_CreateArray), cJSON_CreateString(text));
    } else {
        summary_name(NULL, label, text);
    }
}

static void add_shape(cJSON *object, const char *key, const struct tensor *tensor)
{
    cJSON *shape = cJSON_AddArrayToObject(object, key);
    for (int i = 0; i < tensor->dims; i++) {
        cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)tensor->shape[i]));
    }
}

static void add_tensor(cJSON *document, const char *label, const struct tensor *tensor)
{
    cJSON *one = cJSON_AddObjectToObject(member(document, "tensors", cJSON_CreateObject), label);
    add_shape(one, "shape", tensor);
    cJSON_AddStringToObject(one, "type", tensor_type_name(tensor->type));
}

void summary_tensor(cJSON *document, const char *label, const struct tensor *tensor)
{
    char shape[TENSOR_SHAPE_TEXT];
    if (!tensor->data) {
        return;
    }
    if (document) {
        add_tensor(document, label, tensor);
    } else {
        printf("%-10s%s %s\n", label, tensor_shape_text(tensor, shape), tensor_type_name(tensor->type));
    }
}

/* ---- inputs ----------------------------------------------------------------------------------- */

static void tell_text(cJSON *document, const char *text)
{
    char *clean = text && !document ? utf8_clean(text) : NULL;
    if (text && document) {
        cJSON_AddStringToObject(document, "text", text);
    }
    if (clean) {
        const size_t bytes = utf8_fit(clean, 64);
        printf("%-10s\"%.*s\"%s\n", "text", (int)bytes, clean, clean[bytes] ? " ..." : "");
    }
    free(clean);
}

static void tell_operand(cJSON *document, const char *label, const struct tensor *tensor, const struct axes *axes)
{
    char shape[TENSOR_SHAPE_TEXT];
    if (document) {
        add_tensor(document, label, tensor);
        return;
    }
    printf("%-10s%s %s: ", label, tensor_shape_text(tensor, shape), tensor_type_name(tensor->type));
    if (axes->lead_dims) {
        printf("batch %lld, ", (long long)axes->batch);
    }
    printf("%lld heads, %lld tokens, head dim %lld\n", (long long)axes->heads, (long long)axes->rows,
           (long long)axes->columns);
}

/* "mask      covers the first N keys, ..." of a mask that ends before the keys do. */
static void tell_cover(cJSON *document, const char *label, const char *key, int64_t keys)
{
    if (keys < 0) {
        return;
    }
    if (document) {
        cJSON_AddNumberToObject(document, key, (double)keys);
    } else {
        printf("%-10scovers the first %lld keys, the others are not visible\n", label, (long long)keys);
    }
}

static void tell_masks(cJSON *document, const struct attention *attention)
{
    if (attention->sequences && document) {
        cJSON_AddNumberToObject(document, "sequences", (double)attention->sequences);
    } else if (attention->sequences) {
        printf("sequences %lld, packed\n", (long long)attention->sequences);
    }
    if (attention->values.mask_first_key && document) {
        cJSON_AddNumberToObject(document, "mask_first_key", (double)attention->values.mask_first_key);
    } else if (attention->values.mask_first_key) {
        printf("mask      of the keys from %lld on\n", (long long)attention->values.mask_first_key);
    }
    tell_cover(document, "mask", "mask_keys", attention->values.mask_key_len);
    tell_cover(document, "bias", "bias_keys", attention->values.bias_key_len);
}

/* How keys and values are kept, where it is not as the queries are. */
static void tell_cache(cJSON *document, const struct attention *attention)
{
    const clattn_problem *p = &attention->problem;
    const char *key_type = clattn_type_name(p->key_type ? p->key_type : p->type);
    const char *value_type = p->value_in_key ? key_type : clattn_type_name(p->value_type ? p->value_type : p->type);
    char pools[PAGE_POOLS_TEXT];
    if (document && attention_has_cache(attention)) {
        cJSON *cache = cJSON_AddObjectToObject(document, "cache");
        cJSON_AddStringToObject(cache, "key_type", key_type);
        cJSON_AddStringToObject(cache, "value_type", value_type);
        cJSON_AddNumberToObject(cache, "keys", (double)p->key_len);
        cJSON_AddNumberToObject(cache, "page_size", (double)p->page_size);
        cJSON_AddNumberToObject(cache, "pages", (double)p->pages);
        page_pools_tell(cache, p);
        cJSON_AddNumberToObject(cache, "ring", (double)p->ring);
        return;
    }
    if (p->key_type || p->value_type) {
        printf("cache     keys %s, values %s\n", key_type, value_type);
    }
    if (p->page_size) {
        printf("pages     of %lld keys, %lld of them; the longest sequence has %lld keys\n", (long long)p->page_size,
               (long long)p->pages, (long long)p->key_len);
    }
    if (pools_of(p) > 1) {
        printf("pool      %s: the device gives out no larger ones\n", page_pools_text(p, pools));
    }
    if (p->ring) {
        printf("ring      of %lld keys, %lld stay; the longest sequence had %lld\n", (long long)p->ring,
               (long long)p->always_visible_keys, (long long)p->key_len);
    }
}

void summary_inputs(cJSON *document, const struct options *options, const struct inputs *inputs,
                    const struct attention *attention)
{
    if (options->operand) {
        summary_name(document, "input", options->operand);
    }
    tell_text(document, inputs->text);
    if (inputs->is_layer) {
        summary_name(document, "layer", "query, key and value are projections of x, made on the CPU");
    }
    tell_operand(document, "query", &inputs->tensor[ROLE_QUERY], &attention->query);
    tell_operand(document, "key", &inputs->tensor[ROLE_KEY], &attention->key);
    if (inputs->tensor[ROLE_VALUE].data) {
        tell_operand(document, "value", &inputs->tensor[ROLE_VALUE], &attention->value);
    } else {
        char text[64];
        snprintf(text, sizeof text, "the first %lld columns of key", (long long)attention->value.columns);
        summary_name(document, "value", text);
    }
    tell_masks(document, attention);
    tell_cache(document, attention);
}

/* ---- the call --------------------------------------------------------------------------------- */

void summary_duration(double seconds, const char *what)
{
    char text[NUMBER_TEXT];
    const int is_short = seconds < 0.9995;
    printf("%s %s %s", number_text(is_short ? seconds * 1e3 : seconds, 3, text), is_short ? "ms" : "s", what);
}

void summary_milliseconds(cJSON *document, const char *key, double seconds)
{
    if (seconds > 0) {
        cJSON_AddNumberToObject(document, key, seconds * 1e3);
    } else {
        cJSON_AddNullToObject(document, key);
    }
}

void summary_call(cJSON *document, const clattn_context *context, const clattn_plan *plan, double prepare_seconds,
                  double first_seconds, double again_seconds)
{
    char device[256];
    if (document) {
        cJSON_AddStringToObject(document, "strategy", clattn_plan_strategy(plan));
        cJSON_AddNumberToObject(document, "workspace_bytes", (double)clattn_plan_workspace(plan));
        summary_milliseconds(document, "prepare_ms", prepare_seconds);
        summary_milliseconds(document, "first_ms", first_seconds);
        summary_milliseconds(document, "again_ms", again_seconds);
        return;
    }
    library_device_name(context, device, sizeof device);
    printf("device    %s\n", device);
    printf("strategy  %s, workspace %zu bytes\n", clattn_plan_strategy(plan), clattn_plan_workspace(plan));
    printf("time      ");
    summary_duration(prepare_seconds, "to prepare, ");
    summary_duration(first_seconds, "the first call");
    if (again_seconds > 0) {
        printf(", ");
        summary_duration(again_seconds, "the second");
    }
    putchar('\n');
}

/* ---- what was stored -------------------------------------------------------------------------- */

static void print_difference(const struct summary_difference *d)
{
    char got[TENSOR_SHAPE_TEXT], stored[TENSOR_SHAPE_TEXT];
    if (d->same_shape) {
        printf("%-10s%s the %s one: largest difference %.2g, limit %.2g\n", d->name,
               d->is_alike ? "agrees with" : "DIFFERS from", d->whose, d->largest, d->limit);
    } else {
        printf("%-10sis %s, the %s one %s: they cannot be compared\n", d->name, tensor_shape_text(d->got, got),
               d->whose, tensor_shape_text(d->stored, stored));
    }
}

void summary_difference(cJSON *document, const struct summary_difference *d)
{
    if (!document) {
        print_difference(d);
        return;
    }
    cJSON *one = cJSON_CreateObject();
    cJSON_AddStringToObject(one, "name", d->name);
    cJSON_AddBoolToObject(one, "agrees", d->is_alike);
    if (d->same_shape) {
        cJSON_AddNumberToObject(one, "largest_difference", d->largest);
        cJSON_AddNumberToObject(one, "limit", d->limit);
    } else {
        add_shape(one, "shape", d->got);
        add_shape(one, "stored_shape", d->stored);
    }
    cJSON_AddItemToArray(member(document, d->whose, cJSON_CreateArray), one);
}
