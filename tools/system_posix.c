#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE
#define _FILE_OFFSET_BITS 64
#include "system.h"

#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

/* ---- the process and its machine ---- */

void system_begin(void)
{
}

void system_set_variable(const char *name, const char *value)
{
    if (value) {
        setenv(name, value, 1);
    } else {
        unsetenv(name);
    }
}

double system_memory_bytes(void)
{
#ifdef _SC_PHYS_PAGES
    return (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
#else
    return 0;
#endif
}

void system_name(char name[SYSTEM_NAME_BYTES])
{
    struct utsname system;
    if (uname(&system) == 0) {
        snprintf(name, SYSTEM_NAME_BYTES, "%s %s %s", system.sysname, system.release, system.machine);
    } else {
        snprintf(name, SYSTEM_NAME_BYTES, "an unknown system");
    }
}

/* ---- the terminal ---- */

int system_is_terminal(int descriptor)
{
    return isatty(descriptor);
}

int system_terminal_columns(int descriptor)
{
    struct winsize size;
    return isatty(descriptor) && ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

int system_terminal_has_colours(void)
{
    const char *terminal = getenv("TERM");
    return terminal && strcmp(terminal, "dumb") != 0;
}

int system_speaks_utf8(void)
{
    setlocale(LC_CTYPE, "");
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

static int (*heed_interrupt)(void);

static void at_interrupt(int signal_number)
{
    if (!heed_interrupt()) {
        raise(signal_number); /* SA_RESETHAND: the end, once this handler returns */
    }
}

void system_at_interrupt(int (*heed)(void))
{
    struct sigaction action;
    heed_interrupt = heed;
    memset(&action, 0, sizeof action);
    action.sa_handler = at_interrupt;
    action.sa_flags = (int)(SA_RESTART | SA_RESETHAND);
    sigaction(SIGINT, &action, NULL);
}

int system_ignores_interrupts(void)
{
    struct sigaction action;
    return sigaction(SIGINT, NULL, &action) != 0 || action.sa_handler == SIG_IGN;
}

/* ---- files ---- */

int system_open(const char *path)
{
    /* O_NONBLOCK: opening a pipe that nobody writes to must not wait. */
    return open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
}

ssize_t system_read(int descriptor, void *data, size_t bytes)
{
    return read(descriptor, data, bytes);
}

ssize_t system_read_at(int descriptor, void *data, size_t bytes, uint64_t position)
{
    return pread(descriptor, data, bytes, (off_t)position);
}

ssize_t system_write(int descriptor, const void *data, size_t bytes)
{
    return write(descriptor, data, bytes);
}

int system_own_descriptor(int descriptor)
{
    return fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
}

const char *system_temporary_folder(const char **variable)
{
    const char *named = getenv("TMPDIR");
    *variable = "TMPDIR";
    return named && named[0] ? named : P_tmpdir;
}

FILE *system_nameless_file(void)
{
    char name[4096];
    const char *variable;
    if (snprintf(name, sizeof name, "%s/clattn-XXXXXX", system_temporary_folder(&variable)) >= (int)sizeof name) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    const int descriptor = mkstemp(name);
    if (descriptor < 0) {
        return NULL;
    }
    unlink(name);
    FILE *file = fdopen(descriptor, "w+b");
    if (!file) {
        close(descriptor);
    }
    return file;
}

int system_make_folder(const char *path)
{
    return mkdir(path, 0777);
}
