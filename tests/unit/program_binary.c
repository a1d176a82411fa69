/* The binaries of programs in a cl_context of several devices, of which the driver tells all at once. The linker puts
 * the call below in the place of OpenCL's. */
#include "program/program_binary.h"

#include <string.h>

#include "suite.h"

#define DEVICES 3

static char device_objects[DEVICES + 1]; /* nobody looks into them */
#define DEVICE(i) ((cl_device_id)(void *)&device_objects[i])

static const char *const binaries[DEVICES] = { "first", "", "the third" };
static cl_program_info refused; /* a question that the driver does not answer; 0: none */

cl_int __wrap_clGetProgramInfo(cl_program program, cl_program_info what, size_t size, void *value, size_t *needed);

cl_int __wrap_clGetProgramInfo(cl_program program, cl_program_info what, size_t size, void *value, size_t *needed)
{
    (void)program;
    const size_t each = what == CL_PROGRAM_DEVICES        ? sizeof(cl_device_id)
                        : what == CL_PROGRAM_BINARY_SIZES ? sizeof(size_t)
                                                          : sizeof(unsigned char *);
    if (what == refused || size < DEVICES * each) {
        return CL_INVALID_VALUE;
    }
    if (needed) {
        *needed = DEVICES * each;
    }
    for (int i = 0; i < DEVICES; ++i) {
        unsigned char *to = what == CL_PROGRAM_BINARIES ? ((unsigned char **)value)[i] : NULL;
        if (what == CL_PROGRAM_DEVICES) {
            ((cl_device_id *)value)[i] = DEVICE(i);
        } else if (what == CL_PROGRAM_BINARY_SIZES) {
            ((size_t *)value)[i] = strlen(binaries[i]);
        } else if (to) {
            memcpy(to, binaries[i], strlen(binaries[i]));
        }
    }
    return CL_SUCCESS;
}

START_TEST(test_each_device)
{
    for (int i = 0; i <= DEVICES; ++i) {
        const size_t expected = i < DEVICES ? strlen(binaries[i]) : 0;
        size_t bytes = 0;
        unsigned char *binary = program_binary(NULL, DEVICE(i), &bytes);
        ck_assert_uint_eq(program_binary_bytes(NULL, DEVICE(i)), expected);
        ck_assert_int_eq(binary != NULL, expected > 0);
        ck_assert_uint_eq(bytes, expected);
        ck_assert(!binary || memcmp(binary, binaries[i], bytes) == 0);
        free(binary);
    }
}
END_TEST

START_TEST(test_no_answer)
{
    static const cl_program_info questions[] = { CL_PROGRAM_DEVICES, CL_PROGRAM_BINARY_SIZES, CL_PROGRAM_BINARIES };
    for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); ++i) {
        size_t bytes = 0;
        refused = questions[i];
        ck_assert_ptr_null(program_binary(NULL, DEVICE(0), &bytes));
        ck_assert_uint_eq(program_binary_bytes(NULL, DEVICE(0)), refused == CL_PROGRAM_BINARIES ? 5 : 0);
    }
    refused = 0;
}
END_TEST

SUITE("program binaries", test_each_device, test_no_answer)
