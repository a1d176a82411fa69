/* How long something took. */
#ifndef CLATTN_SRC_CLOCK_H
#define CLATTN_SRC_CLOCK_H

/* Milliseconds from some start, which never go back. */
double clock_ms(void);

#endif
