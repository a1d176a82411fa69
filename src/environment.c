/* The environment variables that clattn reads, all of them. */
#include "environment.h"

#include <stdlib.h>
#include <unistd.h>

const char *environment_device(void)
{
    return getenv("CLATTN_DEVICE");
}

const char *environment_kernel_dir(void)
{
    /* Code from a folder that another user names is not compiled with this user's rights. */
    if (geteuid() != getuid() || getegid() != getgid()) {
        return NULL;
    }
    return getenv("CLATTN_CL_DIR");
}

const char *environment_clblast_flags(void)
{
    return getenv("CLBLAST_BUILD_OPTIONS");
}
