/* What ranks read of a caller's structs (mpi/given.h): no field of problem or call may differ between them unnoticed;
 * a struct of an older program is not read past its end, and one of a newer is refused where it asks for more. */
#include "mpi/given.h"

#include <stdlib.h>
#include <string.h>

#include "operation/problem_fields.h"
#include "suite.h"

static const clattn_problem a_problem = CLATTN_PROBLEM_INIT;
static const clattn_backward_problem a_backward = CLATTN_BACKWARD_PROBLEM_INIT;
static const clattn_call a_call = CLATTN_CALL_INIT;
static const clattn_host_tensors some_tensors = CLATTN_HOST_TENSORS_INIT;
static const clattn_host_gradients some_gradients = CLATTN_HOST_GRADIENTS_INIT;

static struct given given_of_defaults(void)
{
    struct given given = { a_problem, a_backward, a_call, some_tensors, some_gradients };
    return given;
}

/* ---- what ranks say alike ----------------------------------------------------------------------- */

/* The one thing in which a rank that was given `changed` is not like one that was given the defaults. */
static void expect_named(const struct rank_call *c, const struct given *changed, const char *name)
{
    const struct rank_call plain = { .algorithm = CLATTN_RING_KEYS };
    const struct given given = given_of_defaults();
    struct alike a[ALIKE_MOST], b[ALIKE_MOST];
    const int count = given_alike(&plain, &given, a);
    int differ = 0;
    ck_assert_int_eq(given_alike(c ? c : &plain, changed, b), count);
    for (int n = 0; n < count; ++n) {
        ck_assert_str_eq(a[n].name, b[n].name);
        if (a[n].value != b[n].value) {
            ck_assert_str_eq(a[n].name, name);
            ++differ;
        }
    }
    ck_assert_msg(differ == 1, "%s: %d differ", name, differ);
}

#define EXPECT_FIELD(of, name, field)                                                                                  \
    {                                                                                                                  \
        struct given changed = given_of_defaults();                                                                    \
        ((unsigned char *)&changed.of.field)[0] ^= 1;                                                                  \
        expect_named(NULL, &changed, name #field);                                                                     \
        changed = given_of_defaults();                                                                                 \
        ((unsigned char *)&changed.of.field)[sizeof(changed.of.field) - 1] ^= 64;                                      \
        expect_named(NULL, &changed, name #field);                                                                     \
    }
#define EXPECT_IN_PROBLEM(field) EXPECT_FIELD(whole, "problem.", field)
#define EXPECT_IN_CALL(field) EXPECT_FIELD(call, "call.", field)
#define IS_NULL(field) ck_assert_ptr_null(a_problem.field);

START_TEST(test_no_field_differs_unnoticed){
    PROBLEM_FIELDS(EXPECT_IN_PROBLEM, IS_NULL) CALL_FIELDS(EXPECT_IN_CALL, EXPECT_IN_CALL)
        EXPECT_FIELD(backward, "problem.", gradients) EXPECT_FIELD(backward, "problem.", accumulate)
            EXPECT_FIELD(backward, "problem.", features) EXPECT_FIELD(backward, "problem.", gradient_type)
} END_TEST

    START_TEST(test_nor_what_is_beside_them)
{
    static int32_t lengths[] = { 7 };
    const struct rank_call backward = { .algorithm = CLATTN_RING_KEYS, .backward = &a_backward };
    const struct rank_call layout = { .algorithm = CLATTN_RING_KEYS, .layout = CLATTN_RING_ZIGZAG };
    const struct rank_call algorithm = { .algorithm = CLATTN_RING_HEADS };
    struct given given = given_of_defaults();
    expect_named(&backward, &given, "forward, or backward,");
    expect_named(&layout, &given, "layout");
    expect_named(&algorithm, &given, "algorithm");
    given.backward.strategy = "plain";
    expect_named(NULL, &given, "problem.strategy");
    given = given_of_defaults();
    given.tensors.key_lengths.data = lengths;
    expect_named(NULL, &given, "tensors.key_lengths");
    given = given_of_defaults();
    given.tensors.query_offsets.data = lengths;
    expect_named(NULL, &given, "tensors.query_offsets");
}
END_TEST

/* ---- structs of other versions ------------------------------------------------------------------ */

/* A struct of `bytes`, with nothing behind it that may be read. */
static void *resized(const void *from, size_t known_bytes, size_t bytes)
{
    char *made = calloc(1, bytes);
    memcpy(made, from, bytes < known_bytes ? bytes : known_bytes);
    memcpy(made, &bytes, sizeof(bytes));
    return made;
}

/* Reads the default structs, sizes changed by so many bytes; `is_set`: the last byte of each says something. */
static clattn_status read_resized(long change, int is_set, struct given *given, struct failure *failure)
{
    const void *const from[] = { &a_problem, &a_call, &some_tensors, &some_gradients, &a_backward };
    const size_t known[] = { sizeof(a_problem), sizeof(a_call), sizeof(some_tensors), sizeof(some_gradients),
                             sizeof(a_backward) };
    void *made[5];
    for (int n = 0; n < 5; ++n) {
        const size_t bytes = (size_t)((long)known[n] + change);
        made[n] = resized(from[n], known[n], bytes);
        ((char *)made[n])[bytes - 1] = is_set ? 1 : ((char *)made[n])[bytes - 1];
    }
    ((clattn_backward_problem *)made[4])->forward = made[0];
    const struct rank_call c = { .call = made[1], .tensors = made[2], .gradients = made[3], .backward = made[4] };
    memset(given, 0x55, sizeof(*given));
    failure->status = CLATTN_OK;
    const clattn_status status = given_read(&c, given, failure);
    for (int n = 0; n < 5; ++n) {
        free(made[n]);
    }
    return status;
}

START_TEST(test_older_structs_end_where_they_end)
{
    struct given given;
    struct failure failure;
    ck_assert_int_eq(read_resized(-8, 0, &given, &failure), CLATTN_OK);
    ck_assert_uint_eq(given.whole.struct_size, sizeof(given.whole));
    ck_assert_uint_eq(given.tensors.struct_size, sizeof(given.tensors));
    ck_assert_int_eq(given.whole.window_left, -1);
    ck_assert_int_eq(given.whole.value_in_key, 0);
    ck_assert_int_eq(given.call.mask_first_key, 0);
    ck_assert_ptr_null(given.backward.strategy);
    ck_assert_ptr_null(given.gradients.dscale.data);
    ck_assert_int_eq(given.tensors.value_tensor_scale.stride[3], 0);
}
END_TEST

START_TEST(test_newer_structs_ask_for_nothing_that_is_unknown)
{
    struct given given;
    struct failure failure;
    ck_assert_int_eq(read_resized(8, 0, &given, &failure), CLATTN_OK);
    ck_assert_uint_eq(given.call.struct_size, sizeof(given.call));
    ck_assert_int_eq(read_resized(8, 1, &given, &failure), CLATTN_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(failure.text, "problem.struct_size"));
    ck_assert_ptr_nonnull(strstr(failure.text, "CLATTN_BACKWARD_PROBLEM_INIT"));
}
END_TEST

START_TEST(test_a_size_that_nobody_set_is_refused)
{
    struct given given;
    struct failure failure;
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    const struct rank_call c = { .whole = &problem, .tensors = &some_tensors };
    static const size_t sizes[] = { 0, 56, sizeof(clattn_problem) - 4, 1 << 20 };
    for (size_t n = 0; n < sizeof(sizes) / sizeof(sizes[0]); ++n) {
        problem.struct_size = sizes[n];
        ck_assert_int_eq(given_read(&c, &given, &failure), CLATTN_INVALID_ARGUMENT);
        ck_assert_ptr_nonnull(strstr(failure.text, "CLATTN_PROBLEM_INIT"));
    }
}
END_TEST

SUITE("ring_given", test_no_field_differs_unnoticed, test_nor_what_is_beside_them,
      test_older_structs_end_where_they_end, test_newer_structs_ask_for_nothing_that_is_unknown,
      test_a_size_that_nobody_set_is_refused)
