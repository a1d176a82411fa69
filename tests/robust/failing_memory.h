/* Memory that runs out on request. The program that links failing_memory.c with
 * --wrap=malloc, calloc, realloc and strdup (tests/robust/local.mk) gives it to everything that it links
 * statically, which is the library; drivers and CLBlast keep their own. */
#ifndef CLATTN_TESTS_ROBUST_FAILING_MEMORY_H
#define CLATTN_TESTS_ROBUST_FAILING_MEMORY_H

/* Counts allocations from now on; number `fail_at` fails (0: none). */
void failing_memory_start(long fail_at);
/* Number `at` fails too, until the next start. */
void failing_memory_also(long at);
/* Stops; 1 when one was failed. */
int failing_memory_stop(void);

#endif
