/* usage: layouts
 *
 * The structs that host and kernels share have one layout in C and in OpenCL C: a kernel, whose text is made of the
 * rows below, says where the device's compiler puts each field and how large it is. A field without a row leaves a gap,
 * and fails too. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cl/backward/backward_params.h"
#include "cl/backward_gpu/backward_owner_layout.h"
#include "cl/backward_simd/backward_simd_layout.h"
#include "cl/cache/append_params.h"
#include "cl/forward/forward_params.h"
#include "cl/key_sums/key_sums_params.h"
#include "cl/layers/additive_params.h"
#include "cl/layers/layer_matrix_params.h"
#include "cl/layers/merge_params.h"
#include "cl/layers/project_params.h"
#include "cl/staged/staged_params.h"
#include "clattn.h"
#include "program/embedded_cl.h"
#include "program/launch.h"

struct row {
    const char *type, *field; /* field NULL: the struct itself */
    size_t offset, bytes;
};

#define STRUCT(type) { #type, NULL, 0, sizeof(type) },
#define FIELD(type, field) { #type, #field, offsetof(type, field), sizeof(((type *)NULL)->field) },

#define PARAM(field) FIELD(clattn_params, field)

#define CHUNK(field) FIELD(staged_chunk, field)
#define PROJECT(field) FIELD(clattn_project, field)
#define MATRIX(field) FIELD(clattn_layer_matrix, field)
#define ADDITIVE(field) FIELD(clattn_additive_values, field)
#define OF_DS(field) FIELD(clattn_additive_ds, field)
#define PAIRS(field) FIELD(clattn_additive_sums, field)
#define MERGE(field) FIELD(clattn_merge_params, field)
#define INPUT_PLACE(field) FIELD(clattn_input_place, field)
#define GRADIENT_PLACE(field) FIELD(clattn_place, field)
#define PLACES(field) FIELD(clattn_backward_places, field)
#define KEY_SUMS(field) FIELD(clattn_key_sums_places, field)
#define RECTANGLES(field) FIELD(clattn_rectangles, field)
#define RESTS(field) FIELD(clattn_rests, field)
#define SUMS(field) FIELD(clattn_sums, field)
#define BIAS_SUMS(field) FIELD(clattn_bias_sums, field)
#define OWNER_PART(field) FIELD(clattn_owner_part, field)

/* clang-format off */
#define TURN_FIELDS(type)                                                                                              \
    FIELD(type, cosine_stride) FIELD(type, cosine_offset) FIELD(type, sine_stride) FIELD(type, sine_offset)            \
    FIELD(type, positions_stride) FIELD(type, positions_offset) FIELD(type, starts_offset)                             \
    FIELD(type, cu_query_offset) FIELD(type, table_rows) FIELD(type, norm_epsilon_real)            \
    FIELD(type, batch) FIELD(type, query_len)
/* clang-format on */
#define POOLS(field) FIELD(clattn_pools, field)
#define ROTARY(field) FIELD(clattn_rotary_params, field)
#define APPEND(field) FIELD(clattn_append_params, field)
#define APPEND_STRIDED(name) APPEND(name##_stride) APPEND(name##_offset)
#define APPEND_COLUMNS(name) APPEND_STRIDED(name)
#define APPEND_DENSE(name) APPEND(name##_offset)
#define APPEND_OF_ROW(id, name, axes, element, access, place, asked_by) APPEND_##place(name)

/* In the order of the fields; a struct before its own. */
/* clang-format off */
static const struct row rows[] = {
    STRUCT(clattn_params) PARAM(scale_real) PARAM(softcap_real) PARAM(keep_scale_real)
    PARAM(batch) PARAM(query_heads) PARAM(kv_heads) PARAM(query_len) PARAM(key_len) PARAM(head_dim)
    PARAM(head_dim_v) PARAM(mask_first_key) PARAM(mask_key_len) PARAM(bias_key_len)
    PARAM(unused_length) PARAM(window_left)
    PARAM(window_right) PARAM(always_visible_keys) PARAM(page_size) PARAM(pages) PARAM(ring) PARAM(flags)
    PARAM(alignment) PARAM(bias_type) PARAM(weights) PARAM(unused)
    PARAM(dropout_threshold) PARAM(dropout_seed) PARAM(dropout_offset) PARAM(first_plane)
    PARAM(first_row) PARAM(first_key) PARAM(whole_heads) PARAM(place)

    STRUCT(clattn_pools) POOLS(key_shift) POOLS(value_shift) POOLS(pages) POOLS(key_shift_high) POOLS(value_shift_high)
    POOLS(unused)

    STRUCT(staged_chunk) CHUNK(plane_stride) CHUNK(row_stride) CHUNK(first_plane) CHUNK(planes) CHUNK(first_row)
    CHUNK(rows) CHUNK(has_logits) CHUNK(padding)

    STRUCT(clattn_project) PROJECT(left_offset) PROJECT(right_offset) PROJECT(bias_offset) PROJECT(result_offset)
    PROJECT(left_row) PROJECT(right_row) PROJECT(result_row) PROJECT(left_batch) PROJECT(right_batch)
    PROJECT(result_batch) PROJECT(rows) PROJECT(columns) PROJECT(depth) PROJECT(has_bias) PROJECT(group_rows)
    PROJECT(group_columns)

    STRUCT(clattn_layer_matrix) MATRIX(from_offset) MATRIX(to_offset) MATRIX(kept_offset) MATRIX(from_row)
    MATRIX(to_row) MATRIX(count) MATRIX(rows) MATRIX(columns) MATRIX(has_kept) MATRIX(accumulate) MATRIX(is_zero)
    MATRIX(padding)

    STRUCT(clattn_additive_values) ADDITIVE(zero_at) ADDITIVE(queries_at) ADDITIVE(keys_at) ADDITIVE(score_at)
    ADDITIVE(scores_at) ADDITIVE(key_stride) ADDITIVE(hidden_dim) ADDITIVE(hidden_stride)

    STRUCT(clattn_additive_ds) OF_DS(dout_at) OF_DS(out_at) OF_DS(lse_at) OF_DS(terms_at) OF_DS(scores_at) OF_DS(ds_at)
    OF_DS(score_stride) OF_DS(value_dim) OF_DS(all_rows)

    STRUCT(clattn_additive_sums) PAIRS(own_at) PAIRS(other_at) PAIRS(score_at) PAIRS(ds_at) PAIRS(sums_at)
    PAIRS(partials_at) PAIRS(ds_batch) PAIRS(ds_own) PAIRS(ds_other) PAIRS(own_len) PAIRS(other_len) PAIRS(hidden_dim)
    PAIRS(hidden_stride) PAIRS(has_partials) PAIRS(padding)

    STRUCT(clattn_merge_params) MERGE(out_stride) MERGE(lse_stride) MERGE(out_offset) MERGE(lse_offset) MERGE(count)
    MERGE(is_first) MERGE(is_last) MERGE(heads) MERGE(rows) MERGE(columns)

    STRUCT(clattn_turn_params) TURN_FIELDS(clattn_turn_params)

    STRUCT(clattn_rotary_params) TURN_FIELDS(clattn_rotary_params) ROTARY(norm_weight_offset)
    ROTARY(x_stride) ROTARY(x_offset) ROTARY(out_stride)
    ROTARY(out_offset) ROTARY(heads) ROTARY(in_place)

    STRUCT(clattn_append_params) TURN_FIELDS(clattn_append_params) CLATTN_APPEND_OWN_TENSORS(APPEND_OF_ROW)
    APPEND(query_heads) APPEND(kv_heads) APPEND(capacity) APPEND(page_size) APPEND(pages)
    APPEND(ring) APPEND(pinned) APPEND(key_scale_rows) APPEND(value_scale_rows) APPEND(in_place)
    APPEND(first_page)

    STRUCT(clattn_input_place) INPUT_PLACE(stride) INPUT_PLACE(offset)
    STRUCT(clattn_place) GRADIENT_PLACE(stride) GRADIENT_PLACE(offset) GRADIENT_PLACE(type) GRADIENT_PLACE(accumulate)
    STRUCT(clattn_backward_places) PLACES(dout) PLACES(dlse) PLACES(gradient)
    STRUCT(clattn_key_sums_places) KEY_SUMS(sums_offset) KEY_SUMS(sums_stride) KEY_SUMS(max_offset)
    KEY_SUMS(max_stride) KEY_SUMS(last_rows) KEY_SUMS(unused)

    STRUCT(clattn_rectangles) RECTANGLES(dquery_at) RECTANGLES(dkey_at) RECTANGLES(dvalue_at) RECTANGLES(row_sums_at)
    RECTANGLES(first_group) RECTANGLES(groups) RECTANGLES(first_row) RECTANGLES(rows)
    STRUCT(clattn_rests) RESTS(rests_from)
    STRUCT(clattn_sums) SUMS(sums_at) SUMS(total_at) SUMS(first_group) SUMS(groups) SUMS(first_row) SUMS(rows)
    SUMS(which) SUMS(continues)
    STRUCT(clattn_bias_sums) BIAS_SUMS(sums_at) BIAS_SUMS(total_at) BIAS_SUMS(first_block) BIAS_SUMS(parts)
    BIAS_SUMS(first_part) BIAS_SUMS(part_count) BIAS_SUMS(which)
    STRUCT(clattn_owner_part) OWNER_PART(redo_at) OWNER_PART(first_tile) OWNER_PART(tiles) OWNER_PART(first_plane)
    OWNER_PART(wants) OWNER_PART(rests_from) OWNER_PART(redo_blocks) OWNER_PART(dvalue)
};
/* clang-format on */
#define ROWS (sizeof(rows) / sizeof(rows[0]))

/* What a compiler appends so that the next of an array is aligned. */
#define TAIL_BYTES_MOST 7

/* places[2 * n], places[2 * n + 1]: offset and size of row n, as the device's compiler has them. */
static char *kernel_text(void)
{
    struct text text = TEXT_INIT;
    text_append(&text, "#include \"layers/additive_params.h\"\n#include \"cache/append_params.h\"\n"
                       "#include \"backward/backward_params.h\"\n#include \"backward_simd/backward_simd_layout.h\"\n"
                       "#include \"key_sums/key_sums_params.h\"\n"
                       "#include \"backward_gpu/backward_owner_layout.h\"\n"
                       "#include \"forward/forward_params.h\"\n#include \"layers/layer_matrix_params.h\"\n"
                       "#include \"layers/merge_params.h\"\n"
                       "#include \"layers/project_params.h\"\n#include \"staged/staged_params.h\"\n"
                       "__kernel void layouts(__global ulong *places)\n{\n");
    for (size_t n = 0; n < ROWS; ++n) {
        const struct row *row = &rows[n];
        if (row->field) {
            text_append(&text,
                        "    {\n        %s s;\n        places[%zu] = (ulong)((char *)&s.%s - (char *)&s);\n"
                        "        places[%zu] = sizeof(s.%s);\n    }\n",
                        row->type, 2 * n, row->field, 2 * n + 1, row->field);
        } else {
            text_append(&text, "    places[%zu] = 0;\n    places[%zu] = sizeof(%s);\n", 2 * n, 2 * n + 1, row->type);
        }
    }
    text_append(&text, "}\n");
    return text_take(&text);
}

static int ask_device(clattn_context *context, cl_ulong places[2 * ROWS])
{
    const size_t one = 1, bytes = 2 * ROWS * sizeof(cl_ulong);
    struct kernel *kernel = NULL;
    cl_int code = CL_SUCCESS;
    clattn_status status = program_kernel(context, "layouts.cl", "-D TYPE=1", "layouts", &kernel);
    cl_mem buffer = clCreateBuffer(context->cl, CL_MEM_WRITE_ONLY, bytes, NULL, &code);
    if (status == CLATTN_OK && code == CL_SUCCESS) {
        const struct launch_argument argument = ARGUMENT(buffer);
        struct chain chain;
        status = chain_begin(&chain, context->queue, 0, NULL, NULL);
        if (status == CLATTN_OK) {
            status = chain_end(&chain, launch(&chain, kernel, 1, &one, &one, 1, &argument));
        }
        code = clEnqueueReadBuffer(context->queue, buffer, CL_TRUE, 0, bytes, places, 0, NULL, NULL);
    }
    if (buffer) {
        clReleaseMemObject(buffer);
    }
    if (status != CLATTN_OK || code != CL_SUCCESS) {
        printf("FAIL %s (OpenCL %d)\n", status != CLATTN_OK ? clattn_last_error() : "a buffer", (int)code);
        return 0;
    }
    return 1;
}

/* Where row n must begin: behind the row before it. */
static size_t expected_offset(size_t n)
{
    return rows[n].field && rows[n - 1].field ? rows[n - 1].offset + rows[n - 1].bytes : 0;
}

/* The last row of a struct leaves no field out behind it; the others have a next one, which is judged itself. */
static int leaves_none_out(size_t n)
{
    if (n + 1 < ROWS && rows[n + 1].field) {
        return 1;
    }
    size_t whole = n;
    while (rows[whole].field) {
        --whole;
    }
    return rows[whole].bytes - rows[n].offset - rows[n].bytes <= TAIL_BYTES_MOST;
}

static int judge_rows(const cl_ulong places[2 * ROWS])
{
    int failed = 0;
    for (size_t n = 0; n < ROWS; ++n) {
        const struct row *row = &rows[n];
        const char *dot = row->field ? "." : "", *field = row->field ? row->field : "";
        int wrong = 0;
        if (places[2 * n] != row->offset || places[2 * n + 1] != row->bytes) {
            printf("FAIL %s%s%s: %zu bytes at %zu on the host, %llu at %llu on the device\n", row->type, dot, field,
                   row->bytes, row->offset, (unsigned long long)places[2 * n + 1], (unsigned long long)places[2 * n]);
            wrong = 1;
        }
        if (row->offset != expected_offset(n) || !leaves_none_out(n)) {
            printf("FAIL %s%s%s: a field before it or behind it has no row in this test\n", row->type, dot, field);
            wrong = 1;
        }
        failed += wrong;
    }
    return failed;
}

int main(void)
{
    char *text = kernel_text();
    clattn_context *context = NULL;
    if (!text || clattn_context_open(NULL, NULL, &context) != CLATTN_OK) {
        fprintf(stderr, "%s\n", text ? clattn_last_error() : "out of memory");
        return 1;
    }
    const struct clattn_embedded_file file = { "layouts.cl", text, strlen(text) };
    const struct clattn_embedded_table table = { &file, 1 };
    program_own_kernels(context, &table);
    cl_ulong places[2 * ROWS];
    const int failed = ask_device(context, places) ? judge_rows(places) : (int)ROWS;
    clattn_context_destroy(context);
    free(text);
    printf("%d passed, %d failed, 0 skipped\n", (int)ROWS - failed, failed);
    return failed > 0;
}
