/* Files of compiled programs, damaged in every way: never read, never followed, written wholly or not at
 * all. Uses no device, so it may fork. Children report by their exit status. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "folder.h"
#include "program/program_cache.h"
#include "program/program_folder.h"
#include "support/random.h"

#define BINARY_BYTES 1000
#define FILE_BYTES (PROGRAM_FILE_HEADER_BYTES + BINARY_BYTES)
#define NOBODY 65534

static unsigned char binary[BINARY_BYTES], file[FILE_BYTES];
static const struct program_key key = { { 1, 2, 3 } }, other_key = { { 1, 2, 4 } };

/* ---- helpers -------------------------------------------------------------------------------- */

static int reads_as(enum program_folder_trust trust, const struct program_key *k, const unsigned char *expected)
{
    size_t size = 0;
    unsigned char *bytes = program_file_read(folder_path(""), trust, k, &size);
    int same = bytes && size == FILE_BYTES && memcmp(bytes + PROGRAM_FILE_HEADER_BYTES, expected, BINARY_BYTES) == 0;
    free(bytes);
    return bytes ? (same ? 1 : -1) : 0;
}

/* 1: our binary, 0: nothing, -1: something else. */
static int reads(void)
{
    return reads_as(PROGRAM_FOLDER_OWN, &key, binary);
}

static int writes(void)
{
    return program_file_write(folder_path(""), &key, binary, BINARY_BYTES, 0);
}

static const char *key_path(const struct program_key *k)
{
    char name[PROGRAM_FILE_NAME_BYTES];
    program_file_name(k, name);
    return folder_path(name);
}

static void plant(const unsigned char *bytes, size_t size)
{
    int fd = open(key_path(&key), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    EXPECT(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
    close(fd);
}

/* In a child, as another user where `user` is not 0: 1 when `body` returns 1. */
static int in_child(uid_t user, int (*body)(void))
{
    int state;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        _exit(user && seteuid(user) != 0 ? 2 : body());
    }
    waitpid(child, &state, 0);
    return WIFEXITED(state) && WEXITSTATUS(state) == 1;
}

/* ---- bits ----------------------------------------------------------------------------------- */

static void test_digest(void)
{
    static const struct {
        const char *text, *digest;
    } known[] = {
        /* the examples of FIPS 180 */
        { "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
        { "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); ++i) {
        struct program_key digest;
        char name[PROGRAM_FILE_NAME_BYTES];
        struct sha256 sha256;
        sha256_begin(&sha256);
        for (const char *c = known[i].text; *c; ++c) {
            sha256_add(&sha256, c, 1);
        }
        sha256_end(&sha256, digest.bytes);
        program_file_name(&digest, name);
        EXPECT(strncmp(name, known[i].digest, 64) == 0 && strcmp(name + 64, ".clattn") == 0);
    }
}

static void test_truncations(void)
{
    EXPECT(writes() && reads() == 1);
    for (size_t size = 0; size < FILE_BYTES; ++size) {
        plant(file, size);
        EXPECT(reads() == 0);
    }
    unsigned char longer[FILE_BYTES + 1] = { 0 };
    memcpy(longer, file, FILE_BYTES);
    plant(longer, sizeof(longer));
    EXPECT(reads() == 0);
    plant(file, FILE_BYTES);
    EXPECT(reads() == 1);
}

static void test_header_bits(void)
{
    unsigned char damaged[FILE_BYTES];
    EXPECT(writes());
    for (size_t bit = 0; bit < 8 * PROGRAM_FILE_HEADER_BYTES; ++bit) {
        memcpy(damaged, file, FILE_BYTES);
        damaged[bit / 8] ^= (unsigned char)(1u << bit % 8);
        plant(damaged, FILE_BYTES);
        EXPECT(reads() == 0);
    }
}

static void test_random_flips(void)
{
    struct random random = random_start(1, 0);
    unsigned char damaged[FILE_BYTES];
    EXPECT(program_file_valid(&key, file, FILE_BYTES));
    for (int i = 0; i < 10000; ++i) {
        memcpy(damaged, file, FILE_BYTES);
        for (int64_t n = random_between(&random, 1, 8); n > 0; --n) {
            damaged[random_between(&random, 0, FILE_BYTES - 1)] ^= (unsigned char)(1u << random_between(&random, 0, 7));
        }
        EXPECT(memcmp(damaged, file, FILE_BYTES) == 0 || !program_file_valid(&key, damaged, FILE_BYTES));
    }
}

static void test_wrong_key(void)
{
    EXPECT(writes() && rename(key_path(&key), key_path(&other_key)) == 0);
    EXPECT(reads_as(PROGRAM_FOLDER_OWN, &other_key, binary) == 0 && reads() == 0);
    unlink(key_path(&other_key));
}

/* ---- who and what --------------------------------------------------------------------------- */

static int nobody_reads_installed(void)
{
    return reads_as(PROGRAM_FOLDER_INSTALLED, &key, binary) == 1 && reads() == 0;
}

static int has_no_cache(void)
{
    struct device device = { 0 };
    struct program_cache *cache = NULL;
    return program_cache_open(&device, &cache) == CLATTN_OK && cache == NULL;
}

static int has_cache(void)
{
    struct device device = { 0 };
    struct program_cache *cache = NULL;
    int opened = program_cache_open(&device, &cache) == CLATTN_OK && cache != NULL;
    program_cache_close(cache);
    return opened;
}

static void test_owner(void)
{
    setenv("CLATTN_CACHE_DIR", folder_path(""), 1);
    EXPECT(in_child(0, has_cache));
    setenv("CLATTN_CACHE", "off", 1);
    EXPECT(in_child(0, has_no_cache));
    unsetenv("CLATTN_CACHE");
    if (geteuid() != 0) {
        skip("other owners, effective users: needs root", 4);
    } else {
        EXPECT(writes() && chown(key_path(&key), NOBODY, (gid_t)-1) == 0 && reads() == 0);
        EXPECT(writes() && reads() == 1); /* replaced */
        EXPECT(chown(folder_path(""), NOBODY, (gid_t)-1) == 0 && reads() == 0 && !writes());
        EXPECT(chown(folder_path(""), 0, (gid_t)-1) == 0 && reads() == 1);
        EXPECT(chmod(folder_path(""), 0755) == 0 && chmod(key_path(&key), 0644) == 0);
        EXPECT(in_child(NOBODY, nobody_reads_installed));
        EXPECT(in_child(NOBODY, has_no_cache)); /* real user: root */
    }
    unsetenv("CLATTN_CACHE_DIR");
}

static void test_modes(void)
{
    struct stat state;
    EXPECT(writes() && stat(folder_path(""), &state) == 0 && (state.st_mode & 07777) == 0700);
    EXPECT(stat(key_path(&key), &state) == 0 && (state.st_mode & 07777) == 0600);
    EXPECT(chmod(key_path(&key), 0620) == 0 && reads() == 0);
    EXPECT(chmod(key_path(&key), 0602) == 0 && reads() == 0);
    EXPECT(chmod(key_path(&key), 0600) == 0 && reads() == 1);
    EXPECT(chmod(folder_path(""), 0770) == 0 && reads() == 0 && !writes());
    EXPECT(chmod(folder_path(""), 0707) == 0 && reads() == 0 && !writes());
    EXPECT(chmod(folder_path(""), 0700) == 0 && reads() == 1);
}

static void test_file_in_place(void)
{
    char elsewhere[FOLDER_PATH_BYTES];
    struct stat state;
    snprintf(elsewhere, sizeof(elsewhere), "%s", folder_path("elsewhere"));
    EXPECT(writes() && rename(key_path(&key), elsewhere) == 0 && symlink(elsewhere, key_path(&key)) == 0);
    EXPECT(reads() == 0); /* though what it points to is good */
    EXPECT(truncate(elsewhere, 5) == 0 && writes() && reads() == 1);
    EXPECT(stat(elsewhere, &state) == 0 && state.st_size == 5); /* the link was replaced, not followed */
    EXPECT(unlink(key_path(&key)) == 0 && mkdir(key_path(&key), 0700) == 0);
    EXPECT(reads() == 0 && !writes() && count_files(PROGRAM_TEMPORARY_PREFIX) == 0);
    EXPECT(rmdir(key_path(&key)) == 0 && mkfifo(key_path(&key), 0600) == 0);
    EXPECT(reads() == 0 && writes() && reads() == 1);
    EXPECT(unlink(key_path(&key)) == 0 && symlink("/dev/zero", key_path(&key)) == 0 && reads() == 0);
}

static void test_folder_in_place(void)
{
    char real[FOLDER_PATH_BYTES], made[FOLDER_PATH_BYTES];
    snprintf(real, sizeof(real), "%s.real", folder_path(""));
    EXPECT(writes() && rename(folder_path(""), real) == 0 && symlink(real, folder_path("")) == 0);
    EXPECT(reads() == 0 && !program_file_write(folder_path(""), &other_key, binary, BINARY_BYTES, 0));
    EXPECT(unlink(folder_path("")) == 0 && symlink("/nonexistent", folder_path("")) == 0 && !writes());
    EXPECT(unlink(folder_path("")) == 0);
    int fd = open(folder_path(""), O_WRONLY | O_CREAT, 0600); /* a file */
    EXPECT(fd >= 0 && close(fd) == 0 && reads() == 0 && !writes());
    EXPECT(unlink(folder_path("")) == 0 && rename(real, folder_path("")) == 0 && reads() == 1);
    EXPECT(count_files("") == 1);
    snprintf(made, sizeof(made), "%s/a//b/c", folder_path(""));
    EXPECT(program_file_write(made, &key, binary, BINARY_BYTES, 0)); /* parents are made */
}

static int nobody_is_refused(void)
{
    return reads() == 1 && !program_file_write(folder_path(""), &other_key, binary, BINARY_BYTES, 0) && reads() == 1;
}

static void test_read_only_folder(void)
{
    const uid_t user = geteuid() == 0 ? NOBODY : 0; /* root may write everywhere */
    EXPECT(writes() && chmod(folder_path(""), 0500) == 0);
    if (user) {
        EXPECT(chown(key_path(&key), user, (gid_t)-1) == 0 && chown(folder_path(""), user, (gid_t)-1) == 0);
    }
    EXPECT(in_child(user, nobody_is_refused));
    EXPECT(chmod(folder_path(""), 0700) == 0 && count_files("") == 1);
}

static int refuses_large_files(void)
{
    const struct rlimit limit = { FILE_BYTES - 1, FILE_BYTES - 1 };
    return setrlimit(RLIMIT_FSIZE, &limit) == 0 && !writes() && count_files("") == 0;
}

static void test_size_limit(void)
{
    EXPECT(writes() && unlink(key_path(&key)) == 0);
    EXPECT(in_child(0, refuses_large_files));
}

/* ---- many at once --------------------------------------------------------------------------- */

static pid_t start_writer(unsigned char content, int count)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        unsigned char own[BINARY_BYTES];
        int all = 1;
        alarm(60);
        memset(own, content, sizeof(own));
        for (int i = 0; i != count; ++i) {
            all &= program_file_write(folder_path(""), &key, own, sizeof(own), 0);
        }
        _exit(!all);
    }
    return child;
}

/* The content of a whole file, 0: nothing there, -1: a mixture. */
static int content_there(void)
{
    size_t size = 0;
    unsigned char *bytes = program_file_read(folder_path(""), PROGRAM_FOLDER_OWN, &key, &size);
    int content = bytes ? bytes[PROGRAM_FILE_HEADER_BYTES] : 0;
    for (size_t i = PROGRAM_FILE_HEADER_BYTES; i < size; ++i) {
        content = bytes[i] == content ? content : -1;
    }
    free(bytes);
    return content;
}

static void test_killed_writers(void)
{
    struct random random = random_start(2, 0);
    int with_file = 0;
    for (int i = 0; i < 100; ++i) {
        int state;
        pid_t writer = start_writer(7, -1);
        usleep((useconds_t)random_between(&random, 0, 4000));
        kill(writer, SIGKILL);
        waitpid(writer, &state, 0);
        int content = content_there();
        EXPECT(content == 0 || content == 7);
        with_file += content == 7;
        unlink(key_path(&key));
    }
    EXPECT(with_file > 0);            /* or none of them ever wrote */
    EXPECT(writes() && reads() == 1); /* nothing stands in the way */
}

static void test_racing_writers(void)
{
    for (int i = 0; i < 4; ++i) {
        start_writer((unsigned char)(i + 1), 100);
    }
    int seen = 0, state = 0, whole = 1;
    for (int running = 4; running > 0;) {
        int content = content_there();
        whole &= content >= 0 && content <= 4 && (content > 0 || !seen);
        seen |= content > 0;
        if (waitpid(-1, &state, WNOHANG) > 0) {
            EXPECT(WIFEXITED(state) && WEXITSTATUS(state) == 0);
            --running;
        }
    }
    EXPECT(whole && seen);
    EXPECT(content_there() > 0 && count_files(PROGRAM_TEMPORARY_PREFIX) == 0);
}

static void age(const char *name, int seconds)
{
    const struct timespec times[2] = { { time(NULL) - seconds, 0 }, { time(NULL) - seconds, 0 } };
    EXPECT(utimensat(AT_FDCWD, name, times, 0) == 0);
}

static void test_trimming(void)
{
    const size_t limit = 4 * FILE_BYTES;
    for (unsigned char i = 10; i < 14; ++i) {
        const struct program_key k = { { i } };
        EXPECT(program_file_write(folder_path(""), &k, binary, BINARY_BYTES, limit));
        age(key_path(&k), 100 - i);
    }
    const struct program_key oldest = { { 10 } }, next = { { 11 } };
    EXPECT(reads_as(PROGRAM_FOLDER_OWN, &oldest, binary) == 1); /* used: the oldest no more */
    static const char *const others[] = { "notes.txt", PROGRAM_TEMPORARY_PREFIX "1-2-3",
                                          PROGRAM_TEMPORARY_PREFIX "4-5-6" };
    for (size_t i = 0; i < 3; ++i) {
        close(open(folder_path(others[i]), O_WRONLY | O_CREAT, 0600));
        age(folder_path(others[i]), i < 2 ? 7200 : 60);
    }
    EXPECT(program_file_write(folder_path(""), &key, binary, BINARY_BYTES, limit));
    EXPECT(reads_as(PROGRAM_FOLDER_OWN, &oldest, binary) == 1 && reads() == 1);
    EXPECT(reads_as(PROGRAM_FOLDER_OWN, &next, binary) == 0);
    EXPECT(access(folder_path(others[0]), F_OK) == 0); /* not ours */
    EXPECT(access(folder_path(others[1]), F_OK) != 0); /* left behind two hours ago */
    EXPECT(access(folder_path(others[2]), F_OK) == 0); /* perhaps being written */
}

int main(void)
{
    static void (*const tests[])(void) = {
        test_digest,     test_truncations,    test_header_bits,    test_random_flips,    test_wrong_key,
        test_owner,      test_modes,          test_file_in_place,  test_folder_in_place, test_read_only_folder,
        test_size_limit, test_killed_writers, test_racing_writers, test_trimming,
    };
    struct random random = random_start(3, 0);
    unsetenv("CLATTN_CACHE"); /* make check turns the cache off for all tests */
    for (size_t i = 0; i < BINARY_BYTES; ++i) {
        binary[i] = (unsigned char)random_between(&random, 0, 255);
    }
    program_file_header(&key, binary, BINARY_BYTES, file);
    memcpy(file + PROGRAM_FILE_HEADER_BYTES, binary, BINARY_BYTES);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); ++i) {
        folder_begin();
        tests[i]();
        folder_end();
    }
    return report();
}
