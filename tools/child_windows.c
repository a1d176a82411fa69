#include "child.h"

#include <stdio.h>
#include <stdlib.h>

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include "progress.h"
#include "system.h"

#define PATH_BYTES 4096
#define LOOK_MS 10      /* between two looks into a pipe, whose readers cannot wait for a time */
#define STATUS_MOST 255 /* of a program that ended itself */

static int cannot(const char *what, struct failure *failure)
{
    return failure_failed(failure, "%s: error %lu of Windows", what, GetLastError());
}

int child_check(struct failure *failure)
{
    char program[PATH_BYTES];
    const DWORD length = GetModuleFileNameA(NULL, program, sizeof program);
    return length > 0 && length < sizeof program
               ? 0
               : cannot("the name of this program, by which it runs itself again", failure);
}

/* This program, its output and errors in the pipe. */
static int start(const char *words, HANDLE output, PROCESS_INFORMATION *process)
{
    char program[PATH_BYTES], line[300];
    STARTUPINFOA how = { .cb = sizeof how, .dwFlags = STARTF_USESTDHANDLES };
    how.hStdInput = GetStdHandle(STD_INPUT_HANDLE);
    how.hStdOutput = how.hStdError = output;
    GetModuleFileNameA(NULL, program, sizeof program);
    snprintf(line, sizeof line, "clattn %s", words);
    SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX); /* its death opens no window */
    return CreateProcessA(program, line, NULL, NULL, TRUE, 0, NULL, NULL, &how, process) != 0;
}

/* Its environment is this process's at its start. */
static int start_on(const char *device, const char *words, HANDLE output, PROCESS_INFORMATION *process)
{
    const char *named = getenv("CLATTN_DEVICE");
    char *before = named ? _strdup(named) : NULL;
    if (device) {
        system_set_variable("CLATTN_DEVICE", device);
    }
    const int is_started = start(words, output, process);
    if (device) {
        system_set_variable("CLATTN_DEVICE", before);
    }
    free(before);
    return is_started;
}

int child_start(struct child *child, const char *words, const char *device, struct failure *failure)
{
    SECURITY_ATTRIBUTES inherited = { sizeof inherited, NULL, TRUE };
    PROCESS_INFORMATION process;
    HANDLE from, to;
    if (!CreatePipe(&from, &to, &inherited, 0)) {
        return cannot("a pipe", failure);
    }
    SetHandleInformation(from, HANDLE_FLAG_INHERIT, 0);
    const int result = start_on(device, words, to, &process) ? 0 : cannot("to run this program again", failure);
    CloseHandle(to);
    if (result != 0) {
        CloseHandle(from);
        return -1;
    }
    CloseHandle(process.hThread);
    *child = (struct child){ (intptr_t)process.hProcess, (intptr_t)from };
    return 0;
}

ptrdiff_t child_read(const struct child *child, char *data, size_t bytes, double ends_at)
{
    const HANDLE output = (HANDLE)child->output;
    DWORD there = 0, got = 0;
    while (PeekNamedPipe(output, NULL, 0, NULL, &there, NULL)) {
        if (there > 0) {
            return ReadFile(output, data, (DWORD)bytes, &got, NULL) ? (ptrdiff_t)got : 0;
        }
        if (clock_seconds() >= ends_at) {
            return -1;
        }
        Sleep(LOOK_MS);
    }
    return 0; /* nobody writes to it any more */
}

void child_kill(const struct child *child)
{
    TerminateProcess((HANDLE)child->process, 1);
}

void child_end(const struct child *child, struct child_end *end)
{
    const HANDLE process = (HANDLE)child->process;
    DWORD status = 0;
    CloseHandle((HANDLE)child->output);
    WaitForSingleObject(process, INFINITE);
    GetExitCodeProcess(process, &status);
    CloseHandle(process);
    *end = (struct child_end){ status <= STATUS_MOST ? (int)status : -1, "" };
    if (status > STATUS_MOST) {
        snprintf(end->death, sizeof end->death, "exception 0x%lx", status);
    }
}

int child_become(const char *name, const char *command, char *const *words, struct failure *failure)
{
    (void)words;
    return failure_failed(failure, "%s: %s: ranks of MPI are not there on Windows", name, command);
}
