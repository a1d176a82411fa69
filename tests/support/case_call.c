/* The case is read as solve_cases reads it; element by element it becomes a call of its own. */
#include "case_call.h"

#include "case_file.h"

/* What the elements of one tensor are copied from. */
struct source {
    const struct test_call *from;
    enum tensor_id id;
};

static double element_of(struct random *random, const int64_t index[4], const void *context)
{
    const struct source *source = context;
    (void)random;
    return test_call_get(source->from, source->id, index[0], index[1], index[2], index[3]);
}

/* A view of the case; owns nothing. */
static void view_case(const struct attention_case *c, struct test_call *from)
{
    test_call_start(from, &c->problem);
    from->tensors = c->tensors;
    from->packed_queries = c->shape.packed_queries;
    from->packed_keys = c->shape.packed_keys;
    from->table_pages = c->input[CASE_PAGE_TABLE].data ? tensor_count(&c->input[CASE_PAGE_TABLE]) : 0;
    for (int id = 0; id < TENSOR_COUNT; ++id) {
        test_call_view(from, (enum tensor_id)id, test_call_tensor(from, (enum tensor_id)id)->data);
    }
    clattn_host_tensor *const lists[] = { &from->tensors.key_lengths, &from->tensors.query_offsets,
                                          &from->tensors.cu_query, &from->tensors.cu_key, &from->tensors.page_starts };
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); ++i) {
        lists[i]->stride[3] = 1; /* implied elsewhere */
    }
}

int case_call_create(struct test_call *test, const char *folder, clattn_type type, struct failure *failure)
{
    struct attention_case c;
    struct test_call from;
    if (case_read(folder, &c, failure) != 0) {
        return -1;
    }
    view_case(&c, &from);
    clattn_problem problem = c.problem;
    problem.type = type;
    problem.key_type = problem.value_type = CLATTN_TYPE_NONE; /* codes count as numbers */
    problem.features &= ~(uint32_t)(CLATTN_WITH_KEY_SCALES | CLATTN_WITH_VALUE_SCALES);
    problem.key_scale_rows = problem.key_scale_columns = problem.value_scale_rows = problem.value_scale_columns = 0;
    problem.weights = CLATTN_WEIGHTS_NONE;
    test_call_start(test, &problem);
    test->values = c.values;
    test->packed_queries = from.packed_queries;
    test->packed_keys = from.packed_keys;
    test->table_pages = from.table_pages;
    test_call_place_all(test);
    for (int id = 0; id < TENSOR_COUNT; ++id) {
        const struct source source = { &from, (enum tensor_id)id };
        if (test_call_has(test, source.id) && !forward_is_output((int)source.id)) {
            test_call_fill(test, source.id, NULL, element_of, &source);
        }
    }
    case_free(&c);
    if (test_call_validate(test) != CLATTN_OK) {
        test_call_free(test);
        return failure_failed(failure, "%s", clattn_last_error());
    }
    return 0;
}
