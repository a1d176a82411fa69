/* What the files of the program growth share: tries of calls, tensors. */
#ifndef CLATTN_TESTS_CONSUMER_GROWTH_TRIES_H
#define CLATTN_TESTS_CONSUMER_GROWTH_TRIES_H

#include <clattn_backward.h>
#include <clattn_cache.h>
#include <clattn_code.h>
#include <clattn_costs.h>
#include <clattn_key_sums.h>
#include <clattn_layers.h>
#include <clattn_ring.h>

extern float data[64]; /* inputs of all calls */

/* Prints what is not as it should be, and makes the program fail. */
void expect(clattn_status got, clattn_status wanted, const char *what);

/* The call works; and with a field that this library does not know it is refused. */
#ifdef NEWER
#define TRY(call, given, what)                                                                                         \
    do {                                                                                                               \
        expect(call, CLATTN_OK, what);                                                                                 \
        (given).field_of_the_future = 1;                                                                               \
        expect(call, CLATTN_UNSUPPORTED, what ", asking for something new");                                           \
        (given).field_of_the_future = 0;                                                                               \
    } while (0)
#else
#define TRY(call, given, what) expect(call, CLATTN_OK, what)
#endif

clattn_host_tensor host_tensor(float *values);
clattn_tensor device_tensor(cl_mem buffer, int64_t columns);

/* growth_layers.c: the structs of layers and of their gradients. */
void layers(clattn_context *context, cl_command_queue queue, cl_mem in, cl_mem out);
void layer_gradients(clattn_context *context, cl_command_queue queue, cl_mem in, cl_mem out);
void additive_gradients(clattn_context *context, cl_command_queue queue, cl_mem in, cl_mem out);

#endif
