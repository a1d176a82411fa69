/* What a plug-in computes, and why it leaves nodes to others: counted, told as lines of text, and on stderr where the
 * environment asks for that. All functions: any thread. */
#ifndef CLATTN_PLUGIN_COUNTS_H
#define CLATTN_PLUGIN_COUNTS_H

#include <stdatomic.h>
#include <stddef.h>

struct count {
    const char *what;
    atomic_ulong times;
};

struct counts {
    const char *plugin, *variable; /* begins lines on stderr; the environment's, which asks for them */
    struct count *row;
    size_t rows, always; /* the first ones are told also where nothing came */
};

/* Whether the variable is set, neither empty nor "0". */
int counts_are_logged(const struct counts *counts);

/* How often this came before. */
unsigned long counts_add(const struct counts *counts, size_t row);

/* Lines "COUNT WHAT", in the rows' order. Writes at most `size` bytes, with the 0 behind, and returns how many the
 * whole text has without it. */
size_t counts_report(const struct counts *counts, char *text, size_t size);

/* Those lines on stderr, where they are logged. */
void counts_log(const struct counts *counts);

#endif
