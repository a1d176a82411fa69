/* What the programs of a context cost. */
#ifndef CLATTN_SRC_PROGRAM_COSTS_H
#define CLATTN_SRC_PROGRAM_COSTS_H

#include "clattn_costs.h"
#include "program/context.h"

/* Adds what programs cost that are built: programs, compiled, compile_ms. */
void program_costs_add(clattn_context *context, clattn_context_costs *costs);

/* Costs of program `index`, from 0 for the one that was done first; CLATTN_INVALID_ARGUMENT: there are not so many. */
clattn_status program_costs_of(clattn_context *context, uint64_t index, clattn_program_costs *costs);

#endif
