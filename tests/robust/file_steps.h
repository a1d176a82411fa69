/* What reads and writes files, on the null driver: each a function that does it wholly, made ready and looked at in
 * processes of their own. For file_faults.c. */
#ifndef CLATTN_TESTS_ROBUST_FILE_STEPS_H
#define CLATTN_TESTS_ROBUST_FILE_STEPS_H

#include <stddef.h>

#define MESSAGE_BYTES 2048
#define ENVIRONMENT_NAMES 4

enum file_state { STATE_OLD, STATE_NEW, STATE_TORN };

struct step {
    const char *name;
    struct {
        const char *name, *value; /* '@' in front: in the folder of the test */
    } environment[ENVIRONMENT_NAMES];
    void (*prepare)(void);
    int (*run)(char *message);     /* 1: done */
    enum file_state (*look)(void); /* NULL: nothing to see. It must be new after the step */
    int works_without;             /* of files: whatever fails with them */
    int look_at_once;              /* looking changes nothing: old or new, after each fault */
    void (*later)(void);           /* that, or NULL: the step, removes what killed processes left */
};

extern const struct step steps[];
extern const size_t step_count;

/* Ends the process where it does not hold. */
void step_must(int holds, const char *what);

/* The command's steps (file_steps_command.c). */
void step_write_old_output(void), step_write_old_output_behind_link(void), step_write_old_picture(void);
void step_write_inputs(void);
int step_output(char *message), step_output_behind_link(char *message), step_picture(char *message);
int step_read_npy(char *message), step_read_safetensors(char *message), step_read_pipe(char *message);
enum file_state step_look_at_output(void), step_look_behind_link(void), step_look_at_picture(void);

#endif
