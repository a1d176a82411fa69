/* Programs that are built twice (src/program/program_second.h), on a driver that compiles nothing: which text it gets
 * the second time, what the context and the cache on disk keep, and what a refusal says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clattn.h"
#include "offline/null_driver.h"
#include "program/context.h"
#include "program/program.h"
#include "program/program_binary.h"
#include "program/program_parts.h"

#include "suite.h"

#define OPTIONS "-D SECOND_BUILD=sm_90a"
#define LOG "ptxas application ptx input, line 4; error   : Illegal instruction"

static int builds, refuse_from; /* the first build that fails; 0: none does */

cl_int __real_clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices, const char *options,
                             void(CL_CALLBACK *notify)(cl_program, void *), void *user);
cl_int __wrap_clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices, const char *options,
                             void(CL_CALLBACK *notify)(cl_program, void *), void *user);

cl_int __wrap_clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices, const char *options,
                             void(CL_CALLBACK *notify)(cl_program, void *), void *user)
{
    const cl_int code = __real_clBuildProgram(program, count, devices, options, notify, user);
    return ++builds >= refuse_from && refuse_from ? CL_BUILD_PROGRAM_FAILURE : code;
}

cl_int __wrap_clGetProgramBuildInfo(cl_program program, cl_device_id device, cl_program_build_info what, size_t size,
                                    void *value, size_t *needed);

cl_int __wrap_clGetProgramBuildInfo(cl_program program, cl_device_id device, cl_program_build_info what, size_t size,
                                    void *value, size_t *needed)
{
    (void)program;
    (void)device;
    (void)what;
    return null_driver_answer(LOG, sizeof(LOG), size, value, needed);
}

static void drop_kernel(const struct null_kernel *kernel)
{
    (void)kernel;
}

static clattn_context *open_null(void)
{
    builds = refuse_from = 0;
    null_driver_on_kernel(drop_kernel);
    return null_context_open("sm_90");
}

static struct program *program_of(clattn_context *context)
{
    return context->programs;
}

START_TEST(built_twice)
{
    clattn_context *context = open_null();
    struct kernel *kernel;
    ck_assert_int_eq(program_kernel(context, "plain/plain.cl", OPTIONS, "plain", &kernel), CLATTN_OK);
    ck_assert_int_eq(builds, 2);
    size_t bytes;
    unsigned char *binary = program_binary(program_of(context)->cl, program_of(context)->device, &bytes);
    ck_assert_ptr_nonnull(binary);
    char *text = calloc(bytes + 1, 1);
    memcpy(text, binary, bytes);
    ck_assert_msg(strstr(text, "\n.target sm_90a\n\tsecond;\n") != NULL, "%.200s", text);
    free(text);
    free(binary);
    ck_assert_int_eq(program_kernel(context, "plain/plain.cl", "-D TYPE=2", "plain", &kernel), CLATTN_OK);
    ck_assert_int_eq(builds, 3); /* others once */
    clattn_context_destroy(context);
    ck_assert_int_eq(null_driver_bad_binaries(), 0);
}
END_TEST

/* What is on disk is the second text, which is built once. */
START_TEST(kept_on_disk)
{
    char folder[] = "/tmp/clattn-second-XXXXXX", command[64];
    struct kernel *kernel;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    setenv("CLATTN_CACHE", "on", 1);
    setenv("CLATTN_CACHE_DIR", folder, 1);
    clattn_context *context = open_null();
    ck_assert_int_eq(program_kernel(context, "plain/plain.cl", OPTIONS, "plain", &kernel), CLATTN_OK);
    clattn_context_destroy(context);
    context = open_null();
    ck_assert_int_eq(program_kernel(context, "plain/plain.cl", OPTIONS, "plain", &kernel), CLATTN_OK);
    ck_assert_int_eq(builds, 1);
    clattn_context_destroy(context);
    ck_assert_int_eq(null_driver_bad_binaries(), 0);
    snprintf(command, sizeof(command), "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
    setenv("CLATTN_CACHE", "off", 1);
}
END_TEST

START_TEST(refused)
{
    clattn_context *context = open_null();
    struct kernel *kernel;
    refuse_from = 2;
    ck_assert_int_ne(program_kernel(context, "plain/plain.cl", OPTIONS, "plain", &kernel), CLATTN_OK);
    const char *said = clattn_last_error();
    ck_assert_msg(strstr(said, "cl/plain/plain.cl with options \"" OPTIONS "\", second build: " LOG) != NULL, "%s",
                  said);
    ck_assert_msg(strstr(said, "that line: second;") != NULL, "%s", said);
    refuse_from = 1;
    ck_assert_int_ne(program_kernel(context, "plain/plain.cl", OPTIONS, "plain", &kernel), CLATTN_OK);
    ck_assert_ptr_null(strstr(clattn_last_error(), "second build"));
    refuse_from = 0;
    ck_assert_int_ne(program_kernel(context, "plain/plain.cl", "-D SECOND_BUILD=sm_100a", "plain", &kernel), CLATTN_OK);
    ck_assert_msg(strstr(clattn_last_error(), "no PTX for sm_100") != NULL, "%s", clattn_last_error());
    clattn_context_destroy(context);
}
END_TEST

int main(void)
{
    const suite_test tests[] = { built_twice, kept_on_disk, refused };
    setenv("CLATTN_CACHE", "off", 1);
    setenv("CLATTN_SELF_CHECK", "off", 1);
    return suite_run("program second", tests, sizeof(tests) / sizeof(tests[0]));
}
