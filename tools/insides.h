/* What the command asks of the library beyond its public API. It is the only file of tools/ that includes headers of
 * src/ (tests/rules), so that what users do not have, and the command does, stands in one place. */
#ifndef CLATTN_TOOLS_INSIDES_H
#define CLATTN_TOOLS_INSIDES_H

/* Text: growing strings, what a terminal shows of UTF-8, words of C. */
#include "base/text.h"
#include "base/utf8.h"
#include "base/words.h"

/* Arrays in files: one element of any storage type, where the API converts rows; pages that several buffers have. */
#include "base/stored_types.h"
#include "operation/pools.h"

/* --check: the reference's sums with how much each may err, which the API's reference keeps to itself. */
#include "reference/reference.h"
#include "reference/reference_backward.h"
#include "reference/sum_bound.h"
#include "reference/visibility.h"

/* `clattn tune`, and lists of strategies: their table, tiles that no plan of a problem has yet, the file of wisdom. */
#include "operation/backward.h"
#include "operation/forward.h"
#include "operation/problem.h"
#include "plan/strategy.h"
#include "plan/wisdom.h"
#include "plan/wisdom_store.h"

/* `clattn compile` for devices that differ from the one here; where programs are kept; how the library was built. */
#include "program/context.h"
#include "program/gemm.h"
#include "program/program_folder.h"

/* `clattn ring`: what a schedule's tasks and messages come to. */
#include "operation/ring.h"

/* `clattn lesson`: kernels of its own, launched as the library's are, and their random numbers. */
#include "base/error.h"
#include "program/embedded_cl.h"
#include "program/launch.h"
#include "reference/philox.h"

#endif
