/* The text of a kernel file with its includes: what stands where, and how often. */
#include <stdio.h>
#include <string.h>

#include "program/embedded_cl.h"
#include "program/kernel_source.h"

#include "suite.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* A header whose guard is open around all of it; what each of them has is the word "body". */
#define HEADER(guard, text) "#ifndef " guard "\n#define " guard "\n" text "#endif\n"
#define EMBEDDED(name, text)                                                                                           \
    (struct clattn_embedded_file)                                                                                      \
    {                                                                                                                  \
        name, text, strlen(text)                                                                                       \
    }

static int count_of(const char *text, const char *word)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, word)) != NULL; ++at) {
        ++count;
    }
    return count;
}

static char *assemble(const char *main_file, const char *header)
{
    const struct clattn_embedded_file files[] = {
        EMBEDDED("a.clh", header),
        EMBEDDED("b.clh", HEADER("B", "#include \"a.clh\"\n")),
        EMBEDDED("maybe.clh", HEADER("MAYBE", "#if ASKED\n#include \"a.clh\"\n#endif\n")),
        EMBEDDED("main.cl", main_file),
    };
    const struct clattn_embedded_table own = { files, COUNT_OF(files) };
    char *source = NULL;
    ck_assert_int_eq(kernel_source(NULL, NULL, &own, "main.cl", &source), CLATTN_OK);
    return source;
}

/* How often the header must be there: once where that is enough whichever branch counts, else for each place. */
START_TEST(test_how_often)
{
    static const struct {
        const char *main_file;
        int times;
    } rows[] = {
        { "#include \"a.clh\"\n#include \"a.clh\"\n", 1 },
        { "#include \"b.clh\"\n#include \"a.clh\"\n#include \"b.clh\"\n", 1 },
        { "#include \"a.clh\"\n#if X\n#include \"a.clh\"\n#endif\n", 1 },
        { "#if X\n#include \"a.clh\"\n#include \"b.clh\"\n#endif\n", 1 },
        { "#if X\n#include \"a.clh\"\n#endif\n#include \"a.clh\"\n", 2 },
        { "#ifdef X\n#include \"a.clh\"\n#else\n#include \"a.clh\"\n#endif\n", 2 },
        { "#ifndef X\n#include \"a.clh\"\n#elif Y\n#include \"b.clh\"\n#endif\n#include \"a.clh\"\n", 3 },
        { "#if X\n#if Y\n#include \"a.clh\"\n#endif\n#include \"b.clh\"\n#endif\n#include \"a.clh\"\n", 3 },
        { "#include \"maybe.clh\"\n#include \"a.clh\"\n", 2 },
        { "  #  if X\n#include \"a.clh\"\n#\tendif // X\n#include \"a.clh\"\n", 2 },
        { "/*\n#endif */ /* \" */\n#if X\n/* // */\n#include \"a.clh\"\n/*\n#endif\n*/\n#include \"b.clh\"\n#endif\n",
          1 },
        { "/*\n#include \"a.clh\"\n*/\n#include \"a.clh\"\n", 1 },
        { "s = \"/*\\\"\"; // /*\n#if X\n#include \"a.clh\"\n#endif\n#include \"a.clh\"\n", 2 },
        { "#endif\n#include \"a.clh\"\n#include \"a.clh\"\n", 2 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); ++i) {
        char *source = assemble(rows[i].main_file, HEADER("A", "body\n"));
        ck_assert_msg(count_of(source, "body\n") == rows[i].times, "row %zu:\n%s", i, source);
        free(source);
    }
}
END_TEST

/* Headers without such a guard are read as often as they are asked for. */
START_TEST(test_no_guard)
{
    static const char *const headers[] = {
        "body\n",
        "#ifdef A\n#define A\nbody\n#endif\n",
        "#ifndef A\n#define AB\nbody\n#endif\n",
        "#ifndef A\n#define A\n#endif\nbody\n",
        "#ifndef A\n#define A\n#else\nbody\n#endif\n",
        "#ifndef A\n#define A\n#endif\n#if B\nbody\n#endif\n",
        "#if B\n#endif\n#ifndef A\n#define A\nbody\n#endif\n",
        "#ifndef A\n#define A\nbody\n#endif\n\n",
    };
    for (size_t i = 0; i < COUNT_OF(headers); ++i) {
        char *source = assemble("#include \"a.clh\"\n#include \"a.clh\"\n", headers[i]);
        ck_assert_msg(count_of(source, "body\n") == 2, "header %zu:\n%s", i, source);
        free(source);
    }
}
END_TEST

/* More files than are kept in mind, #ifs deeper than are followed: read again, and right. */
START_TEST(test_beyond_bounds)
{
    char deep[4096] = "";
    for (int i = 0; i < 80; ++i) {
        strcat(deep, "#if X\n");
    }
    strcat(deep, "#include \"a.clh\"\n#include \"a.clh\"\n");
    for (int i = 0; i < 80; ++i) {
        strcat(deep, "#endif\n");
    }
    char *source = assemble(deep, HEADER("A", "body\n"));
    ck_assert_int_eq(count_of(source, "body\n"), 2);
    free(source);
}
END_TEST

/* The library's kernels, as compilers get them: a header is there for each branch that asks for it, no more. */
START_TEST(test_kernels_of_the_library)
{
    for (size_t i = 0; i < clattn_embedded_files.count; ++i) {
        char *source = NULL;
        ck_assert_int_eq(kernel_source(NULL, NULL, NULL, clattn_embedded_files.files[i].name, &source), CLATTN_OK);
        for (size_t j = 0; j < clattn_embedded_files.count; ++j) {
            char line[128];
            snprintf(line, sizeof(line), "#line 1 \"%s\"\n", clattn_embedded_files.files[j].name);
            ck_assert_msg(count_of(source, line) <= 3, "%s has %s %d times", clattn_embedded_files.files[i].name,
                          clattn_embedded_files.files[j].name, count_of(source, line));
        }
        free(source);
    }
}
END_TEST

SUITE("kernel_source", test_how_often, test_no_guard, test_beyond_bounds, test_kernels_of_the_library)
