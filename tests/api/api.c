/* The shared context and the runner. */
#include "api.h"

#include <stdlib.h>
#include <string.h>

clattn_context *context;

static void setup(void)
{
    EXPECT_OK(clattn_context_open(NULL, NULL, &context));
}

static void teardown(void)
{
    clattn_context_destroy(context);
    context = NULL;
}

void expect_error(clattn_status status, clattn_status expected, const char *text, const char *call)
{
    ck_assert_msg(status == expected && strstr(clattn_last_error(), text), "%s: %s, \"%s\"; expected %s, \"%s\"", call,
                  clattn_status_name(status), clattn_last_error(), clattn_status_name(expected), text);
}

int api_main(const char *name, void (*add)(TCase *tests))
{
    Suite *suite = suite_create(name);
    TCase *tests = tcase_create(name);
    tcase_add_unchecked_fixture(tests, setup, teardown);
    add(tests);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK); /* OpenCL does not survive a fork */
    srunner_run_all(runner, CK_ENV);
    int failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
