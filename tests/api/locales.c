/* The program's locale changes nothing: names of devices, numbers in texts, results. In Turkish tolower('I') is no 'i',
 * and as in German decimals have a comma. The C library's tools make both locales here, in a folder of their own. */
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api.h"
#include "base/ascii.h"
#include "support/small_calls.h"

static const char *const languages[] = { "tr_TR", "de_DE" };
#define LANGUAGES (sizeof(languages) / sizeof(languages[0]))

static char folder[256];

/* Whether the locale could be made, and set. */
static int speak(const char *language)
{
    char name[64];
    snprintf(name, sizeof(name), "%s.UTF-8", language);
    return setlocale(LC_ALL, name) != NULL && strcmp(localeconv()->decimal_point, ",") == 0;
}

static int make_locales(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof(folder), "%s/clattn-locales-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(folder)) {
        return 0;
    }
    int made = 1;
    for (size_t i = 0; i < LANGUAGES; ++i) {
        char command[1024];
        snprintf(command, sizeof(command), "localedef --no-archive -i %s -f UTF-8 '%s/%s.UTF-8' >'%s/said' 2>&1",
                 languages[i], folder, languages[i], folder);
        made &= system(command) == 0;
    }
    setenv("LOCPATH", folder, 1);
    for (size_t i = 0; i < LANGUAGES; ++i) {
        made = made && speak(languages[i]);
    }
    setlocale(LC_ALL, "C");
    return made;
}

static void remove_locales(void)
{
    char command[1024];
    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    if (system(command) != 0) {
        printf("%s: not removed\n", folder);
    }
}

/* All letters of ASCII, so that both cases of each are compared. */
static void expect_found(const char *name)
{
    char changed[256];
    clattn_context *found;
    size_t i = 0;
    for (; name[i] && i < sizeof(changed) - 1; ++i) {
        changed[i] = ascii_lower(name[i]) != name[i]    ? ascii_lower(name[i])
                     : name[i] >= 'a' && name[i] <= 'z' ? (char)(name[i] - 32)
                                                        : name[i];
    }
    changed[i] = 0;
    ck_assert_msg(clattn_context_open(changed, NULL, &found) == CLATTN_OK, "%s: %s", changed, clattn_last_error());
    clattn_context_destroy(found);
}

START_TEST(test_names)
{
    char name[256] = "", platform_name[256] = "";
    cl_platform_id platform = NULL;
    cl_device_id device = clattn_context_device(context);
    clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof(name) - 1, name, NULL);
    clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof(platform), &platform, NULL);
    clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof(platform_name) - 1, platform_name, NULL);
    ck_assert_msg(strpbrk(name, "iI") || strpbrk(platform_name, "iI"), "neither name has an i");
    ck_assert(speak(languages[_i]));
    expect_found(name);
    expect_found(platform_name);
    setlocale(LC_ALL, "C");
}
END_TEST

/* A digit, a comma, a digit. */
static int has_decimal_comma(const char *text)
{
    for (const char *c = strchr(text, ','); c; c = strchr(c + 1, ',')) {
        if (c > text && ascii_is_digit(c[-1]) && ascii_is_digit(c[1])) {
            return 1;
        }
    }
    return 0;
}

/* What a call says of its scale. */
static void expect_scale_said(int has_scale, double scale, const char *text)
{
    struct test_call test;
    sample_create(&test, SAMPLE_MASKED, NULL);
    test.values.has_scale = has_scale;
    test.values.scale = scale;
    expect_error(clattn_forward_host(context, &test.problem, &test.values, &test.tensors), CLATTN_INVALID_ARGUMENT,
                 text, "forward_host");
    test_call_free(&test);
}

START_TEST(test_texts)
{
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    problem.query_len = problem.key_len = 64;
    problem.head_dim = 32;
    clattn_plan *plan;
    char *devices;
    ck_assert(speak(languages[_i]));
    expect_scale_said(0, 0.5, "scale 0.5:");
    expect_scale_said(1, 1e300, "scale 1e+300:");
    problem.softcap = -0.125;
    expect_error(clattn_plan_create(context, &problem, &plan), CLATTN_INVALID_ARGUMENT, "softcap -0.125:", "softcap");
    problem.softcap = 0;
    problem.dropout = NAN;
    expect_error(clattn_plan_create(context, &problem, &plan), CLATTN_INVALID_ARGUMENT, "dropout nan:", "dropout");
    problem.dropout = 0;
    EXPECT_OK(clattn_plan_create(context, &problem, &plan));
    ck_assert_msg(!has_decimal_comma(clattn_plan_explain(plan)), "%s", clattn_plan_explain(plan));
    clattn_plan_destroy(plan);
    EXPECT_OK(clattn_describe_devices(0, &devices));
    ck_assert_msg(strstr(devices, " GiB") && !has_decimal_comma(devices), "%s", devices);
    clattn_free(devices);
    setlocale(LC_ALL, "C");
}
END_TEST

/* In a context of the locale's own, so that each program is asked for there; by all strategies that take it. */
START_TEST(test_results)
{
    const char *strategy;
    for (size_t i = 0; (strategy = sample_strategy(i)); ++i) {
        const int sample = sample_for(context, strategy);
        if (sample < 0) {
            continue;
        }
        struct test_call here, there;
        clattn_context *other;
        sample_create(&here, sample, strategy);
        EXPECT_OK(clattn_forward_host(context, &here.problem, &here.values, &here.tensors));
        ck_assert(speak(languages[_i]));
        sample_create(&there, sample, strategy);
        EXPECT_OK(clattn_context_open(NULL, NULL, &other));
        EXPECT_OK(clattn_forward_host(other, &there.problem, &there.values, &there.tensors));
        clattn_context_destroy(other);
        setlocale(LC_ALL, "C");
        ck_assert_msg(sample_equal(&here, &there), "%s computes otherwise in %s", strategy, languages[_i]);
        test_call_free(&here);
        test_call_free(&there);
    }
}
END_TEST

static void add(TCase *tests)
{
    tcase_add_loop_test(tests, test_names, 0, LANGUAGES);
    tcase_add_loop_test(tests, test_texts, 0, LANGUAGES);
    tcase_add_loop_test(tests, test_results, 0, LANGUAGES);
}

int main(void)
{
    if (!make_locales()) {
        printf("no localedef that makes tr_TR and de_DE here: no locale was tried\n");
        remove_locales();
        return 77;
    }
    const int result = api_main("locales", add);
    remove_locales();
    return result;
}
