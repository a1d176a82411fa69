/* The command clattn: finds the subcommand, reports its failure, returns the exit status. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "clattn.h"
#include "closest.h"
#include "commands.h"
#include "insides.h"
#include "plot.h"
#include "progress.h"
#include "system.h"

static void print_help(FILE *to)
{
    fprintf(to, "usage: clattn COMMAND [OPTION]...\n"
                "Attention, softmax(Q K^T / sqrt(d)) V, on any OpenCL device.\n\n");
    for (size_t i = 0; i < command_count; i++) {
        fprintf(to, "  %-12s %s\n", command_table[i].command->name, command_table[i].brief);
    }
    fprintf(to, "\n  help [COMMAND]  this text, or that of a command; also --help, -h\n"
                "  --version, -V\n\n"
                "CLATTN_DEVICE names the device: gpu, cpu, accelerator, PLATFORM:DEVICE or part\n"
                "of a name; or several, with + between them. Exit status: 0 good, 1 the device,\n"
                "the computation or a check failed, 2 bad options or input.\n");
}

static int is_either(const char *word, const char *name, const char *short_name)
{
    return strcmp(word, name) == 0 || strcmp(word, short_name) == 0;
}

/* Words of clattn itself that may stand where a command's name does. */
static const char *const own_words[] = { "help", "--help", "--version" };

/* A failure that says what there is, and what may have been meant. */
static const struct command *find(const char *word, struct failure *failure)
{
    struct closest closest;
    char names[256] = "", hint[CLOSEST_HINT];
    size_t used = 0;
    closest_begin(&closest, word, strlen(word));
    for (size_t i = 0; i < sizeof own_words / sizeof own_words[0]; i++) {
        closest_offer(&closest, own_words[i]);
    }
    for (size_t i = 0; i < command_count; i++) {
        const char *name = command_table[i].command->name;
        if (strcmp(word, name) == 0) {
            return command_table[i].command;
        }
        closest_offer(&closest, name);
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", name);
    }
    const int is_option = word[0] == '-';
    const char *is_not = is_option ? "an option of clattn" : "a command";
    if (closest_name(&closest)) {
        failure_misuse(failure, "%s: is not %s%s See clattn help", word, is_not, closest_hint(&closest, hint));
    } else {
        failure_misuse(failure, "%s: is not %s; one of %s; see clattn help", word, is_not,
                       is_option ? "--help, -h, --version, -V" : names);
    }
    return NULL;
}

static int help(int argc, char **argv, struct failure *failure)
{
    if (argc > 1) {
        return failure_misuse(failure, "%s: nothing may follow help COMMAND", argv[1]);
    }
    if (argc == 0) {
        print_help(stdout);
        return 0;
    }
    const struct command *command = find(argv[0], failure);
    if (!command) {
        return -1;
    }
    command_print_help(command);
    return 0;
}

static int run_command(const struct command *command, int argc, char **argv, struct failure *failure)
{
    struct options options;
    int result = options_parse(command, argc, argv, &options, failure);
    if (result == 0) {
        result = command->run(&options, failure);
    }
    return result < 0 ? -1 : 0;
}

static int run(int argc, char **argv, struct failure *failure, const char **name)
{
    const char *word = argc > 1 ? argv[1] : NULL;
    if (argc < 2) {
        print_help(stderr);
        return failure_misuse(failure, "COMMAND: is missing; give one of these");
    }
    if (!*word) {
        return failure_misuse(failure, "COMMAND: is missing; see clattn help");
    }
    if (strcmp(word, "help") == 0) {
        return help(argc - 2, argv + 2, failure);
    }
    const int is_version = is_either(word, "--version", "-V");
    if (is_version || is_either(word, "--help", "-h")) {
        if (argc > 2) {
            return failure_misuse(failure, "%s: nothing may follow %s", argv[2], word);
        }
        if (is_version) {
            printf("clattn %s%s%s\n", clattn_version(), gemm_is_built() ? "" : ", without CLBlast",
                   plot_is_built() ? "" : ", without pictures");
        } else {
            print_help(stdout);
        }
        return 0;
    }
    const struct command *command = find(word, failure);
    if (!command) {
        return -1;
    }
    *name = command->name;
    return run_command(command, argc - 2, argv + 2, failure);
}

int main(int argc, char **argv)
{
    struct failure failure = { EXIT_GOOD, "" };
    const char *name = NULL;
    int status = EXIT_GOOD;
    system_begin();
    progress_end_line_at_interrupt();
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
