/* Marks of a process: its children by fork do not have them, however they were made; its threads do. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process_mark.h"

#include "suite.h"

/* As fork does, but no handler of pthread_atfork hears of it. */
static pid_t quiet_fork(void)
{
#ifdef SYS_fork
    return (pid_t)syscall(SYS_fork);
#else
    return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
#endif
}

static void expect_not_in_child(const struct process_mark *mark, pid_t (*make_child)(void))
{
    int state = 0;
    const pid_t child = make_child();
    if (child == 0) {
        _exit(process_mark_is_here(mark));
    }
    ck_assert_int_eq(waitpid(child, &state, 0), child);
    ck_assert(WIFEXITED(state) && WEXITSTATUS(state) == 0);
    ck_assert(process_mark_is_here(mark));
}

static void *asked_by_a_thread(void *mark)
{
    return process_mark_is_here(mark) ? mark : NULL;
}

static void expect_of_this_process(struct process_mark *mark)
{
    pthread_t thread;
    void *answer = NULL;
    expect_not_in_child(mark, fork);
    expect_not_in_child(mark, quiet_fork);
    ck_assert_int_eq(pthread_create(&thread, NULL, asked_by_a_thread, mark), 0);
    pthread_join(thread, &answer);
    ck_assert_ptr_eq(answer, mark);
}

START_TEST(test_of_the_process)
{
    struct process_mark mark;
    process_mark_set(&mark);
    expect_of_this_process(&mark);
    process_mark_clear(&mark);
    process_mark_clear(&mark);
}
END_TEST

/* Where the kernel clears no page. */
START_TEST(test_by_its_number)
{
    struct process_mark mark;
    process_mark_set(&mark);
    process_mark_clear(&mark);
    expect_of_this_process(&mark);
}
END_TEST

/* A mark that a child sets is its own. */
START_TEST(test_of_a_child)
{
    struct process_mark mark;
    process_mark_set(&mark);
    int state = 0;
    const pid_t child = fork();
    if (child == 0) {
        process_mark_clear(&mark);
        process_mark_set(&mark);
        const int is_here = process_mark_is_here(&mark);
        process_mark_clear(&mark);
        _exit(is_here);
    }
    ck_assert_int_eq(waitpid(child, &state, 0), child);
    ck_assert(WIFEXITED(state) && WEXITSTATUS(state) == 1);
    process_mark_clear(&mark);
}
END_TEST

SUITE("process_mark", test_of_the_process, test_by_its_number, test_of_a_child)
