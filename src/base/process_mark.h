/* Tells a process from its children by fork, which are given a copy of its memory. */
#ifndef CLATTN_SRC_PROCESS_MARK_H
#define CLATTN_SRC_PROCESS_MARK_H

struct process_mark {
    long pid;
    const volatile int *page; /* 1 here, 0 in a child: the kernel clears it there; NULL: the pid is asked for */
};

/* Marks the process that calls it. */
void process_mark_set(struct process_mark *mark);

/* Whether the process that set the mark calls it. Reads a number, where getpid would take as long as many checks of a
 * call together. */
int process_mark_is_here(const struct process_mark *mark);

/* Gives back what the mark holds, in a child too. */
void process_mark_clear(struct process_mark *mark);

#endif
