/* How long something took, and waiting. */
#ifndef CLATTN_SRC_CLOCK_H
#define CLATTN_SRC_CLOCK_H

/* Milliseconds from some start, which never go back. */
double clock_ms(void);

/* The calling thread sleeps so long; less where a signal comes. */
void clock_idle(double ms);

#endif
