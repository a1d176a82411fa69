/* A page that Linux clears in children (MADV_WIPEONFORK, 4.14 and later); elsewhere the number of the process. */
#define _GNU_SOURCE
#include "base/process_mark.h"

#include <unistd.h>

#ifdef __linux__
#include <sys/mman.h>
#endif

#ifdef MADV_WIPEONFORK
#define MARK_BYTES sizeof(int) /* of a page: the kernel rounds up to it */

/* Some emulators of Linux (qemu-user) say yes to advice that nobody knows, and do nothing. */
static int is_cleared_in_children(void *page)
{
    return madvise(page, MARK_BYTES, -1) != 0 && madvise(page, MARK_BYTES, MADV_WIPEONFORK) == 0;
}

static int *cleared_page(void)
{
    void *page = mmap(NULL, MARK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        return NULL;
    }
    if (!is_cleared_in_children(page)) {
        munmap(page, MARK_BYTES);
        return NULL;
    }
    *(int *)page = 1;
    return page;
}

void process_mark_set(struct process_mark *mark)
{
    mark->pid = (long)getpid();
    mark->page = cleared_page();
}

void process_mark_clear(struct process_mark *mark)
{
    if (mark->page) {
        munmap((void *)mark->page, MARK_BYTES);
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
