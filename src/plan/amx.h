/* What strategies by AMX, the matrix unit of x86 CPUs (cl/x86/amx.clh), ask in common. */
#ifndef CLATTN_SRC_AMX_H
#define CLATTN_SRC_AMX_H

#include "plan/ask.h"

/* Tiles hold bfloat16, and float16 as the sum of two parts. */
int amx_holds(clattn_type type);

/* Whether queries, keys or values are float16. */
int amx_splits(const clattn_problem *p);

/* 0: there are no tiles, as the probe says. */
int amx_is_there(struct ask *ask);

/* The products, for explain. */
const char *amx_products(int splits);

#endif
