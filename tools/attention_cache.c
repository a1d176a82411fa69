#include "attention_cache.h"

#include <string.h>

#include "attention_extras.h"
#include "attention_scales.h"
#include "insides.h"
#include "problem_options.h"

/* ---- types ---- */

/* Whether the file may mean codes of the type by it: bytes say not of which. */
static int may_hold(const struct tensor *tensor, clattn_type codes)
{
    return tensor->type == TENSOR_UINT8 || tensor->type == TENSOR_INT8 || tensor_storage_type(tensor->type) == codes;
}

/* `name`: of the tensor, `option`: what says how it is stored. */
static int take_type(struct tensor *tensor, const char *name, enum option_id option, clattn_type type,
                     struct failure *failure)
{
    const char *asked = option_name(option);
    if (!type_is_float(type) && !may_hold(tensor, type)) {
        return failure_misuse(failure, "%s %s: --%s %s are bytes, uint8 or int8; clattn quantise makes them", name,
                              tensor_type_name(tensor->type), asked, clattn_type_name(type));
    }
    if (!type_is_float(type)) {
        return 0;
    }
    if (!tensor_is_float(tensor->type)) {
        return failure_misuse(failure, "%s %s: --%s %s is made of a float type", name, tensor_type_name(tensor->type),
                              asked, clattn_type_name(type));
    }
    return tensor_convert(tensor, tensor_type_of_storage(type), name, failure);
}

static int read_type(const struct options *options, struct inputs *inputs, enum role role, enum role past,
                     enum option_id option, clattn_type *type, struct failure *failure)
{
    const enum role both[] = { role, past };
    struct tensor *tensor = &inputs->tensor[role];
    if (problem_type_read(options, option, type, failure) != 0) {
        return -1;
    }
    if (*type == CLATTN_TYPE_NONE && tensor->data && !tensor_is_float(tensor->type)) {
        *type = tensor_storage_type(tensor->type);
    }
    if (*type == CLATTN_TYPE_NONE && tensor->data && tensor->type == TENSOR_UINT8) {
        return failure_misuse(failure, "%s uint8: bytes of which type? give --%s", role_name(role),
                              option_name(option));
    }
    for (int i = 0; i < 2 && *type != CLATTN_TYPE_NONE; i++) {
        if (inputs->tensor[both[i]].data &&
            take_type(&inputs->tensor[both[i]], role_name(both[i]), option, *type, failure) != 0) {
            return -1;
        }
    }
    return 0;
}

int attention_stored_types(const struct options *options, struct inputs *inputs, clattn_problem *problem,
                           struct failure *failure)
{
    return read_type(options, inputs, ROLE_KEY, ROLE_PAST_KEY, OPTION_STORED_KEYS, &problem->key_type, failure) != 0
               ? -1
               : read_type(options, inputs, ROLE_VALUE, ROLE_PAST_VALUE, OPTION_STORED_VALUES, &problem->value_type,
                           failure);
}

/* ---- axes ---- */

int attention_pool_layout(const struct options *options, const struct inputs *inputs, enum layout layout,
                          enum layout *keys, struct failure *failure)
{
    static const enum layout layouts[] = { LAYOUT_BSHD, LAYOUT_BHSD }; /* nhd, hnd: the option's words */
    int index = 0;
    *keys = layout;
    if (!inputs->tensor[ROLE_PAGE_TABLE].data) {
        return options->value[OPTION_POOL] ? failure_misuse(failure,
                                                            "--pool %s: there is no page table for it; "
                                                            "--page-table names one",
                                                            options->value[OPTION_POOL])
                                           : 0;
    }
    for (int role = ROLE_KEY; role <= ROLE_VALUE; role++) {
        if (inputs->tensor[role].data && inputs->tensor[role].dims != 4) {
            return failure_misuse(failure, "%s: pages must have four axes, as --pool tells",
                                  role_name((enum role)role));
        }
    }
    if (option_choice(options, OPTION_POOL, &index, failure) != 0) {
        return -1;
    }
    *keys = layouts[index];
    return 0;
}

/* From bytes to columns. */
static int count_columns(struct axes *axes, clattn_type type, const char *name, struct failure *failure)
{
    const int64_t bytes = (int64_t)clattn_type_size(type);
    const int64_t columns = clattn_type_columns(type);
    if (columns <= 1) {
        return 0;
    }
    if (axes->columns % bytes != 0) {
        return failure_misuse(failure, "%s: its %lld bytes of a head: must be a multiple of %lld, a block of %s", name,
                              (long long)axes->columns, (long long)bytes, clattn_type_name(type));
    }
    axes->columns = axes->columns / bytes * columns;
    for (int i = 0; i < 3; i++) {
        axes->stride[i] = axes->stride[i] / bytes * columns;
    }
    return 0;
}

int attention_cache_axes(const struct options *options, const struct inputs *inputs, struct attention *attention,
                         struct failure *failure)
{
    clattn_problem *problem = &attention->problem;
    if (inputs->tensor[ROLE_PAGE_TABLE].data) {
        problem->features |= CLATTN_WITH_PAGES;
        problem->page_size = attention->key.rows;
        problem->pages = attention->key.batch;
        if (problem->page_size < 1) {
            return failure_misuse(failure, "key: pages must have at least one token");
        }
    }
    if (count_columns(&attention->key, problem->key_type, "key", failure) != 0 ||
        count_columns(&attention->value, problem->value_type, "value", failure) != 0) {
        return -1;
    }
    return option_integer(options, OPTION_RING, 1, INT32_MAX, &problem->ring, failure);
}

int attention_values_in_keys(const struct options *options, const struct inputs *inputs, struct attention *attention,
                             struct failure *failure)
{
    static const enum role values[] = { ROLE_VALUE, ROLE_PAST_VALUE, ROLE_VALUE_SCALES, ROLE_VALUE_ZERO_POINTS,
                                        ROLE_VALUE_TENSOR_SCALE };
    int64_t columns = 0;
    if (!options->value[OPTION_VALUES_IN_KEYS]) {
        return 0;
    }
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        if (inputs->tensor[values[i]].data) {
            return failure_misuse(failure, "%s: values are columns of keys, by --value-in-key; leave it out",
                                  role_name(values[i]));
        }
    }
    if (attention->problem.value_type != CLATTN_TYPE_NONE) {
        return failure_misuse(failure, "--value-type %s: values are columns of keys, by --value-in-key; leave it out",
                              clattn_type_name(attention->problem.value_type));
    }
    if (option_integer(options, OPTION_VALUES_IN_KEYS, 1, attention->key.columns, &columns, failure) != 0) {
        return -1;
    }
    attention->value = attention->key;
    attention->value.columns = columns;
    attention->problem.value_in_key = 1;
    return 0;
}

/* ---- lengths, pages ---- */

/* The longest sequence's: neither a pool nor a ring tells it. */
static int read_lengths(struct inputs *inputs, struct attention *attention, struct failure *failure)
{
    clattn_problem *problem = &attention->problem;
    struct tensor *lengths = &inputs->tensor[ROLE_KEY_LENGTHS];
    if (problem->page_size == 0 && problem->ring == 0) {
        return 0;
    }
    if (!lengths->data) {
        return failure_misuse(failure, "key_lengths: is missing; %s has them, of each sequence",
                              problem->page_size ? "a cache in pages" : "a ring");
    }
    if (attention_convert_integers(lengths, "key_lengths", 0, INT32_MAX, failure) != 0) {
        return -1;
    }
    problem->key_len = 0;
    for (int64_t i = 0; i < tensor_count(lengths); i++) {
        const int32_t length = ((const int32_t *)lengths->data)[i];
        problem->key_len = length > problem->key_len ? length : problem->key_len;
    }
    if (problem->page_size == 0 && attention->key.rows < problem_kept_rows(problem)) {
        return failure_misuse(failure, "key: its %lld tokens: must be at least the %lld that --ring keeps",
                              (long long)attention->key.rows, (long long)problem_kept_rows(problem));
    }
    return 0;
}

/* Pages of the table that a call may read of sequence b: as many as its length needs. */
static int64_t pages_needed(const struct inputs *inputs, const clattn_problem *problem, int64_t b)
{
    int64_t rows = ((const int32_t *)inputs->tensor[ROLE_KEY_LENGTHS].data)[b];
    rows = problem->ring > 0 && rows > problem->ring ? problem->ring : rows;
    return (rows + problem->page_size - 1) / problem->page_size;
}

static int check_starts(struct inputs *inputs, const clattn_problem *problem, struct failure *failure)
{
    struct tensor *starts = &inputs->tensor[ROLE_PAGE_STARTS];
    const int64_t entries = tensor_count(&inputs->tensor[ROLE_PAGE_TABLE]);
    if (attention_convert_integers(starts, "page_starts", 0, entries < INT32_MAX ? entries : INT32_MAX, failure) != 0 ||
        attention_must_equal("page_starts count", tensor_count(starts), "the sequences and one more",
                             problem->batch + 1, failure) != 0) {
        return -1;
    }
    for (int64_t b = 0; b < problem->batch; b++) {
        const int64_t start = ((const int32_t *)starts->data)[b], needed = pages_needed(inputs, problem, b);
        if (start + needed > entries) {
            return failure_misuse(failure, "page_starts[%lld] %lld: its %lld pages: must end in the table's %lld",
                                  (long long)b, (long long)start, (long long)needed, (long long)entries);
        }
    }
    return 0;
}

static int prepare_pages(struct inputs *inputs, struct attention *attention, struct failure *failure)
{
    clattn_problem *problem = &attention->problem;
    struct tensor *table = &inputs->tensor[ROLE_PAGE_TABLE], *starts = &inputs->tensor[ROLE_PAGE_STARTS];
    const int64_t rows = problem_kept_rows(problem), *shape = table->shape;
    if (!table->data) {
        return starts->data ? failure_misuse(failure, "page_starts: there is no page table for it") : 0;
    }
    if (attention_must_equal("key_lengths count", tensor_count(&inputs->tensor[ROLE_KEY_LENGTHS]), "the batch",
                             problem->batch, failure) != 0 ||
        attention_convert_integers(table, "page_table", INT32_MIN, INT32_MAX, failure) != 0) {
        return -1;
    }
    attention->host.page_table.data = table->data;
    attention->host.page_table.stride[3] = 1;
    if (starts->data) {
        problem->features |= CLATTN_WITH_PAGE_STARTS;
        attention->host.page_starts.data = starts->data;
        return check_starts(inputs, problem, failure);
    }
    const int of_heads = table->dims == 3 && shape[1] == problem->kv_heads;
    if ((table->dims != 2 && !of_heads) || shape[0] != problem->batch ||
        shape[table->dims - 1] < (rows + problem->page_size - 1) / problem->page_size) {
        char text[TENSOR_SHAPE_TEXT];
        return failure_misuse(failure,
                              "page_table: shape %s: must be [%lld sequences, pages for %lld tokens], or with an axis "
                              "of %lld key heads between them",
                              tensor_shape_text(table, text), (long long)problem->batch, (long long)rows,
                              (long long)problem->kv_heads);
    }
    attention->host.page_table.stride[0] = of_heads ? shape[1] * shape[2] : shape[1];
    attention->host.page_table.stride[1] = of_heads ? shape[2] : 0;
    return 0;
}

/* ---- row ranges ---- */

static int prepare_row_range(struct attention *attention, struct tensor *tensor, const char *name,
                             clattn_host_tensor *host, struct failure *failure)
{
    struct tensor column = *tensor; /* one axis more, for the keys */
    int64_t keys;
    if (tensor->dims == TENSOR_DIMS_MAX) {
        return failure_misuse(failure, "%s: has too many axes", name);
    }
    column.shape[column.dims++] = 1;
    if (layout_broadcast(&column, &attention->query, 1, name, host->stride, &keys, failure) != 0) {
        char text[TENSOR_SHAPE_TEXT];
        return failure_misuse(failure,
                              "%s: shape %s: must broadcast to [batch as the query's, %lld heads, %lld queries]", name,
                              tensor_shape_text(tensor, text), (long long)attention->query.heads,
                              (long long)attention->query.rows);
    }
    if (attention_convert_integers(tensor, name, INT32_MIN, INT32_MAX, failure) != 0) {
        return -1;
    }
    host->data = tensor->data;
    attention->problem.features |= CLATTN_WITH_ROW_RANGES;
    return 0;
}

static int prepare_row_ranges(struct inputs *inputs, struct attention *attention, struct failure *failure)
{
    struct tensor *low = &inputs->tensor[ROLE_ROW_LOW], *high = &inputs->tensor[ROLE_ROW_HIGH];
    if (!low->data && !high->data) {
        return 0;
    }
    if (!low->data || !high->data) {
        return failure_misuse(failure, "%s: is missing; row_low and row_high come together",
                              role_name(low->data ? ROLE_ROW_HIGH : ROLE_ROW_LOW));
    }
    return prepare_row_range(attention, low, "row_low", &attention->host.row_low, failure) != 0
               ? -1
               : prepare_row_range(attention, high, "row_high", &attention->host.row_high, failure);
}

/* ---- all of it ---- */

int attention_prepare_cache(const struct options *options, struct inputs *inputs, struct attention *attention,
                            struct failure *failure)
{
    if (read_lengths(inputs, attention, failure) != 0 || prepare_pages(inputs, attention, failure) != 0 ||
        attention_prepare_scales(options, inputs, attention, failure) != 0) {
        return -1;
    }
    return prepare_row_ranges(inputs, attention, failure) != 0
               ? -1
               : attention_prepare_lists(options, inputs, attention, failure);
}

int attention_has_cache(const struct attention *attention)
{
    const clattn_problem *p = &attention->problem;
    return p->page_size > 0 || p->ring > 0 || p->key_type != CLATTN_TYPE_NONE || p->value_type != CLATTN_TYPE_NONE ||
           (p->features & (CLATTN_WITH_ROW_RANGES | CLATTN_WITH_KEY_LISTS)) != 0;
}
