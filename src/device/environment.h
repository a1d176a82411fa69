/* The environment variables that clattn reads, all of them. Read once, when a context is made. */
#ifndef CLATTN_SRC_ENVIRONMENT_H
#define CLATTN_SRC_ENVIRONMENT_H

/* Each is NULL when not set; the device, which has no empty name, when it is empty too. */
const char *environment_device(void);         /* CLATTN_DEVICE */
const char *environment_kernel_dir(void);     /* CLATTN_CL_DIR; NULL also in set-user-id programs */
const char *environment_clblast_flags(void);  /* CLBLAST_BUILD_OPTIONS, which CLBlast itself reads */
const char *environment_intel_target(void);   /* CL_CONFIG_CPU_TARGET_ARCH, which Intel's runtimes themselves read */
const char *environment_pocl_cache_dir(void); /* POCL_CACHE_DIR, which PoCL itself reads */
const char *environment_cache(void);          /* CLATTN_CACHE */
const char *environment_cache_dir(void);      /* CLATTN_CACHE_DIR */
const char *environment_binary_dir(void);     /* CLATTN_BINARY_DIR; NULL also in set-user-id programs */
const char *environment_self_check(void);     /* CLATTN_SELF_CHECK; NULL also in set-user-id programs */
const char *environment_wisdom_dir(void);     /* CLATTN_WISDOM_DIR; NULL also in set-user-id programs */
const char *environment_user_cache_dir(void); /* XDG_CACHE_HOME */
const char *environment_user_state_dir(void); /* XDG_STATE_HOME */
const char *environment_home_dir(void);       /* HOME */

/* Whether another user may have set them: the effective user or group is not the real one. */
int environment_is_foreign(void);

#endif
