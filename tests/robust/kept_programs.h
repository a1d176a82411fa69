/* Programs that are built once, so that the driver need not compile again for each fault. The program that links
 * kept_programs.c with its --wrap list (tests/robust/local.mk) gives the library, for each program that it makes in one
 * cl_context, one that was built before from the same source with the same options. The calls that then do not reach
 * the driver are counted, and fail, as fault_layer has it. CLBlast's own programs are not among them. One thread. */
#ifndef CLATTN_TESTS_ROBUST_KEPT_PROGRAMS_H
#define CLATTN_TESTS_ROBUST_KEPT_PROGRAMS_H

#include "clattn.h"
#include "icd/fault_layer.h"

/* From now on those of this cl_context, which lives as long as the process, and which whoever makes one of its device
 * gets too. What they are to the layer is counted as
 * living as long as the library has them. */
void kept_programs_start(cl_context context, cl_device_id device, struct fault_layer *layer);

#endif
