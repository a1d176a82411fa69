/* clattn selfcheck: known answers of each strategy's programs, tried anew, each in a process of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "document.h"
#include "labels.h"
#include "part.h"
#include "progress.h"
#include "strategy_list.h"
#include "system.h"

#define PART_SECONDS 120
#define PART_BYTES_MOST 16384

#define FOUND "self-check: "

/* What is tried of each. */
static const struct form {
    const char *name, *options;
    int hides_keys, has_gradients;
} forms[] = {
    { "", "", 0, 0 },
    { "hiding keys", " --causal bottom-right --key-lengths --sinks --lse", 1, 0 },
    { "gradients", " --backward --causal bottom-right --key-lengths --sinks", 1, 1 },
};
enum { FORMS = sizeof forms / sizeof *forms };

static const struct {
    const char *name;
    clattn_type type;
} dtypes[] = {
    { "f32", CLATTN_FLOAT32 }, { "f16", CLATTN_FLOAT16 }, { "bf16", CLATTN_BFLOAT16 }, { "f64", CLATTN_FLOAT64 }
};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

/* One known answer: a strategy's, of a type. */
struct tried {
    const char *strategy, *dtype;
    const struct form *form;
};

enum verdict { GOOD, BAD, DECLINED, FAILED, VERDICTS };
static const char *const verdict_names[] = { "good", "bad", "declined", "failed" };

struct outcome {
    enum verdict verdict;
    char why[300];
};

/* The line of the output that says most: the self-check's own, else the last. */
static void read_outcome(const struct part_end *end, const char *said, struct outcome *outcome)
{
    const int status = part_exit_status(end);
    const char *found = strstr(said, FOUND), *line = found ? found + strlen(FOUND) : said;
    char death[PART_END_BYTES];
    if (status == EXIT_GOOD) {
        outcome->verdict = found ? GOOD : FAILED;
    } else {
        outcome->verdict = found ? BAD : status == EXIT_MISUSE ? DECLINED : status < 0 ? BAD : FAILED;
    }
    if (!found && outcome->verdict == DECLINED && strstr(said, "\": ")) {
        line = strstr(said, "\": ") + 3; /* what follows the device's name */
        line = strstr(line, "\": ") ? strstr(line, "\": ") + 3 : line;
    }
    part_describe(end, death);
    snprintf(outcome->why, sizeof outcome->why, "%.*s", (int)strcspn(status < 0 ? death : line, "\n"),
             status < 0 ? death : line);
}

static void add_check(cJSON *document, const struct tried *tried, const struct outcome *outcome)
{
    cJSON *check = cJSON_CreateObject();
    cJSON_AddStringToObject(check, "strategy", tried->strategy);
    cJSON_AddStringToObject(check, "dtype", tried->dtype);
    cJSON_AddBoolToObject(check, "hides_keys", tried->form->hides_keys);
    cJSON_AddBoolToObject(check, "gradients", tried->form->has_gradients);
    cJSON_AddStringToObject(check, "verdict", verdict_names[outcome->verdict]);
    cJSON_AddStringToObject(check, "reason", outcome->why);
    cJSON_AddItemToArray(cJSON_GetObjectItem(document, "checks"), check);
}

static void print_line(const struct tried *tried, const struct outcome *outcome)
{
    printf("%-10s %-4s %-11s %-8s  %s\n", tried->strategy, tried->dtype, tried->form->name,
           verdict_names[outcome->verdict], outcome->why);
    fflush(stdout);
}

/* One death may have many causes, so plans try again; they pass over a program where two processes died in a row. Here
 * a death is the driver's, and the second one is had at once. */
static int run_part(const struct part *part, struct text *said, struct part_end *end, struct failure *failure)
{
    system_set_variable("CLATTN_SELF_CHECK", "again");
    int result = part_run(part, said, end, failure);
    if (result == 0 && part_exit_status(end) < 0) {
        struct part second = *part;
        second.ends_at = clock_seconds() + PART_SECONDS;
        text_free(said);
        text_append(said, "%s", "");
        system_set_variable("CLATTN_SELF_CHECK", "always");
        result = part_run(&second, said, end, failure);
    }
    return result;
}

static int try_one(const struct options *options, const struct tried *tried, struct outcome *outcome,
                   struct failure *failure)
{
    char words[256];
    struct text said = TEXT_INIT;
    struct part_end end;
    const int rows = strncmp(tried->strategy, "split", 5) == 0 ? 3 : 70;
    snprintf(words, sizeof words, "explain --shape 2,4,2,%d,300,64 --strategy %s --dtype %s%s", rows, tried->strategy,
             tried->dtype, tried->form->options);
    const struct part part = { words, options->value[OPTION_DEVICE], clock_seconds() + PART_SECONDS, PART_BYTES_MOST };
    text_append(&said, "%s", "");
    int result = run_part(&part, &said, &end, failure);
    if (result == 0 && said.failed) {
        result = failure_failed(failure, "out of memory");
    }
    if (result == 0) {
        utf8_clean_in_place(said.data, "\n");
        read_outcome(&end, said.data, outcome);
    }
    text_free(&said);
    return result;
}

static int print_counts(cJSON *document, const int counts[VERDICTS], struct failure *failure)
{
    if (!document) {
        printf("%d good, %d bad, %d declined, %d failed\n", counts[GOOD], counts[BAD], counts[DECLINED],
               counts[FAILED]);
        return 0;
    }
    for (int verdict = 0; verdict < VERDICTS; verdict++) {
        cJSON_AddNumberToObject(document, verdict_names[verdict], counts[verdict]);
    }
    return document_print(document, failure);
}

/* All forms of a strategy in a type. `document` NULL: a line each. */
static int try_forms(const struct options *options, const char *strategy, int dtype, cJSON *document,
                     int counts[VERDICTS], struct failure *failure)
{
    int result = 0;
    for (int n = 0; n < FORMS && result == 0; n++) {
        const struct tried tried = { strategy, dtypes[dtype].name, &forms[n] };
        struct outcome outcome;
        if (!strategy_list_computes(strategy, dtypes[dtype].type, forms[n].has_gradients)) {
            continue;
        }
        result = try_one(options, &tried, &outcome, failure);
        if (result == 0) {
            counts[outcome.verdict]++;
            if (document) {
                add_check(document, &tried, &outcome);
            } else {
                print_line(&tried, &outcome);
            }
        }
    }
    return result;
}

static int run(const struct options *options, struct failure *failure)
{
    int counts[VERDICTS] = { 0 };
    int result = part_check(failure);
    /* Its head names no device: what opens one, and may die of it, are the parts. */
    cJSON *document = options->value[OPTION_JSON] ? document_begin("selfcheck", NULL) : NULL;
    cJSON_AddArrayToObject(document, "checks");
    for (const char *const *strategy = strategy_list_names(); *strategy; strategy++) {
        for (int dtype = 0; dtype < DTYPES && result == 0; dtype++) {
            result = try_forms(options, *strategy, dtype, document, counts, failure);
        }
    }
    if (result == 0) {
        result = print_counts(document, counts, failure);
    } else {
        cJSON_Delete(document);
    }
    if (result == 0 && counts[BAD] + counts[FAILED] > 0) {
        return failure_failed(failure,
                              "%d of the checks found what is wrong: other strategies are taken in their place; "
                              "please report it, with the driver's version",
                              counts[BAD] + counts[FAILED]);
    }
    if (result == 0 && counts[GOOD] == 0) {
        return failure_failed(failure, "no check was good: is there such a device? `clattn devices` lists them");
    }
    return result;
}

static const struct option_group groups[] = {
    { "Options", { OPTION_DEVICE, OPTION_JSON, OPTION_HELP } },
    { NULL, { OPTION_NONE } },
};

const struct command command_selfcheck = {
    "selfcheck",
    "Tries known answers of every strategy's programs on a device, each in a process of its own, and keeps what came "
    "out "
    "for later plans: a program that is wrong, or that the driver dies of, is not taken.",
    "[OPTION]...",
    NULL,
    groups,
    "Plans do so themselves on drivers that the tests do not run on, when a program is\n"
    "first built; CLATTN_SELF_CHECK is always, off, or again: what was found before does\n"
    "not count.\n",
    run,
};
