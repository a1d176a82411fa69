/* The environment variables that clattn reads, all of them. Read once, when a context is made. */
#ifndef CLATTN_SRC_ENVIRONMENT_H
#define CLATTN_SRC_ENVIRONMENT_H

/* Each is NULL when not set. */
const char *environment_device(void);        /* CLATTN_DEVICE */
const char *environment_kernel_dir(void);    /* CLATTN_CL_DIR; NULL also in set-user-id programs */
const char *environment_clblast_flags(void); /* CLBLAST_BUILD_OPTIONS, which CLBlast itself reads */

#endif
