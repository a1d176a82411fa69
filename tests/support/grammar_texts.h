/* Random texts of a small grammar, each with its twins: a tree that is printed in OpenCL C, as a score, its derivative
 * and a mask, and that callbacks walk in double. */
#ifndef CLATTN_TESTS_SUPPORT_GRAMMAR_TEXTS_H
#define CLATTN_TESTS_SUPPORT_GRAMMAR_TEXTS_H

#include "user_codes.h"

#define GRAMMAR_TEXTS 500

/* Number n % GRAMMAR_TEXTS of them, the same in each run; NULL: no memory. It lives as long as the process. */
const struct test_code *grammar_text(uint64_t n);

#endif
