/* Attention on several devices of one host: contexts of any platforms, of sub-devices of one CPU too, and one call,
 * whose batch entries, heads, rows or keys they share. What they have in common with clattn.h (contexts, problems, host
 * tensors, ownership, errors) is said there.
 *
 *     clattn_group *group;
 *     clattn_group_open("0:0+1:0", NULL, &group);
 *     clattn_group_forward_host(group, &problem, NULL, &tensors);
 *
 * Calls are blocking, on host memory: each device computes its share from there, or copies it, as clattn_forward_host
 * says. */
#ifndef CLATTN_GROUP_H
#define CLATTN_GROUP_H

#include "clattn_backward.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- groups of devices ---------------------------------------------------------------------- */

typedef struct clattn_group clattn_group;

/* A group of contexts, 1 to CLATTN_GROUP_MOST, each of them once. They stay the caller's, and live longer than the
 * group. */
#define CLATTN_GROUP_MOST 16
CLATTN_API clattn_status clattn_group_create(size_t count, clattn_context *const *contexts, clattn_group **group);

/* A group of contexts of its own, on the devices that a list names: names as those of clattn_context_open, with +
 * between them, such as "0:0+1:0". NULL: the list that CLATTN_DEVICE has, or the one device of
 * clattn_context_open(NULL). `options` may be NULL; a workspace limit is that of each context. */
CLATTN_API clattn_status clattn_group_open(const char *devices, const clattn_context_options *options,
                                           clattn_group **group);

/* No call may be in flight. NULL is allowed. */
CLATTN_API void clattn_group_destroy(clattn_group *group);

/* How many contexts it has, and number `index` of them, which is the group's or its maker's; NULL: there is none. */
CLATTN_API size_t clattn_group_count(const clattn_group *group);
CLATTN_API clattn_context *clattn_group_context(const clattn_group *group, size_t index);

/* As clattn_forward_host and clattn_backward_host, by all devices of the group.
 *
 * Shares: the first call of a problem is computed by each device alone, some times, and by all. One axis is divided
 * by the speeds that were found, the first that divides well: batch entries, key heads with their query heads, rows,
 * keys. The first of the calls of each, in which kernels are compiled, does not count, nor one that was slower than
 * another. What took least, one device or all, is what calls of this problem do from then on, as long as the group
 * lives: shares, and so bits, do not change from call to call. The batch and the rows of packed sequences are not
 * divided, nor an axis over which a gradient is summed, but for dquery's sum over keys. Gradients that are added to
 * what is there are not tried, but divided evenly. clattn_group_explain tells what was found.
 *
 * A device computes its share with the bits that it has for such a problem: on devices of one kind, divided by batch or
 * heads, those of one device. Dropout, and texts of the user's own, see numbers of the whole.
 *
 * Keys are divided by the schedule of clattn_ring.h: a problem that it cannot divide among ranks has its keys whole.
 * Results of some of the keys are float32, and are summed in float64 in the order of keys, out and lse as by
 * clattn_merge. dquery is summed so too, of the lse that is given, where it does not accumulate and the gradients of
 * key, value and bias that are asked for are float32.
 *
 * What is more than a device has memory for, or gives out in one buffer (CL_DEVICE_MAX_MEM_ALLOC_SIZE), it computes in
 * slices, of batch, heads, rows or keys, one after the other: a group of one device does so too.
 *
 * A failure is that of the first device that failed, which its message names; outputs are then not to be used. Threads
 * may call on one group at once. */
CLATTN_API clattn_status clattn_group_forward_host(clattn_group *group, const clattn_problem *problem,
                                                   const clattn_call *call, const clattn_host_tensors *tensors);
CLATTN_API clattn_status clattn_group_backward_host(clattn_group *group, const clattn_backward_problem *problem,
                                                    const clattn_call *call, const clattn_host_tensors *tensors,
                                                    const clattn_host_gradients *gradients);

/* The devices, and for each problem that was called, the last CLATTN_GROUP_KEPT of them, how it is divided and what was
 * measured; lines of text, which the caller frees with clattn_free. */
#define CLATTN_GROUP_KEPT 32
CLATTN_API clattn_status clattn_group_explain(const clattn_group *group, char **text);

#ifdef __cplusplus
}
#endif

#endif
