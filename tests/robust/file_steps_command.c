/* The steps of the command: what it reads, what it writes. */
#define _XOPEN_SOURCE 700
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../tools/files.h"
#include "../../tools/lesson/chart.h"
#include "../../tools/npy.h"
#include "../../tools/safetensors.h"
#include "cache/folder.h"
#include "file_steps.h"

#define OLD_BYTES 3000
#define NEW_BYTES 5000
#define OLD_MODE 0600

static void write_file(const char *name, int byte, size_t bytes)
{
    char data[NEW_BYTES];
    const int file = open(folder_path(name), O_WRONLY | O_CREAT | O_TRUNC, OLD_MODE);
    memset(data, byte, sizeof(data));
    step_must(file >= 0 && write(file, data, bytes) == (ssize_t)bytes && close(file) == 0, "writing a file");
}

void step_write_old_output(void)
{
    write_file("out.npy", 'o', OLD_BYTES);
}

void step_write_old_output_behind_link(void)
{
    step_write_old_output();
    step_must(symlink("out.npy", folder_path("link.npy")) == 0, "making a link");
}

static int write_output(const char *name, char *message)
{
    static char data[NEW_BYTES];
    const struct file_part parts[] = { { data, 1000 }, { data, NEW_BYTES - 1000 } };
    struct failure failure = { 0 };
    memset(data, 'n', sizeof(data));
    const int done = file_check_output(folder_path(name), &failure) == 0 &&
                     file_write(folder_path(name), 2, parts, &failure) == 0;
    snprintf(message, MESSAGE_BYTES, "%s", failure.text);
    return done;
}

int step_output(char *message)
{
    return write_output("out.npy", message);
}

int step_output_behind_link(char *message)
{
    return write_output("link.npy", message);
}

enum file_state step_look_at_output(void)
{
    char data[NEW_BYTES + 1];
    struct stat about;
    const int file = open(folder_path("out.npy"), O_RDONLY);
    const ssize_t bytes = file < 0 ? 0 : read(file, data, sizeof(data));
    const int has_mode = file >= 0 && fstat(file, &about) == 0 && (about.st_mode & 0777) == OLD_MODE;
    ssize_t same = 0;
    close(file);
    while (same < bytes && data[same] == data[0]) {
        ++same;
    }
    return file < 0                               ? STATE_OLD
           : same != bytes || !has_mode           ? STATE_TORN
           : bytes == OLD_BYTES && data[0] == 'o' ? STATE_OLD
           : bytes == NEW_BYTES && data[0] == 'n' ? STATE_NEW
                                                  : STATE_TORN;
}

enum file_state step_look_behind_link(void)
{
    struct stat about;
    return lstat(folder_path("link.npy"), &about) == 0 && S_ISLNK(about.st_mode) ? step_look_at_output() : STATE_TORN;
}

void step_write_old_picture(void)
{
    write_file("picture.svg", 'o', OLD_BYTES);
}

int step_picture(char *message)
{
    static struct chart chart;
    static const double x[] = { 1, 2, 3 }, y[] = { 1, 4, 9 };
    struct failure failure = { 0 };
    struct output output;
    chart_begin(&chart, "a picture", 1);
    chart_line(&chart, chart_add(&chart, "squares", "x", "y", AXIS_LINEAR, AXIS_LINEAR), "x^2", 3, x, y, 1);
    const int done = chart_write(&chart, folder_path("picture.svg"), &output, &failure) == 0 &&
                     output_take_place(&output, &failure) == 0;
    chart_free(&chart);
    snprintf(message, MESSAGE_BYTES, "%s", failure.text);
    return done;
}

enum file_state step_look_at_picture(void)
{
    static const char end[] = "</svg>\n";
    static char data[1 << 16];
    FILE *file = fopen(folder_path("picture.svg"), "rb");
    const size_t bytes = file ? fread(data, 1, sizeof(data), file) : 0;
    if (file) {
        fclose(file);
    }
    return bytes == OLD_BYTES && data[0] == 'o' && data[bytes - 1] == 'o' ? STATE_OLD
           : bytes > sizeof(end) && memcmp(data, "<?xml", 5) == 0 &&
                   memcmp(data + bytes - strlen(end), end, strlen(end)) == 0
               ? STATE_NEW
               : STATE_TORN;
}

/* ---- reading ---- */

#define NUMBERS 600

static int make_numbers(struct tensor *tensor, struct failure *failure)
{
    const int64_t shape[1] = { NUMBERS };
    const int made = tensor_create(tensor, TENSOR_FLOAT32, 1, shape, "numbers", failure) == 0;
    for (int64_t i = 0; made && i < NUMBERS; ++i) {
        tensor_store(tensor, i, (double)i);
    }
    return made;
}

static int are_numbers(const struct tensor *tensor)
{
    int64_t right = 0;
    while (right < NUMBERS && tensor_count(tensor) == NUMBERS &&
           fabs(tensor_load(tensor, right) - (double)right) < .5) {
        ++right;
    }
    return right == NUMBERS;
}

void step_write_inputs(void)
{
    struct tensor tensor;
    struct failure failure = { 0 };
    const struct safetensors_item item = { "q", &tensor };
    step_must(make_numbers(&tensor, &failure) && npy_write(folder_path("in.npy"), &tensor, &failure) == 0 &&
                  safetensors_write(folder_path("in.safetensors"), 1, &item, 0, NULL, &failure) == 0,
              "writing inputs");
    tensor_free(&tensor);
}

static int end_reading(struct tensor *tensor, int done, const struct failure *failure, char *message)
{
    step_must(!done || are_numbers(tensor), "what was read is not what was written");
    if (done) {
        tensor_free(tensor);
    }
    snprintf(message, MESSAGE_BYTES, "%s", failure->text);
    return done;
}

int step_read_npy(char *message)
{
    struct tensor tensor = TENSOR_INIT;
    struct failure failure = { 0 };
    const int done = npy_read(folder_path("in.npy"), &tensor, &failure) == 0;
    return end_reading(&tensor, done, &failure, message);
}

int step_read_safetensors(char *message)
{
    struct tensor tensor = TENSOR_INIT;
    struct failure failure = { 0 };
    struct safetensors file;
    int done = safetensors_open(folder_path("in.safetensors"), &file, &failure) == 0;
    if (done) {
        done = safetensors_read(&file, safetensors_find(&file, "q"), &tensor, &failure) == 0;
        safetensors_close(&file);
    }
    return end_reading(&tensor, done, &failure, message);
}

/* By stdio, whose own reads and writes do not fail here. */
static void pipe_in(const char *path)
{
    char data[2 * NUMBERS * sizeof(float)];
    FILE *file = fopen(path, "rb"), *into;
    const size_t bytes = file ? fread(data, 1, sizeof(data), file) : 0;
    int ends[2];
    step_must(bytes > 0 && pipe(ends) == 0, "making a pipe");
    fclose(file);
    into = fdopen(ends[1], "wb");
    step_must(fwrite(data, 1, bytes, into) == bytes && fclose(into) == 0 && dup2(ends[0], STDIN_FILENO) == 0,
              "filling a pipe");
    into = fdopen(ends[0], "rb");
    fclose(into);
}

int step_read_pipe(char *message)
{
    struct tensor tensor = TENSOR_INIT;
    struct failure failure = { 0 };
    pipe_in(folder_path("in.npy"));
    const int done = npy_read("-", &tensor, &failure) == 0;
    return end_reading(&tensor, done, &failure, message);
}
