/* A page that Linux clears in children (MADV_WIPEONFORK, 4.14 and later); elsewhere the number of the process. */
#define _GNU_SOURCE
#include "base/process_mark.h"

#include <unistd.h>

#ifdef __linux__
#include <sys/mman.h>
#endif

#ifdef MADV_WIPEONFORK
/* Some emulators of Linux (qemu-user) say yes to advice that nobody knows, and do nothing. */
static int is_cleared_in_children(void *page, size_t bytes)
{
    return madvise(page, bytes, -1) != 0 && madvise(page, bytes, MADV_WIPEONFORK) == 0;
}

static int *cleared_page(size_t bytes)
{
    void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        return NULL;
    }
    if (!is_cleared_in_children(page, bytes)) {
        munmap(page, bytes);
        return NULL;
    }
    *(int *)page = 1;
    return page;
}

void process_mark_set(struct process_mark *mark)
{
    mark->pid = (long)getpid();
    mark->bytes = (size_t)sysconf(_SC_PAGESIZE);
    mark->page = cleared_page(mark->bytes);
}

void process_mark_clear(struct process_mark *mark)
{
    if (mark->page) {
        munmap((void *)mark->page, mark->bytes);
        mark->page = NULL;
    }
}
#else
void process_mark_set(struct process_mark *mark)
{
    *mark = (struct process_mark){ .pid = (long)getpid() };
}

void process_mark_clear(struct process_mark *mark)
{
    (void)mark;
}
#endif

int process_mark_is_here(const struct process_mark *mark)
{
    return mark->page ? *mark->page != 0 : mark->pid == (long)getpid();
}
