/* The subcommands, one file each. */
#ifndef CLATTN_TOOLS_COMMANDS_H
#define CLATTN_TOOLS_COMMANDS_H

#include "options.h"

extern const struct command command_devices, command_run, command_explain, command_bench;
extern const struct command command_mha, command_lesson, command_compile, command_tune, command_report;

#endif
