/* The wrapped allocators. One thread. */
#include "failing_memory.h"

#include <stddef.h>
#include <string.h>

static long count, fail_at, fail_also_at;
static int is_on, has_failed;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
char *__wrap_strdup(const char *text);

void failing_memory_start(long at)
{
    count = has_failed = 0;
    fail_at = at;
    fail_also_at = 0;
    is_on = 1;
}

void failing_memory_also(long at)
{
    fail_also_at = at;
}

int failing_memory_stop(void)
{
    is_on = 0;
    return has_failed;
}

static int fails(void)
{
    const int now = is_on && (++count == fail_at || count == fail_also_at);
    has_failed |= now;
    return now;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t items, size_t size)
{
    return fails() ? NULL : __real_calloc(items, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return fails() ? NULL : __real_realloc(memory, size);
}

char *__wrap_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = fails() ? NULL : __real_malloc(size);
    return copy ? memcpy(copy, text, size) : NULL;
}
