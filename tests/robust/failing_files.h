/* File operations that fail on request. The program that links failing_files.c with its --wrap list (local.mk)
 * gives them to everything that it links statically, which is the library and the command. One thread. */
#ifndef CLATTN_TESTS_ROBUST_FAILING_FILES_H
#define CLATTN_TESTS_ROBUST_FAILING_FILES_H

#define FAILING_FILES_KILLED 99 /* the exit status of a process that a fault ends */

enum failing_files_kind {
    FILES_FAIL,         /* the operation fails with `error` */
    FILES_FAIL_ON,      /* so do all that follow: a disk that is full, or gone */
    FILES_SHORT,        /* a read or write takes half of the bytes; only these are counted */
    FILES_KILL_BEFORE,  /* the process ends */
    FILES_KILL_BETWEEN, /* the same after half of a write, or after any other operation */
};

struct failing_files_fault {
    const char *name;
    enum failing_files_kind kind;
    int error;
};

/* Counts operations from now on; number `fail_at` is that fault. */
void failing_files_start(const struct failing_files_fault *fault, long fail_at);
/* Stops; 1 when it struck. */
int failing_files_stop(void);
/* The name of the operation that it struck. */
const char *failing_files_struck(void);

#endif
