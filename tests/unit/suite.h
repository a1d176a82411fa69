/* The main function of a Check program with one suite. Included once, at the end of each. */
#ifndef CLATTN_TESTS_UNIT_SUITE_H
#define CLATTN_TESTS_UNIT_SUITE_H

#include <check.h>
#include <stdlib.h>

typedef const TTest *suite_test;

static inline int suite_run(const char *name, const suite_test *tests, size_t count)
{
    Suite *suite = suite_create(name);
    TCase *group = tcase_create(name);
    tcase_set_timeout(group, 300);
    for (size_t i = 0; i < count; ++i) {
        tcase_add_test(group, tests[i]);
    }
    suite_add_tcase(suite, group);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#define SUITE(name, ...)                                                                                               \
    int main(void)                                                                                                     \
    {                                                                                                                  \
        const suite_test tests[] = { __VA_ARGS__ };                                                                    \
        return suite_run(name, tests, sizeof(tests) / sizeof(tests[0]));                                               \
    }

#endif
