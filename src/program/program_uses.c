/* Which kernels a plan takes. */
#include "program/program_uses.h"

static _Thread_local struct program_uses *current;

struct program_uses *program_uses_begin(struct program_uses *uses)
{
    struct program_uses *before = current;
    current = uses;
    return before;
}

void program_uses_add(const struct program_key *program, const char *name)
{
    if (current) {
        char digest[PROGRAM_FILE_NAME_BYTES];
        program_file_name(program, digest);
        text_append(&current->kernels, "%s %s\n", digest, name);
    }
}

void program_uses_refuse(void)
{
    if (current) {
        current->refused = 1;
    }
}

void program_uses_pay(double compile_ms, int programs)
{
    if (current) {
        current->programs += (uint64_t)programs;
        current->compile_ms += compile_ms;
    }
}
