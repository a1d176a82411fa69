/* What planning asks of a device through the library's own parts, answered without one: CLBlast is there, and the
 * ladder has the rungs that null_devices.c says, or all. Linked with --wrap=gemm_is_built,--wrap=gemm_prepare,
 * --wrap=ladder_has. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "null_driver.h"
#include "plan/ladder.h"
#include "program/context.h"
#include "program/gemm.h"

static int has_all_rungs;

void null_library_has_all_rungs(int all)
{
    has_all_rungs = all;
}

const struct null_device *null_device_named(const char *target)
{
    for (size_t i = 0; i < null_device_count; ++i) {
        if (strcmp(null_devices[i].target, target) == 0) {
            return &null_devices[i];
        }
    }
    fprintf(stderr, "no target %s in null_devices.c\n", target);
    exit(2);
}

clattn_context *null_context_open(const char *target)
{
    clattn_context *context;
    null_driver_use(null_device_named(target));
    if (clattn_context_open(NULL, NULL, &context) != CLATTN_OK) {
        fprintf(stderr, "%s: %s\n", target, clattn_last_error());
        exit(1);
    }
    return context;
}

int __wrap_gemm_is_built(void);
int __wrap_gemm_is_built(void)
{
    return 1;
}

/* CLBlast would compile for the device; that it can is all that planning asks. */
clattn_status __wrap_gemm_prepare(clattn_context *context, clattn_type type, const char **declines);
clattn_status __wrap_gemm_prepare(clattn_context *context, clattn_type type, const char **declines)
{
    (void)context;
    (void)type;
    (void)declines;
    return CLATTN_OK;
}

int null_list_names(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = list; (at = strstr(at, name)) != NULL; at += length) {
        if ((at == list || at[-1] == ' ') && (at[length] == ' ' || at[length] == 0)) {
            return 1;
        }
    }
    return 0;
}

/* No probe can run. */
int __wrap_ladder_has(struct ask *ask, enum rung_id id, struct text *why);
int __wrap_ladder_has(struct ask *ask, enum rung_id id, struct text *why)
{
    (void)ask;
    (void)why;
    return has_all_rungs || null_list_names(null_driver_device()->rungs, ladder_table[id].name);
}
