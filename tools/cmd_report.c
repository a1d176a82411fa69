/* clattn report: what this machine's OpenCL makes of clattn, in one small file to send in. Each part is a run of this
 * very program in a process of its own, with an end, so that a driver that dies or hangs costs its part alone. What
 * emulation would take hours for is asked of devices alone that said, in the first part, that they have it. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "clattn.h"
#include "commands.h"
#include "files.h"
#include "insides.h"
#include "labels.h"
#include "part.h"
#include "progress.h"
#include "system.h"

#define DEFAULT_FILE "clattn-report.txt"
#define REPORT_SECONDS 600
#define PART_SECONDS 150
#define PART_BYTES_MOST 32768 /* what comes after it is left out, which is said */

/* Words of a command line after "clattn", by spaces. The check's shape has no round number in it. */
#define CHECK "bench --shape 2,4,2,7,333,72,40 --seconds 0 --lse"
#define CHECK_LONG "bench --shape 1,8,2,1000,1500,128 --seconds 0 --lse"
#define HIDING " --causal bottom-right --key-lengths --sinks"

/* What the device's warpgroups are given, and what that brings beside the older unit. */
#define WARPGROUPS "wgmma): yes" /* of clattn devices */
#define LONG_SHAPE(dim) "--shape 4,16,16,4096,4096," #dim " --dtype f16"
#define EXPLAIN_WGMMA(dim) "explain " LONG_SHAPE(dim) " --strategy fused_wgmma"
#define MEASURE_LONG(dim, strategy) "bench " LONG_SHAPE(dim) " --strategy " #strategy " --seconds 0.2"
#define MEASURE "bench --seconds 0.2 --read"

static const struct part_row {
    const char *words;
    const char *needs; /* words of what came before it; NULL: runs everywhere */
} parts[] = {
    { "devices", NULL },
    { "explain --shape 1,8,8,2048,2048,128 --dtype f16", NULL },
    { "explain --shape 1,32,8,1,4096,128 --dtype f16", NULL },
    { CHECK, NULL },
    { CHECK " --strategy plain" HIDING, NULL },
    { CHECK " --strategy staged" HIDING, NULL },
    { CHECK " --strategy fused_simt" HIDING, NULL },
    { CHECK " --strategy split_simt" HIDING, NULL },
    { CHECK " --dtype f16 --strategy fused_simt" HIDING, NULL },
    { CHECK " --dtype f16 --strategy split_simt" HIDING, NULL },
    { CHECK " --dtype f16 --strategy fused_mma" HIDING, NULL },
    { CHECK " --dtype bf16 --strategy fused_mma" HIDING, NULL },
    { CHECK " --dtype f16 --strategy fused_wgmma" HIDING, NULL },
    { CHECK " --dtype bf16 --strategy fused_wgmma" HIDING, NULL },
    { CHECK_LONG " --dtype f16 --strategy fused_wgmma", NULL },
    { CHECK_LONG " --dtype bf16 --strategy fused_wgmma --rounded-weights" HIDING, NULL },
    { EXPLAIN_WGMMA(64), WARPGROUPS },
    { EXPLAIN_WGMMA(128), WARPGROUPS },
    { EXPLAIN_WGMMA(256), WARPGROUPS },
    { MEASURE_LONG(64, fused_mma), WARPGROUPS },
    { MEASURE_LONG(64, fused_wgmma), WARPGROUPS },
    { MEASURE_LONG(128, fused_mma), WARPGROUPS },
    { MEASURE_LONG(128, fused_wgmma), WARPGROUPS },
    { MEASURE_LONG(128, fused_wgmma) " --rounded-weights", WARPGROUPS },
    { MEASURE_LONG(256, fused_wgmma), WARPGROUPS },
    { CHECK_LONG " --dtype f16 --backward --strategy fused_wgmma" HIDING, WARPGROUPS },
    { CHECK_LONG " --dtype bf16 --backward --strategy fused_wgmma", WARPGROUPS },
    { MEASURE_LONG(64, fused_mma) " --backward", WARPGROUPS },
    { MEASURE_LONG(64, fused_wgmma) " --backward", WARPGROUPS },
    { MEASURE_LONG(128, fused_mma) " --backward", WARPGROUPS },
    { MEASURE_LONG(128, fused_wgmma) " --backward", WARPGROUPS },
    { MEASURE " --dtype f16", NULL },
    { MEASURE " --dtype f32", NULL },
    { MEASURE " --dtype bf16", NULL },
};
enum { PARTS = sizeof parts / sizeof *parts };

struct report {
    const char *device; /* NULL: CLATTN_DEVICE, else the best */
    struct text text;
    double ends_at; /* by clock_seconds */
    int good, bad, left_out;
};

/* ---- one part ---- */

static void append_end(struct report *report, const struct part_end *part)
{
    char end[PART_END_BYTES];
    const int is_good = part_is_good(part);
    report->good += is_good;
    report->bad += !is_good;
    part_describe(part, end);
    printf("%s\n", end);
    text_append(&report->text, "-> %s\n", end);
}

static int run_part(struct report *report, const struct part_row *row, struct failure *failure)
{
    const char *part = row->words;
    struct part_end end;
    const double starts_at = clock_seconds(), least = starts_at + PART_SECONDS;
    const double ends_at = least < report->ends_at ? least : report->ends_at;
    text_append(&report->text, "\n$ clattn %s\n", part);
    if (row->needs && !report->text.failed && !strstr(report->text.data, row->needs)) {
        report->left_out++;
        text_append(&report->text, "-> left out: no device here has what it is about\n");
        return 0;
    }
    if (starts_at >= report->ends_at) {
        report->left_out++;
        text_append(&report->text, "-> left out: the report has ten minutes\n");
        return 0;
    }
    printf("clattn %s: ", part);
    fflush(stdout);
    const struct part whole = { part, report->device, ends_at, PART_BYTES_MOST };
    if (part_run(&whole, &report->text, &end, failure) != 0) {
        return -1;
    }
    append_end(report, &end);
    return 0;
}

/* ---- the command ---- */

static void begin(struct report *report)
{
    char date[32] = "", system[SYSTEM_NAME_BYTES];
    const time_t seconds = time(NULL);
    struct tm day;
    if (gmtime_r(&seconds, &day)) {
        strftime(date, sizeof date, "%Y-%m-%d", &day);
    }
    system_name(system);
    text_append(&report->text, "clattn %s, %s, %s\n", clattn_version(), date, system);
}

static int write_report(struct report *report, const char *path, struct failure *failure)
{
    if (report->text.failed) {
        return failure_failed(failure, "out of memory for a report");
    }
    utf8_clean_in_place(report->text.data, "\n\t"); /* names are a driver's */
    const struct file_part whole = { report->text.data, strlen(report->text.data) };
    const int result = file_write(path, 1, &whole, failure);
    if (result == 0) {
        printf("%s: %zu bytes; %d parts good, %d not, %d left out. It names the device, its driver and the system, and "
               "nothing else of yours.\n",
               path, whole.bytes, report->good, report->bad, report->left_out);
    }
    return result;
}

static int run(const struct options *options, struct failure *failure)
{
    const char *path = options->value[OPTION_REPORT] ? options->value[OPTION_REPORT] : DEFAULT_FILE;
    struct report report = { .device = options->value[OPTION_DEVICE],
                             .text = TEXT_INIT,
                             .ends_at = clock_seconds() + REPORT_SECONDS };
    int result = part_check(failure);
    if (result == 0) {
        result = file_check_output(path, failure);
    }
    begin(&report);
    for (int i = 0; i < PARTS && result == 0; i++) {
        result = run_part(&report, &parts[i], failure);
    }
    if (result == 0) {
        result = write_report(&report, path, failure);
    }
    text_free(&report.text);
    return result;
}

static const struct option_group groups[] = {
    { "Options", { OPTION_DEVICE, OPTION_REPORT, OPTION_HELP } },
    { NULL, { OPTION_NONE } },
};

const struct command command_report = {
    "report",
    "Writes down in one small file what this machine's OpenCL makes of clattn: devices, plans, each strategy checked "
    "against the float64 reference, times of the standard shapes beside a plain read of the memory. Takes ten minutes "
    "at most. Send it in: most devices were never seen by those who wrote clattn.",
    "[OPTION]...",
    NULL,
    groups,
    "A part whose driver dies or hangs is told so, and the others go on.\n"
    "Example:\n  clattn report --device gpu\n",
    run,
};
