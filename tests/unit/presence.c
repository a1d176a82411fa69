/* Which tensors a call must have, and must not: each row of the table, so a new tensor is here without a line. */
#include <stdio.h>
#include <string.h>

#include "operation/forward.h"
#include "suite.h"
#include "support/test_call.h"

static void set_seams(struct test_call *test, enum tensor_id id, double end)
{
    if (test_call_has(test, id)) {
        test_call_set(test, id, 0, 0, 0, 0, 0);
        test_call_set(test, id, 0, 0, 0, 1, end);
    }
}

/* Every tensor there is, but for what does not go together: pages, lists of keys and zero points, or weights and scales
 * of whole tensors. */
static void place_everything(struct test_call *test, int paged)
{
    const uint32_t of_pages = CLATTN_WITH_PAGES | CLATTN_WITH_PAGE_STARTS | CLATTN_WITH_KEY_LISTS;
    clattn_problem p = CLATTN_PROBLEM_INIT;
    p.query_len = p.key_len = p.head_dim = 2;
    p.key_type = p.value_type = paged ? CLATTN_U8 : CLATTN_NVFP4; /* codes with zero points; with a tensor's scale */
    p.key_scale_rows = p.value_scale_rows = 1;
    p.key_scale_columns = p.value_scale_columns = 16;
    p.features = forward_features & ~(paged ? 0 : of_pages);
    p.bias_type = CLATTN_FLOAT32;
    p.weights = paged ? CLATTN_WEIGHTS_NONE : CLATTN_WEIGHTS_SOFTMAX;
    p.alignment = CLATTN_ALIGN_OFFSETS;
    p.page_size = p.pages = paged ? 2 : 0;
    p.block_mask_rows = p.block_mask_keys = 1;
    p.key_list_rows = p.key_list_keys = paged;
    test_call_start(test, &p);
    test->packed_queries = test->packed_keys = 2;
    test->table_pages = 1;
    test_call_place_all(test);
    set_seams(test, TENSOR_CU_QUERY, 2);
    set_seams(test, TENSOR_CU_KEY, 2);
    set_seams(test, TENSOR_PAGE_STARTS, 1);
}

static void ck_refused(struct test_call *test, int id, const char *why)
{
    char says[120];
    snprintf(says, sizeof(says), "%s: %s", operation_forward.rows[id].name, why);
    ck_assert_msg(test_call_validate(test) == CLATTN_INVALID_ARGUMENT, "%s: was taken", says);
    ck_assert_msg(strstr(clattn_last_error(), says) != NULL, "%s: %s", says, clattn_last_error());
}

/* One after the other is left out. */
START_TEST(test_missing_tensors)
{
    uint32_t missed = 0;
    for (int n = 0; n < 2 * TENSOR_COUNT; ++n) {
        const enum tensor_id id = (enum tensor_id)(n / 2);
        struct test_call test;
        place_everything(&test, n % 2);
        ck_assert_msg(test_call_validate(&test) == CLATTN_OK, "everything: %s", clattn_last_error());
        if (test_call_has(&test, id)) {
            test_call_tensor(&test, id)->data = NULL;
            ck_refused(&test, (int)id, "must be given");
            missed |= 1u << id;
        }
        test_call_free(&test);
    }
    ck_assert_uint_eq(missed, (1u << TENSOR_COUNT) - 1);
}
END_TEST

/* One after the other is there, and nobody asked for it: nothing is ignored in silence, and nothing is read of it. */
START_TEST(test_tensors_that_the_problem_does_not_have)
{
    clattn_problem p = CLATTN_PROBLEM_INIT;
    p.query_len = p.key_len = p.head_dim = 2;
    for (int id = 0; id < TENSOR_COUNT; ++id) {
        struct test_call test;
        char *memory = malloc(1); /* what reads more of it a sanitizer notices */
        test_call_start(&test, &p);
        test_call_place_all(&test);
        if (!test_call_has(&test, (enum tensor_id)id)) {
            test_call_tensor(&test, (enum tensor_id)id)->data = memory;
            ck_refused(&test, id, "was given, but the problem does not have it");
        }
        free(memory);
        test_call_free(&test);
    }
}
END_TEST

SUITE("presence", test_missing_tensors, test_tensors_that_the_problem_does_not_have)
