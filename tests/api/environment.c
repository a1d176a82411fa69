/* CLATTN_DEVICE and CLATTN_CL_DIR: what they choose, and what they say when they cannot. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api.h"
#include "program/embedded_cl.h"
#include "program/program.h"
#include "support/small_calls.h"

/* ---- CLATTN_DEVICE -------------------------------------------------------------------------- */

static clattn_status open_named(const char *environment, const char *argument)
{
    clattn_context *other;
    if (environment) {
        setenv("CLATTN_DEVICE", environment, 1);
    }
    clattn_status status = clattn_context_open(argument, NULL, &other);
    unsetenv("CLATTN_DEVICE");
    ck_assert((status == CLATTN_OK) == (other != NULL));
    clattn_context_destroy(other);
    return status;
}

START_TEST(test_device_names)
{
    char name[256] = "", part[256];
    cl_device_type type = 0;
    cl_device_id device = clattn_context_device(context);
    clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof(name), name, NULL);
    clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof(type), &type, NULL);
    snprintf(part, sizeof(part), "%.5s", name);
    for (char *c = part; *c; ++c) { /* upper and lower case alike */
        *c = (char)(*c >= 'a' && *c <= 'z' ? *c - 32 : *c);
    }
    ck_assert_int_eq(open_named(name, NULL), CLATTN_OK);
    ck_assert_int_eq(open_named(part, NULL), CLATTN_OK);
    ck_assert_int_eq(open_named(NULL, name), CLATTN_OK);
    ck_assert_int_eq(open_named("0:0", NULL), CLATTN_OK);
    if (type & CL_DEVICE_TYPE_CPU) {
        ck_assert_int_eq(open_named("CPU", NULL), CLATTN_OK);
    }
    ck_assert_int_eq(open_named("no such device", name), CLATTN_OK); /* the argument counts */
    ck_assert_int_eq(open_named("", NULL), CLATTN_OK);               /* empty is unset */
}
END_TEST

START_TEST(test_device_not_there)
{
    static const char *const wrong[] = { "no such device", "99:0", "0:99", "0:", ":0", "0:0:0", "-1:0", "0:0x" };
    char name[256] = "";
    clGetDeviceInfo(clattn_context_device(context), CL_DEVICE_NAME, sizeof(name), name, NULL);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); ++i) {
        for (int as_argument = 0; as_argument < 2; ++as_argument) {
            clattn_status status = as_argument ? open_named(NULL, wrong[i]) : open_named(wrong[i], NULL);
            expect_error(status, CLATTN_NO_DEVICE, wrong[i], "context_open");
            expect_error(status, CLATTN_NO_DEVICE, name, "context_open"); /* what there is */
        }
    }
    expect_error(open_named(NULL, ""), CLATTN_INVALID_ARGUMENT, "must not be empty", "context_open");
}
END_TEST

static void expect_described(const char *environment, int as_json, const char *text)
{
    char *description;
    if (environment) {
        setenv("CLATTN_DEVICE", environment, 1);
    }
    EXPECT_OK(clattn_describe_devices(as_json, &description));
    unsetenv("CLATTN_DEVICE");
    ck_assert_msg(strstr(description, text) != NULL, "\"%s\" is not in: %s", text, description);
    clattn_free(description);
}

START_TEST(test_describe_devices)
{
    expect_described(NULL, 0, "<- chosen");
    expect_described(NULL, 1, "\"chosen\": true");
    expect_described(NULL, 1, "\"wanted\": null");
    expect_described("0:0", 0, "chosen because: CLATTN_DEVICE names it");
    expect_described("none of \"these\"", 0, "matches none of these");
    expect_described("none of \"these\"", 1, "\"wanted\": \"none of \\\"these\\\"\"");
    expect_described("", 0, "<- chosen");
}
END_TEST

/* ---- CLBLAST_BUILD_OPTIONS ------------------------------------------------------------------ */

/* What the environment holds belongs to the program, which may write over it, or free it. */
START_TEST(test_flags_are_copied)
{
    char variable[] = "CLBLAST_BUILD_OPTIONS=-D FIRST";
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    clattn_context *own;
    clattn_plan *plan;
    problem.query_len = problem.key_len = problem.head_dim = 8;
    problem.strategy = "staged";
    problem.matmul = CLATTN_MATMUL_TILES;
    ck_assert_int_eq(putenv(variable), 0);
    EXPECT_OK(clattn_context_open(NULL, NULL, &own));
    unsetenv("CLBLAST_BUILD_OPTIONS");
    memset(variable, 'x', sizeof(variable) - 1);
    EXPECT_OK(clattn_plan_create(own, &problem, &plan));
    ck_assert_msg(strstr(clattn_plan_explain(plan), "\"-D FIRST\""), "%s", clattn_plan_explain(plan));
    clattn_plan_destroy(plan);
    clattn_context_destroy(own);
}
END_TEST

/* ---- CLATTN_CL_DIR -------------------------------------------------------------------------- */

static char folder[256];

static void make_folder(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof(folder), "%s/clattn-api-XXXXXX", tmp ? tmp : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

/* Copies the kernel files there; `extra` is appended to plain.cl. */
static void copy_kernels(const char *extra)
{
    const char *source = getenv("srcdir");
    char command[1024], path[512];
    snprintf(command, sizeof(command), "cp -R '%s'/cl/. '%s' && chmod -R u+w '%s'", source ? source : ".", folder,
             folder);
    ck_assert_int_eq(system(command), 0);
    snprintf(path, sizeof(path), "%s/plain/plain.cl", folder);
    FILE *file = fopen(path, "a");
    ck_assert_ptr_nonnull(file);
    fputs(extra, file);
    fclose(file);
}

static void remove_folder(void)
{
    char command[512];
    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    ck_assert_int_eq(system(command), 0);
}

/* A plan of strategy plain in a context that is made with CLATTN_CL_DIR (or the option) set. */
static clattn_status plan_with(const char *directory, int as_option)
{
    clattn_context_options options = CLATTN_CONTEXT_OPTIONS_INIT;
    clattn_context *own;
    clattn_plan *plan = NULL;
    struct test_call test;
    if (as_option) {
        options.kernel_dir = directory;
    } else {
        setenv("CLATTN_CL_DIR", directory, 1);
    }
    EXPECT_OK(clattn_context_open(NULL, &options, &own));
    unsetenv("CLATTN_CL_DIR");
    sample_create(&test, SAMPLE_MASKED, "plain");
    clattn_status status = clattn_plan_create(own, &test.problem, &plan);
    clattn_plan_destroy(plan);
    if (status == CLATTN_OK) {
        EXPECT_OK(clattn_forward_host(own, &test.problem, &test.values, &test.tensors));
    }
    test_call_free(&test);
    clattn_context_destroy(own);
    return status;
}

START_TEST(test_kernel_folder)
{
    for (int as_option = 0; as_option < 2; ++as_option) {
        make_folder();
        expect_error(plan_with(folder, as_option), CLATTN_INVALID_ARGUMENT, "plain/plain.cl", "plan_create");
        expect_error(plan_with(folder, as_option), CLATTN_INVALID_ARGUMENT, folder, "plan_create");
        copy_kernels("");
        ck_assert_msg(plan_with(folder, as_option) == CLATTN_OK, "%s", clattn_last_error());
        copy_kernels("this is no OpenCL;\n");
        clattn_status status = plan_with(folder, as_option);
        expect_error(status, CLATTN_BUILD_FAILED, "plain/plain.cl", "plan_create");
        expect_error(status, CLATTN_BUILD_FAILED, "error", "plan_create"); /* the compiler's words */
        ck_assert_int_eq(clattn_last_error_native(), CL_BUILD_PROGRAM_FAILURE);
        remove_folder();
        expect_error(plan_with(folder, as_option), CLATTN_INVALID_ARGUMENT, "No such file", "plan_create");
    }
}
END_TEST

static void write_kernel_file(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

/* An include in a branch that is not taken gives nothing; one that comes later does. */
START_TEST(test_includes_in_branches)
{
    static const char *const plain_ends[] = {
        "#if 0\n#include \"late.clh\"\n#endif\n#include \"late.clh\"\n",
        "#include \"asks.clh\"\n#include \"late.clh\"\n",
        "#define ASKS 1\n#include \"asks.clh\"\n#include \"late.clh\"\n",
    };
    for (size_t i = 0; i < sizeof(plain_ends) / sizeof(plain_ends[0]); ++i) {
        char end[256];
        snprintf(end, sizeof(end), "%s#if LATE != 1\n#error late.clh is not here\n#endif\n", plain_ends[i]);
        make_folder();
        copy_kernels(end);
        write_kernel_file("asks.clh", "#ifndef ASKS_CLH\n#define ASKS_CLH\n#if ASKS\n#include \"late.clh\"\n"
                                      "#endif\n#endif\n");
        write_kernel_file("late.clh", "#ifndef LATE_CLH\n#define LATE_CLH\n#define LATE 1\nint late(int x);\n"
                                      "int late(int x)\n{\n    return x;\n}\n#endif\n");
        ck_assert_msg(plan_with(folder, 0) == CLATTN_OK, "end %zu: %s", i, clattn_last_error());
        remove_folder();
    }
}
END_TEST

/* A compiler names the file and the line where the mistake stands. */
START_TEST(test_lines_of_included_files)
{
    make_folder();
    copy_kernels("#include \"wrong.clh\"\nthis too;\n");
    write_kernel_file("wrong.clh", "#include \"common/types.clh\"\n\nthis is no OpenCL;\n");
    clattn_status status = plan_with(folder, 0);
    expect_error(status, CLATTN_BUILD_FAILED, "wrong.clh:3:", "plan_create");
    remove_folder();
}
END_TEST

/* A program beside the library, such as the command, has kernels of its own: they are found whether or not the
 * library's come from a folder, and include the library's headers from where those come. */
START_TEST(test_own_kernels)
{
    static const char text[] = "#include \"common/types.clh\"\n"
                               "__kernel void own(__global STORAGE *x) { STORE(x, 0, LOAD(x, 1)); }\n";
    static const struct clattn_embedded_file files[] = { { "own.cl", text, sizeof(text) - 1 } };
    static const struct clattn_embedded_table own = { files, 1 };
    struct kernel *kernel;
    make_folder();
    copy_kernels("");
    for (int in_folder = 0; in_folder < 2; ++in_folder) {
        clattn_context_options options = CLATTN_CONTEXT_OPTIONS_INIT;
        clattn_context *other;
        options.kernel_dir = in_folder ? folder : NULL;
        EXPECT_OK(clattn_context_open(NULL, &options, &other));
        ck_assert_int_ne(program_kernel(other, "own.cl", "-D TYPE=1", "own", &kernel), CLATTN_OK);
        program_own_kernels(other, &own);
        EXPECT_OK(program_kernel(other, "own.cl", "-D TYPE=1", "own", &kernel));
        write_kernel_file("common/types.clh", "this is no OpenCL;\n");
        clattn_status status = program_kernel(other, "own.cl", "-D TYPE=2", "own", &kernel);
        if (in_folder) {
            expect_error(status, CLATTN_BUILD_FAILED, "common/types.clh:1:", "program_kernel");
        } else {
            EXPECT_OK(status);
            copy_kernels("");
        }
        clattn_context_destroy(other);
    }
    remove_folder();
}
END_TEST

/* What only the command uses is not part of the library. */
START_TEST(test_no_foreign_kernels)
{
    for (size_t i = 0; i < clattn_embedded_files.count; ++i) {
        ck_assert_msg(!strstr(clattn_embedded_files.files[i].text, "lesson"), "%s",
                      clattn_embedded_files.files[i].name);
    }
}
END_TEST

START_TEST(test_odd_kernel_folders)
{
    char path[1024], long_path[5000];
    make_folder();
    snprintf(path, sizeof(path), "%s/plain", folder);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    memset(long_path, 'x', sizeof(long_path) - 1);
    long_path[sizeof(long_path) - 1] = 0;
    expect_error(plan_with(long_path, 0), CLATTN_INVALID_ARGUMENT, "too long", "plan_create");
    snprintf(path, sizeof(path), "%s/plain/plain.cl", folder);
    mkdir(path, 0700); /* a folder where a file should be */
    expect_error(plan_with(folder, 0), CLATTN_INVALID_ARGUMENT, "plain/plain.cl", "plan_create");
    rmdir(path);
    ck_assert_int_eq(mkfifo(path, 0600), 0); /* nobody writes to it: opening it must not wait */
    expect_error(plan_with(folder, 0), CLATTN_INVALID_ARGUMENT, "plain/plain.cl: must be a regular file",
                 "plan_create");
    unlink(path);
    ck_assert_int_eq(symlink("nowhere", path), 0);
    expect_error(plan_with(folder, 0), CLATTN_INVALID_ARGUMENT, "plain/plain.cl (No such file", "plan_create");
    unlink(path);
    /* Includes itself, and a file that is not there. */
    write_kernel_file("plain/plain.cl", "#include \"plain/plain.cl\"\n#include \"nowhere.clh\"\n");
    expect_error(plan_with(folder, 0), CLATTN_INVALID_ARGUMENT, "nowhere.clh", "plan_create");
    /* Files that include one another, without an end. */
    for (int i = 0; i < 40; ++i) {
        char name[16], text[64];
        snprintf(name, sizeof(name), i ? "n%d.clh" : "plain/plain.cl", i);
        snprintf(text, sizeof(text), "#include \"n%d.clh\"\n", i + 1);
        write_kernel_file(name, text);
    }
    expect_error(plan_with(folder, 0), CLATTN_INVALID_ARGUMENT, "files deep", "plan_create");
    /* Compiles, but has no kernel. */
    write_kernel_file("plain/plain.cl", "__kernel void another(__global int *x) { *x = 1; }\n");
    expect_error(plan_with(folder, 0), CLATTN_OPENCL_ERROR, "kernel plain of cl/plain/plain.cl", "plan_create");
    remove_folder();
}
END_TEST

static void add(TCase *tests)
{
    tcase_add_test(tests, test_device_names);
    tcase_add_test(tests, test_device_not_there);
    tcase_add_test(tests, test_describe_devices);
    tcase_add_test(tests, test_flags_are_copied);
    tcase_add_test(tests, test_kernel_folder);
    tcase_add_test(tests, test_includes_in_branches);
    tcase_add_test(tests, test_lines_of_included_files);
    tcase_add_test(tests, test_own_kernels);
    tcase_add_test(tests, test_no_foreign_kernels);
    tcase_add_test(tests, test_odd_kernel_folders);
}

int main(void)
{
    unsetenv("CLATTN_CL_DIR");
    return api_main("environment", add);
}
