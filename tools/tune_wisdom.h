/* The file of wisdom, as `clattn tune` shows, writes and empties it. */
#ifndef CLATTN_TOOLS_TUNE_WISDOM_H
#define CLATTN_TOOLS_TUNE_WISDOM_H

#include "clattn.h"
#include "failure.h"
#include "insides.h"
#include "tune.h"

/* That no variable names a folder for it. */
int tune_no_folder(struct failure *failure);

/* What plans choose from: as lines, as a JSON document. */
int tune_list(const clattn_context *context, struct failure *failure);
int tune_export(const clattn_context *context, struct failure *failure);

/* Removes what the user's file has. */
int tune_forget(const clattn_context *context, struct failure *failure);

/* What the file has by now, which another process may have written, with this one's news. */
int tune_keep(clattn_context *context, const struct tuned *tuned, struct failure *failure);

/* So that no other process tunes the device meanwhile, which would measure both, and write the same file. Waits until
 * it may; 1: Ctrl-C ended that. *lock is given back by wisdom_unlock, or by the end of the process. */
int tune_begin_alone(const clattn_context *context, int *lock, struct failure *failure);

void tune_print_tile(const struct wisdom_tile *tile);
double tune_gain_of(const struct wisdom_fact *fact); /* how many times as fast */

#endif
