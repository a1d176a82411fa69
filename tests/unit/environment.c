/* Whose code runs with whose rights: a process with more rights than its user takes no folder from the environment. */
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/types.h>

#include "device/environment.h"

#include "suite.h"

/* What the process is told about itself; the linker puts these in the place of the C library's. */
static unsigned long secure;
static uid_t user = 1000, effective_user = 1000;
static gid_t group = 1000, effective_group = 1000;

unsigned long __wrap_getauxval(unsigned long type);
uid_t __wrap_getuid(void);
uid_t __wrap_geteuid(void);
gid_t __wrap_getgid(void);
gid_t __wrap_getegid(void);

unsigned long __wrap_getauxval(unsigned long type)
{
    return type == AT_SECURE ? secure : 0;
}

uid_t __wrap_getuid(void)
{
    return user;
}

uid_t __wrap_geteuid(void)
{
    return effective_user;
}

gid_t __wrap_getgid(void)
{
    return group;
}

gid_t __wrap_getegid(void)
{
    return effective_group;
}

static void expect_folders(int taken)
{
    ck_assert_int_eq(environment_is_foreign(), !taken);
    ck_assert_int_eq(environment_kernel_dir() != NULL, taken);
    ck_assert_int_eq(environment_binary_dir() != NULL, taken);
    ck_assert_int_eq(environment_cache_dir() != NULL, taken);
    ck_assert_int_eq(environment_self_check() != NULL, taken);
}

START_TEST(test_more_rights_than_the_user)
{
    setenv("CLATTN_CL_DIR", "/somewhere", 1);
    setenv("CLATTN_BINARY_DIR", "/somewhere", 1);
    setenv("CLATTN_CACHE_DIR", "/somewhere", 1);
    setenv("CLATTN_SELF_CHECK", "off", 1);
    expect_folders(1);
    effective_user = 0; /* set-user-ID */
    expect_folders(0);
    effective_user = user;
    effective_group = 0; /* set-group-ID */
    expect_folders(0);
    effective_group = group;
    secure = 1; /* file capabilities, or what a security module decides */
    expect_folders(0);
    secure = 0;
    expect_folders(1);
}
END_TEST

SUITE("environment", test_more_rights_than_the_user)
