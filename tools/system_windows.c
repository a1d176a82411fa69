/* Windows 10 or later. Its functions whose names end in A take UTF-8: clattn.manifest says that this program does. */
#include "system.h"

#include <direct.h>
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#define STREAMS 3
#define OUTPUT 1

static HANDLE handle_of(int descriptor)
{
    return (HANDLE)_get_osfhandle(descriptor);
}

/* ---- the console ---- */

/* What the console was before, for when this process ends. */
static struct {
    int is_console;
    DWORD mode;
} streams[STREAMS];
static UINT code_page;

static void restore_console(void)
{
    for (int i = OUTPUT; i < STREAMS; i++) {
        if (streams[i].is_console) {
            SetConsoleMode(handle_of(i), streams[i].mode);
        }
    }
    if (code_page) {
        SetConsoleOutputCP(code_page);
    }
}

static void end_console(void)
{
    fflush(NULL); /* as UTF-8 */
    restore_console();
}

void system_begin(void)
{
    FILE *const files[STREAMS] = { stdin, stdout, stderr };
    int any = 0;
    for (int i = 0; i < STREAMS; i++) {
        _setmode(i, _O_BINARY);
        streams[i].is_console = GetConsoleMode(handle_of(i), &streams[i].mode) != 0;
        if (i >= OUTPUT && streams[i].is_console) {
            SetConsoleMode(handle_of(i), streams[i].mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
            setvbuf(files[i], NULL, _IOFBF, BUFSIZ); /* halves of a character would be shown as such */
            any = 1;
        }
    }
    if (any) {
        code_page = GetConsoleOutputCP();
        SetConsoleOutputCP(CP_UTF8);
        atexit(end_console);
    }
}

int system_is_terminal(int descriptor)
{
    DWORD mode; /* _isatty takes NUL for one */
    return GetConsoleMode(handle_of(descriptor), &mode) != 0;
}

int system_terminal_columns(int descriptor)
{
    CONSOLE_SCREEN_BUFFER_INFO about;
    return GetConsoleScreenBufferInfo(handle_of(descriptor), &about) ? about.srWindow.Right - about.srWindow.Left + 1
                                                                     : 0;
}

int system_terminal_has_colours(void)
{
    const char *terminal = getenv("TERM");
    DWORD mode;
    return GetConsoleMode(handle_of(OUTPUT), &mode) && mode & ENABLE_VIRTUAL_TERMINAL_PROCESSING &&
           !(terminal && strcmp(terminal, "dumb") == 0);
}

int system_speaks_utf8(void)
{
    return GetACP() == CP_UTF8;
}

static _Atomic(int (*)(void)) heed_interrupt;

/* Runs in a thread of its own. TRUE: the process goes on. */
static BOOL WINAPI at_interrupt(DWORD event)
{
    if (event != CTRL_C_EVENT && event != CTRL_BREAK_EVENT) {
        return FALSE;
    }
    int (*heed)(void) = atomic_exchange(&heed_interrupt, NULL);
    if (heed && heed()) {
        return TRUE;
    }
    restore_console();
    return FALSE;
}

void system_at_interrupt(int (*heed)(void))
{
    static int is_set;
    atomic_store(&heed_interrupt, heed);
    if (!is_set) {
        is_set = SetConsoleCtrlHandler(at_interrupt, TRUE) != 0;
    }
}

int system_ignores_interrupts(void)
{
    return 0; /* who does so has no handlers called */
}

/* ---- the process and its machine ---- */

void system_set_variable(const char *name, const char *value)
{
    _putenv_s(name, value ? value : "");
}

double system_memory_bytes(void)
{
    MEMORYSTATUSEX memory = { .dwLength = sizeof memory };
    return GlobalMemoryStatusEx(&memory) ? (double)memory.ullTotalPhys : 0;
}

void system_name(char name[SYSTEM_NAME_BYTES])
{
    OSVERSIONINFOA version = { .dwOSVersionInfoSize = sizeof version };
    SYSTEM_INFO machine;
    GetNativeSystemInfo(&machine);
    const char *processor = machine.wProcessorArchitecture == PROCESSOR_ARCHITECTURE_AMD64   ? "x86_64"
                            : machine.wProcessorArchitecture == PROCESSOR_ARCHITECTURE_ARM64 ? "aarch64"
                                                                                             : "another processor";
    if (GetVersionExA(&version)) {
        snprintf(name, SYSTEM_NAME_BYTES, "Windows %lu.%lu.%lu %s", version.dwMajorVersion, version.dwMinorVersion,
                 version.dwBuildNumber, processor);
    } else {
        snprintf(name, SYSTEM_NAME_BYTES, "Windows %s", processor);
    }
}

/* ---- files ---- */

int system_open(const char *path)
{
    const DWORD attributes = GetFileAttributesA(path);
    if (attributes != INVALID_FILE_ATTRIBUTES && attributes & FILE_ATTRIBUTE_DIRECTORY) {
        errno = EISDIR;
        return -1;
    }
    return _open(path, _O_RDONLY | _O_BINARY | _O_NOINHERIT);
}

ssize_t system_read(int descriptor, void *data, size_t bytes)
{
    return _read(descriptor, data, (unsigned)bytes);
}

/* One thread at a time, as the command reads. */
ssize_t system_read_at(int descriptor, void *data, size_t bytes, uint64_t position)
{
    const __int64 before = _lseeki64(descriptor, 0, SEEK_CUR);
    if (before < 0 || _lseeki64(descriptor, (__int64)position, SEEK_SET) < 0) {
        return -1;
    }
    const ssize_t got = _read(descriptor, data, (unsigned)bytes);
    const int error = errno;
    _lseeki64(descriptor, before, SEEK_SET);
    errno = error;
    return got;
}

ssize_t system_write(int descriptor, const void *data, size_t bytes)
{
    return _write(descriptor, data, (unsigned)bytes);
}

int system_own_descriptor(int descriptor)
{
    int own = _dup(descriptor);
    if (own >= 0 && own < STREAMS) {
        const int higher = system_own_descriptor(descriptor);
        _close(own);
        own = higher;
    }
    if (own >= 0) {
        SetHandleInformation(handle_of(own), HANDLE_FLAG_INHERIT, 0);
    }
    return own;
}

const char *system_temporary_folder(const char **variable)
{
    static char folder[MAX_PATH + 2];
    *variable = "TMP";
    return GetTempPathA(sizeof folder, folder) ? folder : ".";
}

FILE *system_nameless_file(void)
{
    char name[MAX_PATH + 2];
    const char *variable;
    if (!GetTempFileNameA(system_temporary_folder(&variable), "cla", 0, name)) {
        errno = EACCES;
        return NULL;
    }
    const int descriptor = _open(name, _O_RDWR | _O_BINARY | _O_NOINHERIT | _O_TEMPORARY);
    FILE *file = descriptor >= 0 ? _fdopen(descriptor, "w+b") : NULL;
    if (descriptor >= 0 && !file) {
        _close(descriptor);
    } else if (descriptor < 0) {
        const int error = errno;
        DeleteFileA(name);
        errno = error;
    }
    return file;
}

int system_make_folder(const char *path)
{
    return _mkdir(path);
}
