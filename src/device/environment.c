/* The environment variables that clattn reads, all of them. */
#include "device/environment.h"

#include <stdlib.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/auxv.h>
#endif

const char *environment_device(void)
{
    const char *name = getenv("CLATTN_DEVICE");
    return name && name[0] ? name : NULL;
}

/* File capabilities, and what a security module says; only Linux tells. */
static int is_secured(void)
{
#if defined(__linux__)
    return getauxval(AT_SECURE) != 0;
#else
    return 0;
#endif
}

int environment_is_foreign(void)
{
#ifdef _WIN32 /* has no programs that run with another user's rights */
    return is_secured();
#else
    return is_secured() || geteuid() != getuid() || getegid() != getgid();
#endif
}

/* Code from a folder that another user names is not run with this user's rights, and nothing is written there. */
static const char *own_users(const char *variable)
{
    return environment_is_foreign() ? NULL : getenv(variable);
}

const char *environment_kernel_dir(void)
{
    return own_users("CLATTN_CL_DIR");
}

const char *environment_binary_dir(void)
{
    return own_users("CLATTN_BINARY_DIR");
}

const char *environment_cache(void)
{
    return getenv("CLATTN_CACHE");
}

const char *environment_cache_dir(void)
{
    return own_users("CLATTN_CACHE_DIR");
}

/* Whether this user's results are checked is not another's to say. */
const char *environment_self_check(void)
{
    return own_users("CLATTN_SELF_CHECK");
}

const char *environment_wisdom_dir(void)
{
    return own_users("CLATTN_WISDOM_DIR");
}

const char *environment_user_state_dir(void)
{
    return getenv("XDG_STATE_HOME");
}

const char *environment_user_cache_dir(void)
{
    return getenv("XDG_CACHE_HOME");
}

const char *environment_home_dir(void)
{
    return getenv("HOME");
}

const char *environment_clblast_flags(void)
{
    return getenv("CLBLAST_BUILD_OPTIONS");
}

const char *environment_pocl_cache_dir(void)
{
    return getenv("POCL_CACHE_DIR");
}

const char *environment_intel_target(void)
{
    return getenv("CL_CONFIG_CPU_TARGET_ARCH");
}
