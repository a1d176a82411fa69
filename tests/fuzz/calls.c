/* Problems and calls of every operation that has a reference, checked and no more, without a device or a plan: what is
 * taken reaches where it says, what is refused is told why (tests/fuzz/problems.c plans and computes them).
 *
 * Byte 0: the kind of problem; then what trials.h says. */
#include "trials.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct trial trial;
    struct fuzz_bytes bytes = { data, data + size };
    const struct kind *kind = &kinds[fuzz_byte(&bytes) % kind_count];
    if (kind->look) {
        trial_start(&bytes, kind, &trial);
        (void)trial_call(&bytes, kind, &trial);
    }
    return 0;
}
