/* Page pools in several buffers (clattn_problem.pool_pages): asked for by --pools, or because a device gives out no
 * buffer that is large enough. */
#ifndef CLATTN_TOOLS_PAGE_POOLS_H
#define CLATTN_TOOLS_PAGE_POOLS_H

#include <cjson/cJSON.h>

#include "clattn.h"
#include "failure.h"
#include "options.h"

/* --pools N of a problem that has its pages. */
int page_pools_read(const struct options *options, clattn_problem *problem, struct failure *failure);

/* Without --pools: cuts the pool into as few buffers as the context's device needs, each of whole pages. A pool that
 * fits into one stays so, as does one for which all buffers that a pool may have are too few: the library says what is
 * wrong with that. */
void page_pools_fit(const struct options *options, const clattn_context *context, clattn_problem *problem);

/* The further buffers of a pool that lies in one piece of host memory, pages outermost. */
void page_pools_place(const clattn_problem *problem, clattn_host_tensors *tensors);

/* "3 buffers of 34 pages, the last of 32"; only where there are several. */
#define PAGE_POOLS_TEXT 96
const char *page_pools_text(const clattn_problem *problem, char text[PAGE_POOLS_TEXT]);

/* Pools in a document: how many buffers, and the pages of one. */
void page_pools_tell(cJSON *object, const clattn_problem *problem);

#endif
