/* All commands, as the help lists them. */
#include "commands.h"

const struct command_row command_table[] = {
    { &command_run, "compute attention of a file, check it, draw it" },
    { &command_grad, "compute the gradients of attention of a file, check them" },
    { &command_mha, "compute a whole multi-head layer of a file, projections included" },
    { &command_quantise, "turn numbers of a file into codes as caches hold them, and back" },
    { &command_lesson, "an experiment on attention: measured, told, drawn" },
    { &command_devices, "list the devices, and which one is taken" },
    { &command_explain, "tell how a problem would be computed" },
    { &command_ring, "tell what each of several ranks has, computes and sends" },
    { &command_bench, "measure time, speed and error of shapes" },
    { &command_compile, "write the compiled programs of a problem, for CLATTN_BINARY_DIR" },
    { &command_tune, "measure which tiles are the fastest here, for later plans" },
    { &command_report, "write down what this machine makes of clattn, to send in" },
    { &command_selfcheck, "try known answers of every strategy's programs" },
    { &command_completions, "print what a shell needs to complete clattn's words" },
};
const size_t command_count = sizeof command_table / sizeof *command_table;
