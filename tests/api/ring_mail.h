/* A carrier of messages between threads (mpi/ranks.h), which delivers late: what is sent is there only after some looks
 * for it, in the order of sending for each tag. */
#ifndef CLATTN_TESTS_API_RING_MAIL_H
#define CLATTN_TESTS_API_RING_MAIL_H

#include <pthread.h>

#include "../../mpi/ranks.h"

struct post;
struct post *post_open(int64_t ranks);
void post_close(struct post *post); /* nothing may be on its way */
struct carrier post_carrier(struct post *post, int64_t rank);

#endif
