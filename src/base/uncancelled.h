/* A thread that is cancelled (pthread_cancel) inside a driver or a compiler leaves their locks held, and every later
 * call of the process waits for ever. So exported functions that may call them put cancelling off until they return. */
#ifndef CLATTN_SRC_UNCANCELLED_H
#define CLATTN_SRC_UNCANCELLED_H

#include <pthread.h>

#ifdef PTHREAD_CANCEL_DISABLE /* not everywhere, and where not, nobody cancels */
static inline int uncancelled_begin(void)
{
    int before = PTHREAD_CANCEL_ENABLE;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

static inline void uncancelled_end(const int *before)
{
    int disabled;
    pthread_setcancelstate(*before, &disabled);
}

/* The first line of a function: until it returns. */
#define UNCANCELLED const int uncancelled_before __attribute__((unused, cleanup(uncancelled_end))) = uncancelled_begin()
#else
#define UNCANCELLED ((void)0)
#endif

#endif
