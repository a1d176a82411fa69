/* A folder for one test, counted expectations, and the last line that ./check reads. */
#ifndef CLATTN_TESTS_CACHE_FOLDER_H
#define CLATTN_TESTS_CACHE_FOLDER_H

#define FOLDER_PATH_BYTES 512

/* Each test has a place of its own, in $TMPDIR or /tmp. In it, `cache` is the folder of the test; it is not
 * made. folder_end removes all. */
void folder_begin(void);
void folder_end(void);

/* A path in the folder; "" is the folder itself. Valid until the sixth call from here. */
const char *folder_path(const char *name);

/* Entries of the folder whose name starts with `start`. */
int count_files(const char *start);

/* Counts; a failure is shown with its line. */
#define EXPECT(condition) expect((condition) != 0, #condition, __FILE__, __LINE__)
void expect(int holds, const char *condition, const char *file, int line);
void skip(const char *why, int count);

/* Prints "N passed, N failed, N skipped"; what main returns. */
int report(void);

#endif
