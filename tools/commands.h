/* The subcommands, one file each, and the table of them. */
#ifndef CLATTN_TOOLS_COMMANDS_H
#define CLATTN_TOOLS_COMMANDS_H

#include "options.h"

extern const struct command command_devices, command_run, command_grad, command_explain, command_bench;
extern const struct command command_mha, command_lesson, command_compile, command_tune, command_report;
extern const struct command command_completions, command_selfcheck, command_quantise, command_ring;

struct command_row {
    const struct command *command;
    const char *brief; /* for the help, one line */
};
extern const struct command_row command_table[];
extern const size_t command_count;

#endif
