/* Names in meta.json, and the files behind them. */
#include "case_meta.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../tools/files.h"
#include "../../tools/npy.h"
#include "../../tools/system.h"
#include "case_layout.h"

#define PATH_BYTES 4096
#define META_MAX_BYTES (1 << 20)

int case_meta_read(const char *folder, cJSON **meta, struct failure *failure)
{
    char path[PATH_BYTES];
    int descriptor;
    uint64_t bytes;
    *meta = NULL;
    snprintf(path, sizeof(path), "%s/meta.json", folder);
    if (file_open(path, &descriptor, &bytes, failure) != 0) {
        return -1;
    }
    FILE *file = fdopen(descriptor, "r");
    char *text = file && bytes < META_MAX_BYTES ? calloc(1, (size_t)bytes + 1) : NULL;
    const int is_whole = text && fread(text, 1, (size_t)bytes, file) == bytes;
    *meta = is_whole ? cJSON_Parse(text) : NULL;
    free(text);
    if (file) {
        fclose(file);
    }
    return *meta ? 0 : failure_misuse(failure, "%s: is not a JSON document", path);
}

const cJSON *meta_field(const cJSON *meta, const char *group, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(group ? cJSON_GetObjectItemCaseSensitive(meta, group) : meta, name);
}

double meta_number(const cJSON *item, double missing)
{
    return cJSON_IsNumber(item) ? item->valuedouble : missing;
}

const char *meta_text(const cJSON *item)
{
    return cJSON_IsString(item) ? item->valuestring : "";
}

int meta_is_true(const cJSON *item)
{
    return cJSON_IsTrue(item) || meta_number(item, 0) > 0;
}

clattn_type meta_type(const cJSON *meta, const char *group, const char *name)
{
    const char *text = meta_text(meta_field(meta, group, name));
    clattn_type type = CLATTN_FLOAT32;
    while (clattn_type_size(type) > 0 && strcmp(clattn_type_name(type), text) != 0) {
        type = (clattn_type)(type + 1);
    }
    return clattn_type_size(type) > 0 ? type : CLATTN_TYPE_NONE;
}

int case_input_read(const struct case_run *run, const char *name, enum tensor_type type, struct tensor *tensor,
                    struct failure *failure)
{
    static const struct tensor empty = TENSOR_INIT;
    const cJSON *entry = meta_field(run->meta, "inputs", name);
    char path[PATH_BYTES];
    *tensor = empty;
    if (!entry) {
        return 0;
    }
    snprintf(path, sizeof(path), "%s/%s", run->from, meta_text(meta_field(entry, NULL, "file")));
    if (npy_read(path, tensor, failure) != 0) {
        return -1;
    }
    return type == TENSOR_TYPES ? 0 : tensor_convert(tensor, type, name, failure);
}

int case_output_write(const struct case_run *run, const char *name, const struct tensor *tensor,
                      struct failure *failure)
{
    char path[PATH_BYTES];
    if (!meta_field(run->meta, "outputs", name)) {
        return 0;
    }
    if (system_make_folder(run->to) != 0 && errno != EEXIST) {
        return failure_misuse(failure, "%s: %s", run->to, strerror(errno));
    }
    snprintf(path, sizeof(path), "%s/%s.npy", run->to, name);
    return npy_write(path, tensor, failure);
}

int case_status(clattn_status status, struct failure *failure)
{
    if (status == CLATTN_OK) {
        return 0;
    }
    return failure_failed(failure, "%s: %s", clattn_status_name(status), clattn_last_error());
}

int case_axes_read(const struct tensor *tensor, const char *layout, int64_t heads, struct case_axes *axes,
                   struct failure *failure)
{
    const struct layout *pool = layout_of_pool(layout), *of = pool ? pool : layout_find(layout);
    int64_t shape[4];
    if (!of || layout_shape(of, tensor, heads, shape) != 0) {
        return failure_misuse(failure, "layout \"%s\": is none that an array of %d axes can have", layout,
                              tensor->dims);
    }
    *axes = (struct case_axes){ .batch = shape[0], .heads = shape[1], .rows = shape[2], .columns = shape[3] };
    axes->is_packed = of->batch < 0;
    layout_strides(of, shape, axes->stride);
    return 0;
}
