/* The program cache in whole processes: the second one compiles nothing and has the same bits; whatever was
 * done to the file, the driver is not shown it, and it is compiled again. Each run is a child process,
 * this program with --child, which opens a context, computes one sample and prints what the layer counted.
 * The parent uses no OpenCL. */
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder.h"
#include "icd/icd_layers.h"
#include "icd/program_layer.h"
#include "program/context.h"
#include "program/program_file.h"
#include "support/small_calls.h"

#define NOBODY 65534

/* What one process did. */
struct result {
    int status;            /* of the calls; -1: the process died or printed nothing */
    int sources, binaries; /* that it gave to the driver */
    int files;             /* in the cache after the call, before the context was destroyed */
    unsigned quirks;       /* of the device */
    unsigned long bits;    /* of its output */
    char message[1024];    /* of a failure */
};

/* ---- the child ------------------------------------------------------------------------------ */

static unsigned long bits_of(const struct test_call *test)
{
    const struct test_array *out = &test->arrays[test->array_of[TENSOR_OUT]];
    unsigned long bits = 5381;
    for (size_t i = 0; i < (size_t)out->count * out->element_bytes; ++i) {
        bits = bits * 33 + out->data[i];
    }
    return bits;
}

static int files_in_cache(void)
{
    char pattern[FOLDER_PATH_BYTES];
    glob_t found;
    snprintf(pattern, sizeof(pattern), "%s/*", getenv("CLATTN_CACHE_DIR"));
    int files = glob(pattern, 0, NULL, &found) == 0 ? (int)found.gl_pathc : 0;
    globfree(&found);
    return files;
}

static int child(int sample)
{
    struct test_call test;
    clattn_context *context;
    unsigned quirks = 0;
    int files = 0;
    layer_request("program_layer");
    struct program_layer *layer = layer_symbol("program_layer", PROGRAM_LAYER_SYMBOL);
    clattn_status status = clattn_context_open(NULL, NULL, &context);
    sample_create(&test, sample, "plain");
    if (status == CLATTN_OK) {
        quirks = context->device.quirks;
        status = clattn_forward_host(context, &test.problem, &test.values, &test.tensors);
        files = files_in_cache();
        clattn_context_destroy(context);
    }
    printf("result %d %d %d %d %u %lu %s\n", status, layer->sources, layer->binaries, files, quirks, bits_of(&test),
           status == CLATTN_OK ? "" : clattn_last_error());
    test_call_free(&test);
    return 0;
}

/* ---- the parent ----------------------------------------------------------------------------- */

static const char *program;

/* Runs a child with some variables set: "NAME=VALUE NAME=VALUE". */
static struct result run_sample(const char *variables, int sample)
{
    struct result result = { .status = -1 };
    char command[4096], line[2048];
    snprintf(command, sizeof(command), "%s '%s' --child %d", variables, program, sample);
    FILE *stream = popen(command, "r");
    while (stream && fgets(line, sizeof(line), stream)) {
        sscanf(line, "result %d %d %d %d %u %lu %1023[^\n]", &result.status, &result.sources, &result.binaries,
               &result.files, &result.quirks, &result.bits, result.message);
    }
    if (!stream || pclose(stream) != 0) {
        result.status = -1;
    }
    return result;
}

static struct result run(const char *variables)
{
    return run_sample(variables, SAMPLE_PLAIN_FLOAT32);
}

/* The only file of the cache, "" when there is not exactly one. */
static const char *only_file(void)
{
    static char path[FOLDER_PATH_BYTES];
    char command[FOLDER_PATH_BYTES + 32];
    path[0] = 0;
    snprintf(command, sizeof(command), "ls '%s'", folder_path(""));
    FILE *stream = count_files("") == 1 ? popen(command, "r") : NULL;
    if (stream) {
        char name[256] = "";
        if (fscanf(stream, "%255s", name) == 1) {
            snprintf(path, sizeof(path), "%s", folder_path(name));
        }
        pclose(stream);
    }
    return path;
}

static struct result first;

static int compiled(struct result r)
{
    return r.status == CLATTN_OK && r.sources == 1 && r.binaries == 0 && r.bits == first.bits;
}

static int loaded(struct result r)
{
    return r.status == CLATTN_OK && r.sources == 0 && r.binaries == 1 && r.bits == first.bits;
}

/* ---- damage --------------------------------------------------------------------------------- */

static void flip(const char *path, off_t at)
{
    unsigned char byte = 0;
    int fd = open(path, O_RDWR);
    EXPECT(fd >= 0 && pread(fd, &byte, 1, at) == 1);
    byte ^= 1;
    EXPECT(pwrite(fd, &byte, 1, at) == 1 && close(fd) == 0);
}

static void flip_header(const char *path)
{
    flip(path, 20);
}

static void flip_binary(const char *path)
{
    flip(path, PROGRAM_FILE_HEADER_BYTES + 1000);
}

static void cut(const char *path)
{
    struct stat state;
    EXPECT(stat(path, &state) == 0 && truncate(path, state.st_size / 2) == 0);
}

static void empty(const char *path)
{
    EXPECT(truncate(path, 0) == 0);
}

static void link_to_good(const char *path)
{
    char target[FOLDER_PATH_BYTES];
    snprintf(target, sizeof(target), "%s.elsewhere", folder_path(""));
    EXPECT(rename(path, target) == 0 && symlink(target, path) == 0);
}

static void open_to_all(const char *path)
{
    EXPECT(chmod(path, 0666) == 0);
}

static void give_away(const char *path)
{
    if (geteuid() == 0) {
        EXPECT(chown(path, NOBODY, (gid_t)-1) == 0);
    } else {
        skip("another owner: needs root", 1);
        flip_header(path);
    }
}

static void test_damage(void)
{
    static void (*const damages[])(const char *path) = { flip_header,  flip_binary, cut,      empty,
                                                         link_to_good, open_to_all, give_away };
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); ++i) {
        damages[i](only_file());
        EXPECT(compiled(run("")));
        EXPECT(loaded(run(""))); /* it was replaced by a good one */
    }
    char path[FOLDER_PATH_BYTES];
    snprintf(path, sizeof(path), "%s", only_file());
    EXPECT(unlink(path) == 0 && mkdir(path, 0700) == 0);
    EXPECT(compiled(run("")) && compiled(run("")) && count_files("") == 1);
    EXPECT(rmdir(path) == 0 && compiled(run("")) && loaded(run("")));
}

/* ---- the rest ------------------------------------------------------------------------------- */

static void test_round_trip(void)
{
    first = run("");
    EXPECT(first.status == CLATTN_OK && first.sources == 1 && first.binaries == 0);
    EXPECT(first.files == (first.quirks & QUIRK_COMPILES_AT_ENQUEUE ? 0 : 1));
    EXPECT(count_files("") == 1);
    EXPECT(loaded(run("")));
}

/* A driver that does not take its own binary, as after an update that kept its version. */
static void test_refused(void)
{
    struct result r = run("PROGRAM_LAYER_REFUSE=1");
    EXPECT(r.status == CLATTN_OK && r.sources == 1 && r.binaries == 1 && r.bits == first.bits);
    EXPECT(loaded(run("")));
}

static void test_other_keys(void)
{
    int float16 = 0;
    while (strcmp(sample_name(float16), "float16") != 0) {
        ++float16;
    }
    struct result r = run_sample("", float16); /* other options */
    EXPECT(r.status == CLATTN_OK && r.sources == 1 && r.binaries == 0 && count_files("") == 2);
    char command[4 * FOLDER_PATH_BYTES], variables[FOLDER_PATH_BYTES + 32];
    const char *srcdir = getenv("srcdir");
    snprintf(command, sizeof(command), "cp -r '%s/cl' '%s.cl' && cd '%s.cl' && chmod -R u+w . && echo >>plain/plain.cl",
             srcdir ? srcdir : ".", folder_path(""), folder_path(""));
    snprintf(variables, sizeof(variables), "CLATTN_CL_DIR='%s.cl'", folder_path(""));
    EXPECT(system(command) == 0 && compiled(run(variables))); /* other source, by one byte */
    EXPECT(count_files("") == 3 && loaded(run(variables)) && loaded(run("")));
}

static void test_switches(void)
{
    char variables[2 * FOLDER_PATH_BYTES];
    int files = count_files("");
    EXPECT(compiled(run("CLATTN_CACHE=off")));
    struct result r = run("CLATTN_CACHE=perhaps");
    EXPECT(r.status == CLATTN_INVALID_ARGUMENT && strstr(r.message, "CLATTN_CACHE \"perhaps\""));
    snprintf(variables, sizeof(variables), "env -u CLATTN_CACHE_DIR CLATTN_CACHE=on XDG_CACHE_HOME='%s.user'",
             folder_path(""));
    EXPECT(compiled(run(variables)) && loaded(run(variables)));
    snprintf(variables, sizeof(variables), "env -u CLATTN_CACHE_DIR -u XDG_CACHE_HOME CLATTN_CACHE=on HOME='%s.home'",
             folder_path(""));
    EXPECT(compiled(run(variables)) && loaded(run(variables)));
    snprintf(variables, sizeof(variables), "env -u CLATTN_CACHE_DIR XDG_CACHE_HOME='%s.default'", folder_path(""));
    EXPECT(compiled(run(variables)));
    EXPECT(first.quirks & QUIRK_KEEPS_PROGRAMS ? compiled(run(variables)) : loaded(run(variables)));
    EXPECT(compiled(run("CLATTN_CACHE_DIR=/dev/null")));
    snprintf(variables, sizeof(variables), "CLATTN_CACHE_DIR='%s'/\"$(printf %%4000d 1)\"", folder_path(""));
    EXPECT(compiled(run(variables)));
    EXPECT(count_files("") == files);
}

/* Binaries made beforehand, on a device without a compiler. */
static void test_offline(void)
{
    static const char with_none[] = "PROGRAM_LAYER_NO_COMPILER=1 CLATTN_CACHE=off";
    char with_folder[FOLDER_PATH_BYTES + 128], path[FOLDER_PATH_BYTES];
    char command[FOLDER_PATH_BYTES + 64];
    snprintf(with_folder, sizeof(with_folder), "%s CLATTN_BINARY_DIR='%s'", with_none, folder_path(""));
    struct result r = run(with_none);
    EXPECT(r.status == CLATTN_UNSUPPORTED && strstr(r.message, "clattn compile"));
    snprintf(command, sizeof(command), "rm -rf '%s'", folder_path(""));
    EXPECT(system(command) == 0 && compiled(run("")) && loaded(run(with_folder)));
    snprintf(path, sizeof(path), "%s", only_file());
    flip_binary(path);
    r = run(with_folder);
    EXPECT(r.status == CLATTN_UNSUPPORTED && r.sources == 0 && r.binaries == 0);
    EXPECT(strstr(r.message, strrchr(path, '/') + 1) && strstr(r.message, "clattn compile --output"));
    snprintf(with_folder, sizeof(with_folder), "CLATTN_CACHE=off CLATTN_BINARY_DIR='%s'", folder_path(""));
    EXPECT(compiled(run(with_folder))); /* with a compiler it is no loss */
    flip_binary(path);
    EXPECT(loaded(run(with_folder)));
    r = run("CLATTN_BINARY_DIR=/dev/null/missing");
    EXPECT(r.status == CLATTN_INVALID_ARGUMENT && strstr(r.message, "/dev/null/missing"));
    EXPECT(chmod(folder_path(""), 0777) == 0);
    EXPECT(run(with_folder).status == CLATTN_INVALID_ARGUMENT);
    EXPECT(chmod(folder_path(""), 0700) == 0);
}

int main(int argc, char **argv)
{
    static void (*const tests[])(void) = { test_round_trip, test_damage,   test_refused,
                                           test_other_keys, test_switches, test_offline };
    if (argc == 3 && strcmp(argv[1], "--child") == 0) {
        return child(atoi(argv[2]));
    }
    program = argv[0];
    folder_begin();
    setenv("CLATTN_CACHE_DIR", folder_path(""), 1);
    unsetenv("CLATTN_CACHE");
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); ++i) {
        tests[i]();
    }
    folder_end();
    return report();
}
