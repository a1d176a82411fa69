/* The text of clattn_describe_devices. */
#ifndef CLATTN_SRC_DESCRIBE_H
#define CLATTN_SRC_DESCRIBE_H

#include "clattn.h"

/* `wanted` is CLATTN_DEVICE's value or NULL. The caller frees *text. */
clattn_status describe_devices(const char *wanted, int as_json, char **text);

#endif
