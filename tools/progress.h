/* A line on stderr while something takes longer than two seconds, when stderr is a terminal, and a
 * clock. One at a time. Used by the commands. */
#ifndef CLATTN_TOOLS_PROGRESS_H
#define CLATTN_TOOLS_PROGRESS_H

/* "clattn run: compiling kernels, 3 s" until progress_end. `what` must stay valid. */
void progress_begin(const char *command, const char *what);
void progress_end(void);

/* The same line with a text of its own, at once; an empty text removes it. Not between the two above. */
void progress_line(const char *command, const char *text);

double clock_seconds(void);         /* that has passed, from some start */
double clock_process_seconds(void); /* that all processors spent on this process */

#endif
