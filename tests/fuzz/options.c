/* Command lines, an argument a line; the first byte chooses the command. What they say of a problem is read too. */
#define _XOPEN_SOURCE 700
#include "tools/options.h"

#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "tools/bench_shapes.h"
#include "tools/commands.h"
#include "tools/problem_options.h"

#define ARGUMENTS_MAX 40

static void read_problem(const struct options *options)
{
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    clattn_call call = CLATTN_CALL_INIT;
    clattn_weights weights = CLATTN_WEIGHTS_NONE;
    struct tensor offsets = TENSOR_INIT;
    struct failure failure = { EXIT_GOOD, "" };
    (void)problem_options_read(options, &problem, &call, &offsets, &failure);
    (void)problem_alignment_check(options, &problem, &failure);
    (void)problem_weights_read(options, OPTION_WEIGHTS_MODE, &weights, &failure);
    if (problem_without_data_read(options, &problem, &failure) == 0) {
        fuzz_must(problem.batch >= 0 && problem.head_dim >= 0, "a shape is not negative");
        fuzz_must(problem_kept_rows(&problem) >= 0, "nor are the rows that are kept");
    }
    tensor_free(&offsets);
}

static void read_values(const struct options *options)
{
    for (int number = OPTION_NONE + 1; number < OPTION_IDS; ++number) {
        const enum option_id id = (enum option_id)number;
        struct failure failure = { EXIT_GOOD, "" };
        struct tensor list = TENSOR_INIT;
        int64_t integer = 5, integers[7];
        double real = 5;
        size_t count = 0;
        if (option_integer(options, id, 1, 9, &integer, &failure) == 0) {
            fuzz_must(integer >= 1 && integer <= 9, "an integer is within its bounds");
        }
        if (option_number(options, id, &real, &failure) == 0) {
            fuzz_must(real - real == 0, "a number is finite");
        }
        if (option_integers(options, id, integers, 7, &count, &failure) == 0) {
            fuzz_must(count <= 7, "a list has no more than it may");
        }
        if (options->value[id] && text_is_integer_list(options->value[id]) &&
            option_integer_tensor(options, id, &list, &failure) == 0) {
            fuzz_must(tensor_count(&list) > 0, "a list has numbers");
        }
        tensor_free(&list);
    }
}

static void read_shapes(const struct options *options)
{
    struct bench_shapes shapes = { 0, NULL };
    struct failure failure = { EXIT_GOOD, "" };
    struct options of_shapes = *options;
    of_shapes.value[OPTION_SHAPES] = NULL;
    if (of_shapes.value[OPTION_SHAPE]) {
        (void)bench_shapes_read(&of_shapes, &shapes, &failure);
    }
    free(shapes.shape);
}

/* Help would be printed. */
static int asks_for_help(const char *argument)
{
    return strncmp(argument, "-h", 2) == 0 || strncmp(argument, "--h", 3) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    const struct command *command = command_table[data[0] % command_count].command;
    struct options options;
    struct failure failure = { EXIT_GOOD, "" };
    char *text = malloc(size), *arguments[ARGUMENTS_MAX + 1], *rest = NULL;
    int count = 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    for (char *at = strtok_r(text, "\n", &rest); at && count < ARGUMENTS_MAX; at = strtok_r(NULL, "\n", &rest)) {
        if (!asks_for_help(at)) {
            arguments[count++] = at;
        }
    }
    arguments[count] = NULL;
    if (options_parse(command, count, arguments, &options, &failure) == 0) {
        read_values(&options);
        read_problem(&options);
        read_shapes(&options);
    } else {
        fuzz_must(failure.status == EXIT_MISUSE && failure.text[0], "a refusal says why");
    }
    free(text);
    return 0;
}
