/* A context, with what each floor above it keeps there. */
#ifndef CLATTN_SRC_NEW_CONTEXT_H
#define CLATTN_SRC_NEW_CONTEXT_H

#include "program/context.h"

clattn_status new_context(cl_context cl, cl_device_id device, const clattn_context_options *options,
                          clattn_context **context);

#endif
