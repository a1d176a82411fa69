/* In place of libFuzzer: NAME FOLDER runs the target on each file of the folder as it is, then on CLATTN_FUZZ_COUNT
 * files changed at random (20,000 where that is not set), always the same ones, from number CLATTN_FUZZ_FIRST on.
 * CLATTN_FUZZ_ONLY=N runs number N alone. */
#define _XOPEN_SOURCE 700
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "support/random.h"

#define SEED 20261123
#define BYTES_MAX 4096 /* of a changed file */
#define FILES_MAX 4096

struct kept {
    size_t size;
    unsigned char *bytes;
};

static struct kept kept[FILES_MAX];
static size_t kept_count;
static long running = -1;

/* ---- telling which input it was ---- */

static void tell_input(void)
{
    if (running >= 0) {
        fprintf(stderr, "fuzz: in input %ld: repeat with CLATTN_FUZZ_ONLY=%ld\n", running, running);
    } else {
        fprintf(stderr, "fuzz: in file %ld of the corpus, by name\n", -running);
    }
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#endif
#ifdef SANITIZED
void __sanitizer_set_death_callback(void (*callback)(void));
#define TELL_AT_DEATH() __sanitizer_set_death_callback(tell_input)
#else
#include <signal.h>
static void on_signal(int number)
{
    tell_input();
    signal(number, SIG_DFL);
    raise(number);
}
#define TELL_AT_DEATH()                                                                                                \
    (signal(SIGABRT, on_signal), signal(SIGSEGV, on_signal), signal(SIGFPE, on_signal), signal(SIGALRM, on_signal))
#endif

/* ---- the corpus ---- */

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name); /* the same order in every locale */
}

static int is_kept(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static void keep_file(const char *folder, const char *name)
{
    char path[4096];
    struct kept *file = &kept[kept_count++];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *stream = fopen(path, "rb");
    file->bytes = malloc(BYTES_MAX);
    fuzz_must(stream && file->bytes, "the corpus can be read");
    file->size = fread(file->bytes, 1, BYTES_MAX, stream);
    fclose(stream);
}

static void keep_folder(const char *folder)
{
    struct dirent **entries;
    const int count = scandir(folder, &entries, is_kept, by_name);
    fuzz_must(count > 0 && count <= FILES_MAX, "the corpus has files");
    for (int i = 0; i < count; ++i) {
        keep_file(folder, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
}

/* ---- changes ---- */

static void overwrite(struct random *random, unsigned char *bytes, size_t size)
{
    const size_t at = random_bits(random) % size;
    const struct kept *other = &kept[random_bits(random) % kept_count];
    switch (random_bits(random) % 4) {
    case 0:
        bytes[at] ^= (unsigned char)(1u << random_bits(random) % 8);
        break;
    case 1:
        bytes[at] = (unsigned char)random_bits(random);
        break;
    case 2: { /* one byte again and again: long words, large numbers */
        const size_t length = random_bits(random) % 16;
        memset(bytes + at, bytes[at], length < size - at ? length : size - at);
        break;
    }
    default: /* a piece of another file */
        if (other->size > 0) {
            const size_t from = random_bits(random) % other->size, most = size - at < 64 ? size - at : 64;
            memcpy(bytes + at, other->bytes + from, most < other->size - from ? most : other->size - from);
        }
        break;
    }
}

/* A piece is lost, or put in twice. */
static size_t move(struct random *random, unsigned char *bytes, size_t size)
{
    const size_t at = random_bits(random) % size, piece = 1 + random_bits(random) % 16;
    if (random_chance(random, 0.5) && piece <= size - at) {
        memmove(bytes + at, bytes + at + piece, size - at - piece);
        return size - piece;
    }
    if (piece <= size - at && size + piece <= BYTES_MAX) {
        memmove(bytes + at + piece, bytes + at, size - at);
        return size + piece;
    }
    return size;
}

static size_t change(struct random *random, unsigned char *bytes, size_t size)
{
    const int changes = 1 + (int)(random_bits(random) % 6);
    for (int i = 0; i < changes && size > 0; ++i) {
        if (random_chance(random, 0.7)) {
            overwrite(random, bytes, size);
        } else {
            size = move(random, bytes, size);
        }
    }
    return size;
}

/* ---- running ---- */

/* In memory of just this size, so that reading past it is noticed. */
static void run(const unsigned char *bytes, size_t size)
{
    unsigned char *exact = malloc(size + !size);
    fuzz_must(exact != NULL, "there is memory");
    memcpy(exact, bytes, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

static void run_changed(long number)
{
    struct random random = random_start(SEED, (uint64_t)number);
    const struct kept *file = &kept[random_bits(&random) % kept_count];
    unsigned char bytes[BYTES_MAX];
    memcpy(bytes, file->bytes, file->size);
    running = number;
    run(bytes, change(&random, bytes, file->size));
}

int main(int argc, char **argv)
{
    const char *wanted = getenv("CLATTN_FUZZ_COUNT"), *only = getenv("CLATTN_FUZZ_ONLY");
    const char *from = only ? only : getenv("CLATTN_FUZZ_FIRST");
    const long first = from ? atol(from) : 0, count = only ? 1 : wanted ? atol(wanted) : 20000;
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    TELL_AT_DEATH();
    keep_folder(argv[1]);
    for (size_t i = 0; i < kept_count && !only; ++i) {
        running = -(long)i - 1;
        run(kept[i].bytes, kept[i].size);
    }
    for (long i = first; i < first + count; ++i) {
        run_changed(i);
    }
    printf("%zu kept inputs, %ld changed ones\n", kept_count, count);
    printf("%zu passed, 0 failed, 0 skipped\n", kept_count + 1);
    for (size_t i = 0; i < kept_count; ++i) {
        free(kept[i].bytes);
    }
    return 0;
}
