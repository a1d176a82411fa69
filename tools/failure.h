/* What went wrong, on its way from where it was noticed to main, and the exit status that it means. */
#ifndef CLATTN_TOOLS_FAILURE_H
#define CLATTN_TOOLS_FAILURE_H

enum {
    EXIT_GOOD = 0,
    EXIT_FAILED = 1, /* the device, the computation or a check failed */
    EXIT_MISUSE = 2  /* bad options, bad files, bad environment */
};

#if defined(__MINGW32__) /* its own printf, which knows %zu, not that of Windows */
#define FAILURE_PRINTF(text, first) __attribute__((format(gnu_printf, text, first)))
#elif defined(__GNUC__)
#define FAILURE_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define FAILURE_PRINTF(text, first)
#endif

struct failure {
    int status;      /* EXIT_FAILED or EXIT_MISUSE */
    char text[2048]; /* "FIELD VALUE: rule; what to do" */
};

/* Records a failure and returns -1, so that callers write `return failure_misuse(...)`. Control characters, line breaks
 * and malformed UTF-8, which names in files may have brought in, become '?'. */
int failure_misuse(struct failure *failure, const char *format, ...) FAILURE_PRINTF(2, 3);
int failure_failed(struct failure *failure, const char *format, ...) FAILURE_PRINTF(2, 3);

/* What the static analyzer (tests/analyze) does not see in a header: they return -1, whatever they record. */
#ifdef __clang_analyzer__
#define failure_misuse(...) (failure_misuse(__VA_ARGS__), -1)
#define failure_failed(...) (failure_failed(__VA_ARGS__), -1)
#endif

/* A message of the library, whose own line breaks stay: build logs and lists of devices. */
int failure_of_library(struct failure *failure, int status, const char *text);

/* Prints "clattn COMMAND: text" to stderr and returns the exit status. `command` NULL: "clattn: text". */
int failure_report(const struct failure *failure, const char *command);

#endif
