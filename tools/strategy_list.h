/* The library's table of strategies, as the command needs it: attention's, in their order. */
#ifndef CLATTN_TOOLS_STRATEGY_LIST_H
#define CLATTN_TOOLS_STRATEGY_LIST_H

#include "clattn.h"

/* Their names, then NULL. */
const char *const *strategy_list_names(void);

/* Whether it is one of the strategies of that name that computes in `type`: attention, or its gradients. */
int strategy_list_computes(const char *name, clattn_type type, int gradients);

#endif
