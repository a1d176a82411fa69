/* The command clattn: finds the subcommand, reports its failure, returns the exit status. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "clattn.h"
#include "commands.h"

static const struct command *const commands[] = { &command_run,     &command_mha,     &command_lesson,
                                                  &command_devices, &command_explain, &command_bench,
                                                  &command_compile, &command_tune,    &command_report };
#define COMMAND_NAMES "run, mha, lesson, devices, explain, bench, compile, tune, report"
enum { COMMANDS = sizeof commands / sizeof *commands };

static void print_help(void)
{
    printf("usage: clattn COMMAND [OPTION]...\n"
           "Attention, softmax(Q K^T / sqrt(d)) V, on any OpenCL device.\n\n"
           "  run      compute attention of a file, check it, draw it\n"
           "  mha      compute a whole multi-head layer of a file, projections included\n"
           "  lesson   an experiment on attention: measured, told, drawn\n"
           "  devices  list the devices, and which one is taken\n"
           "  explain  tell how a problem would be computed\n"
           "  bench    measure time, speed and error of shapes\n"
           "  compile  write the compiled programs of a problem, for CLATTN_BINARY_DIR\n"
           "  tune     measure which tiles are the fastest here, and keep that for later plans\n"
           "  report   write down what this machine makes of clattn, in a file to send in\n\n"
           "  --help     this text; of a command: clattn run --help\n"
           "  --version\n\n"
           "CLATTN_DEVICE names the device: gpu, cpu, accelerator, PLATFORM:DEVICE or part of a name.\n"
           "Exit status: 0 good, 1 the device, the computation or a check failed, 2 bad options or "
           "input.\n");
}

static int run(int argc, char **argv, struct failure *failure, const char **name)
{
    const char *word = argc > 1 ? argv[1] : NULL;
    if (!word) {
        return failure_misuse(failure, "COMMAND: is missing; one of " COMMAND_NAMES "; see clattn --help");
    }
    for (int i = 0; i < COMMANDS; i++) {
        if (strcmp(word, commands[i]->name) == 0) {
            struct options options;
            int result = options_parse(commands[i], argc - 2, argv + 2, &options, failure);
            *name = commands[i]->name;
            if (result == 0) {
                result = commands[i]->run(&options, failure);
            }
            return result < 0 ? -1 : 0;
        }
    }
    if (strcmp(word, "--help") != 0 && strcmp(word, "-h") != 0 && strcmp(word, "--version") != 0) {
        return failure_misuse(failure, "%s: is not a command; one of " COMMAND_NAMES "; see clattn --help", word);
    }
    if (argc > 2) {
        return failure_misuse(failure, "%s: nothing may follow %s", argv[2], word);
    }
    if (strcmp(word, "--version") == 0) {
        printf("clattn %s\n", clattn_version());
    } else {
        print_help();
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct failure failure = { EXIT_GOOD, "" };
    const char *name = NULL;
    int status = EXIT_GOOD;
    if (run(argc, argv, &failure, &name) != 0) {
        fflush(stdout);
        status = failure_report(&failure, name);
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "clattn: standard output: cannot write: %s\n", strerror(errno));
        if (status == EXIT_GOOD) {
            status = EXIT_FAILED;
        }
    }
    return status;
}
