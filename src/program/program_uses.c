/* Which kernels a plan takes. */
#include "program/program_uses.h"

void program_uses_add(struct program_uses *uses, const struct program_key *program, const char *name)
{
    if (uses) {
        char digest[PROGRAM_FILE_NAME_BYTES];
        program_file_name(program, digest);
        text_append(&uses->kernels, "%s %s\n", digest, name);
    }
}

void program_uses_refuse(struct program_uses *uses)
{
    if (uses) {
        uses->refused = 1;
    }
}

void program_uses_pay(struct program_uses *uses, double compile_ms)
{
    if (uses) {
        ++uses->programs;
        uses->compile_ms += compile_ms;
    }
}
