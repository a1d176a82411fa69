/* What a pipe brings is kept where TMPDIR says, leaves nothing there, and is counted once while it is told of. */
#define _XOPEN_SOURCE 700
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../../tools/files.h"
#include "../../tools/progress.h"
#include "../../tools/standard_files.h"
#include "suite.h"

#define PIPED_BYTES ((size_t)128 << 20)
#define PIECE_BYTES ((size_t)1 << 20)

static char folder[] = "/tmp/clattn-standard-input-XXXXXX";
static int writing_end;

static void *feed(void *bytes)
{
    static char piece[PIECE_BYTES];
    memset(piece, 'x', sizeof(piece));
    for (size_t done = 0; done < *(size_t *)bytes; done += PIECE_BYTES) {
        ck_assert_int_eq(write(writing_end, piece, PIECE_BYTES), PIECE_BYTES);
    }
    close(writing_end);
    return NULL;
}

/* Standard input is a pipe that so many bytes come through. */
static pthread_t pipe_in(size_t *bytes)
{
    int ends[2];
    pthread_t feeder;
    ck_assert_int_eq(pipe(ends), 0);
    dup2(ends[0], STDIN_FILENO);
    close(ends[0]);
    writing_end = ends[1];
    pthread_create(&feeder, NULL, feed, bytes);
    return feeder;
}

static int entries(const char *path)
{
    DIR *stream = opendir(path);
    int count = -2; /* . and .. */
    while (readdir(stream)) {
        ++count;
    }
    closedir(stream);
    return count;
}

static int path_of(int descriptor, char *path, size_t size)
{
    char link[64];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
    const ssize_t length = readlink(link, path, size - 1);
    path[length > 0 ? length : 0] = 0;
    return length > 0;
}

START_TEST(test_kept_and_counted)
{
    size_t bytes = PIPED_BYTES;
    uint64_t size = 0;
    int descriptor = -1;
    char amount[64], path[4096];
    char *data = malloc(PIPED_BYTES);
    struct failure failure = { 0 };
    ck_assert_ptr_nonnull(mkdtemp(folder));
    setenv("TMPDIR", folder, 1);
    pthread_t feeder = pipe_in(&bytes);
    ck_assert_msg(file_open("-", &descriptor, &size, &failure) == 0, "%s", failure.text);
    pthread_join(feeder, NULL);
    ck_assert_uint_eq(size, PIPED_BYTES);
    ck_assert(!path_of(descriptor, path, sizeof(path)) || strncmp(path, folder, strlen(folder)) == 0);
    ck_assert_int_eq(entries(folder), 0);
    progress_amount(amount, sizeof(amount));
    ck_assert_str_eq(amount, ", 0.0 of 0.1 GB");
    ck_assert_int_eq(file_read("-", descriptor, 0, data, PIPED_BYTES, &failure), 0);
    ck_assert_int_eq(data[0], 'x');
    ck_assert_int_eq(data[PIPED_BYTES - 1], 'x');
    progress_amount(amount, sizeof(amount));
    ck_assert_str_eq(amount, ", 0.1 of 0.1 GB");
    close(descriptor);
    free(data);
    rmdir(folder);
}
END_TEST

START_TEST(test_no_such_folder)
{
    size_t bytes = 0;
    uint64_t size = 0;
    int descriptor = -1;
    struct failure failure = { 0 };
    setenv("TMPDIR", "/nowhere", 1);
    pthread_t feeder = pipe_in(&bytes);
    ck_assert_int_eq(file_open("-", &descriptor, &size, &failure), -1);
    pthread_join(feeder, NULL);
    ck_assert_msg(strstr(failure.text, "/nowhere") && strstr(failure.text, "TMPDIR"), "%s", failure.text);
    ck_assert_int_eq(descriptor, -1);
}
END_TEST

SUITE("standard input", test_kept_and_counted, test_no_such_folder)
