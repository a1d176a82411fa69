/* Calls of every operation that has a reference, checked without a device and without a plan: nothing is taken that
 * reaches elsewhere than it says, and small calls are computed by the reference.
 *
 * Byte 0: the kind of problem; then what trials.h says. */
#include "trials.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct trial trial;
    struct fuzz_bytes bytes = { data, data + size };
    const struct kind *kind = &kinds[fuzz_byte(&bytes) % kind_count];
    if (!kind->look) {
        return 0;
    }
    trial_start(&bytes, kind, &trial);
    const struct operands *operands = trial_call(&bytes, kind, &trial);
    if (operands) {
        trial_compute(&bytes, kind, &trial, operands);
    }
    return 0;
}
