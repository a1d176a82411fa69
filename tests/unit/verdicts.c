/* Verdicts on programs: what is kept in memory and on disk, who holds a trial, and what a process that died in one
 * leaves. Two `verdicts` of one process are as two processes: their files are locked apart. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program/verdicts.h"

#include "suite.h"

static char folder[64];
static struct device device;
static struct program_key key;

static struct verdicts *open_verdicts(const char *wanted)
{
    struct verdicts *verdicts = NULL;
    setenv("CLATTN_SELF_CHECK", wanted, 1);
    ck_assert_int_eq(verdicts_open(&device, &verdicts), CLATTN_OK);
    return verdicts;
}

static void setup(void)
{
    static const char *const texts[] = { "kernels" };
    snprintf(folder, sizeof(folder), "/tmp/clattn-verdicts-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    setenv("CLATTN_CACHE", "on", 1);
    setenv("CLATTN_CACHE_DIR", folder, 1);
    snprintf(device.name, sizeof(device.name), "a device");
    struct verdicts *verdicts = open_verdicts("always");
    verdicts_key(verdicts, texts, 1, &key);
    verdicts_close(verdicts);
}

/* Files in the folder; they are removed. */
static int files(int remove_them)
{
    int count = 0;
    DIR *stream = opendir(folder);
    for (struct dirent *entry; stream && (entry = readdir(stream));) {
        char path[400];
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.') {
            ++count;
            ck_assert(!remove_them || unlink(path) == 0);
        }
    }
    if (stream) {
        closedir(stream);
    }
    return count;
}

static void teardown(void)
{
    files(1);
    rmdir(folder);
}

/* What verdicts say of the key; a trial that begins is left to the caller. */
static void expect(struct verdicts *verdicts, enum verdict_kind kind, const char *reason, struct verdict_trial *trial)
{
    struct text why = TEXT_INIT;
    struct verdict_trial own;
    const enum verdict_kind found = verdicts_begin(verdicts, &key, "a trial", trial ? trial : &own, &why);
    ck_assert_int_eq(found, kind);
    ck_assert_str_eq(why.data ? why.data : "", reason);
    text_free(&why);
}

/* What another process finds. */
static void expect_elsewhere(enum verdict_kind kind, const char *reason)
{
    struct verdict_trial trial;
    struct verdicts *other = open_verdicts("always");
    expect(other, kind, reason, &trial);
    if (kind == VERDICT_NONE) {
        verdicts_end(&trial, VERDICT_NONE, "");
    }
    verdicts_close(other);
}

START_TEST(test_verdicts_are_kept)
{
    static const struct {
        enum verdict_kind kind;
        const char *why, *reason;
    } rows[] = { { VERDICT_GOOD, "its known answers", "" },
                 { VERDICT_BAD, "out[0] is wrong", "out[0] is wrong" },
                 { VERDICT_BAD, "the first line\nthe second", "the first line" },
                 { VERDICT_BAD, "%s %n", "%s %n" } };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
        struct verdict_trial trial;
        struct verdicts *verdicts = open_verdicts("always");
        expect(verdicts, VERDICT_NONE, "", &trial);
        verdicts_end(&trial, rows[i].kind, rows[i].why);
        expect(verdicts, rows[i].kind, rows[i].reason, NULL);
        expect_elsewhere(rows[i].kind, rows[i].reason);
        ck_assert_int_eq(files(1), 1);
        expect(verdicts, rows[i].kind, rows[i].reason, NULL); /* in memory */
        verdicts_close(verdicts);
    }
}
END_TEST

/* Who reads the file does not know who wrote it. */
START_TEST(test_no_control_character_comes_out_of_a_file)
{
    struct verdict_trial trial;
    struct verdicts *verdicts = open_verdicts("always");
    expect(verdicts, VERDICT_NONE, "", &trial);
    verdicts_end(&trial, VERDICT_BAD, "\033[31mred\302\233~\177");
    expect_elsewhere(VERDICT_BAD, "?[31mred??~?");
    verdicts_close(verdicts);
}
END_TEST

START_TEST(test_nothing_came_out)
{
    struct verdict_trial trial;
    struct verdicts *verdicts = open_verdicts("always");
    for (int i = 0; i < 2; ++i) {
        expect(verdicts, VERDICT_NONE, "", &trial);
        ck_assert_int_eq(files(0), 1);
        verdicts_end(&trial, VERDICT_NONE, "memory ran out");
        ck_assert_int_eq(files(0), 0);
    }
    verdicts_close(verdicts);
}
END_TEST

/* Who comes upon a trial that is under way tries by itself, and leaves the file alone. */
START_TEST(test_a_trial_under_way)
{
    struct verdict_trial trial, second;
    struct verdicts *verdicts = open_verdicts("always"), *other = open_verdicts("always");
    expect(verdicts, VERDICT_NONE, "", &trial);
    expect(other, VERDICT_NONE, "", &second);
    ck_assert_int_eq(second.file, -1);
    verdicts_end(&second, VERDICT_BAD, "of the second");
    expect(other, VERDICT_BAD, "of the second", NULL);
    verdicts_end(&trial, VERDICT_GOOD, "of the first");
    expect_elsewhere(VERDICT_GOOD, "");
    expect(other, VERDICT_BAD, "of the second", NULL);
    verdicts_close(verdicts);
    verdicts_close(other);
}
END_TEST

static void end_in_a_trial(void)
{
    struct verdict_trial trial;
    const pid_t child = fork();
    if (child == 0) {
        expect(open_verdicts("always"), VERDICT_NONE, "", &trial);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
}

/* The first may have been its user's doing. */
START_TEST(test_processes_that_ended)
{
    struct verdict_trial trial;
    struct text why = TEXT_INIT;
    end_in_a_trial();
    end_in_a_trial();
    struct verdicts *verdicts = open_verdicts("always");
    ck_assert_int_eq(verdicts_begin(verdicts, &key, "a trial", &trial, &why), VERDICT_BAD);
    ck_assert_ptr_nonnull(strstr(why.data, "two processes ended, one after the other, while they tried a trial"));
    text_free(&why);
    verdicts_close(verdicts);
}
END_TEST

START_TEST(test_a_process_that_ended_alone)
{
    struct verdict_trial trial;
    end_in_a_trial();
    struct verdicts *verdicts = open_verdicts("always");
    expect(verdicts, VERDICT_NONE, "", &trial);
    verdicts_end(&trial, VERDICT_GOOD, "this time");
    expect_elsewhere(VERDICT_GOOD, "");
    verdicts_close(verdicts);
}
END_TEST

/* What was found before does not count; what is found anew does. */
START_TEST(test_again)
{
    struct verdict_trial trial;
    struct verdicts *before = open_verdicts("always");
    expect(before, VERDICT_NONE, "", &trial);
    verdicts_end(&trial, VERDICT_BAD, "of an old driver");
    ck_assert(!verdicts_start_again(before) && !verdicts_start_again(NULL));
    struct verdicts *again = open_verdicts("again");
    ck_assert(verdicts_start_again(again));
    expect(again, VERDICT_NONE, "", &trial);
    verdicts_end(&trial, VERDICT_GOOD, "now");
    expect(again, VERDICT_GOOD, "", NULL);
    expect_elsewhere(VERDICT_GOOD, "");
    verdicts_close(before);
    verdicts_close(again);
}
END_TEST

/* Each text, where one ends, and the device are in the key. */
START_TEST(test_keys)
{
    static const char *const texts[][2] = { { "ab", "c" }, { "a", "bc" }, { "ab", "" }, { "ab", "d" } };
    struct program_key keys[5];
    struct verdicts *verdicts = open_verdicts("always");
    for (int i = 0; i < 4; ++i) {
        verdicts_key(verdicts, texts[i], 2, &keys[i]);
    }
    verdicts_close(verdicts);
    snprintf(device.driver, sizeof(device.driver), "a new driver");
    verdicts = open_verdicts("always");
    verdicts_key(verdicts, texts[0], 2, &keys[4]);
    verdicts_close(verdicts);
    device.driver[0] = 0;
    for (int i = 0; i < 5; ++i) {
        for (int j = 0; j < i; ++j) {
            ck_assert_int_ne(memcmp(&keys[i], &keys[j], sizeof(keys[i])), 0);
        }
    }
}
END_TEST

/* In memory alone; one key's verdict is not another's. */
START_TEST(test_without_a_folder)
{
    struct verdict_trial trial;
    setenv("CLATTN_CACHE", "off", 1);
    struct verdicts *verdicts = open_verdicts("always");
    expect(verdicts, VERDICT_NONE, "", &trial);
    verdicts_end(&trial, VERDICT_BAD, "wrong");
    expect(verdicts, VERDICT_BAD, "wrong", NULL);
    key.bytes[0] ^= 1;
    expect(verdicts, VERDICT_NONE, "", &trial);
    verdicts_end(&trial, VERDICT_GOOD, "right");
    expect(verdicts, VERDICT_GOOD, "", NULL);
    key.bytes[0] ^= 1;
    expect(verdicts, VERDICT_BAD, "wrong", NULL);
    ck_assert_int_eq(files(0), 0);
    verdicts_close(verdicts);
}
END_TEST

START_TEST(test_who_is_checked)
{
    struct verdicts *verdicts = NULL;
    ck_assert_ptr_null(open_verdicts("off"));
    setenv("CLATTN_SELF_CHECK", "maybe", 1);
    ck_assert_int_eq(verdicts_open(&device, &verdicts), CLATTN_INVALID_ARGUMENT);
    unsetenv("CLATTN_SELF_CHECK");
    ck_assert(verdicts_are_wanted(&device)); /* no driver that the tests run on */
    setenv("CLATTN_SELF_CHECK", "", 1);
    ck_assert(verdicts_are_wanted(&device));
}
END_TEST

int main(void)
{
    const suite_test tests[] = { test_verdicts_are_kept,
                                 test_no_control_character_comes_out_of_a_file,
                                 test_nothing_came_out,
                                 test_a_trial_under_way,
                                 test_processes_that_ended,
                                 test_a_process_that_ended_alone,
                                 test_again,
                                 test_keys,
                                 test_without_a_folder,
                                 test_who_is_checked };
    Suite *suite = suite_create("verdicts");
    TCase *group = tcase_create("verdicts");
    tcase_add_checked_fixture(group, setup, teardown);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); ++i) {
        tcase_add_test(group, tests[i]);
    }
    suite_add_tcase(suite, group);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
