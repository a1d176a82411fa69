/* A line on stderr while something takes longer than two seconds, when stderr is a terminal, and a
 * clock. One at a time. A line that the terminal would break could not be taken back: it is cut, its subject first. */
#ifndef CLATTN_TOOLS_PROGRESS_H
#define CLATTN_TOOLS_PROGRESS_H

#include <stddef.h>
#include <stdint.h>

/* "clattn run: compiling kernels, 3 s" until progress_end. `what` must stay valid. */
void progress_begin(const char *command, const char *what);
void progress_end(void);

/* Bytes that are to be read or written until then, and that were: the line tells both, "1.2 of 4.0 GB", where there are
 * many. */
void progress_expect(uint64_t bytes);
void progress_add(uint64_t bytes);
void progress_take_back(uint64_t bytes); /* they were kept only, and are counted when they are read again */

/* What the line tells of them: ", 1.2 of 4.0 GB"; nothing of few bytes, or of none. */
void progress_amount(char *text, size_t size);

/* Steps of how many are done; the line has a bar of them. 0 of 0: it has none. */
void progress_steps(unsigned done, unsigned of);

/* What is worked on, of how many: the line names both from now on, "clattn bench: L512, 3 of 14: measuring, 4 s". NULL:
 * nothing. `name` must stay valid. */
void progress_subject(const char *name, size_t number, size_t of);

/* The line with a text of its own, at once; an empty text removes it. Not between the two above. */
void progress_line(const char *command, const char *text);

/* An interrupt (Ctrl-C) ends the line that a progress stands in, or the terminal's own ^C, so that the shell's prompt
 * has one of its own; then it ends the command as ever. */
void progress_end_line_at_interrupt(void);

double clock_seconds(void);         /* that has passed, from some start */
double clock_process_seconds(void); /* that all processors spent on this process */

#endif
