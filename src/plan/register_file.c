/* The vector registers that a CPU device's compiler has. */
#include "plan/register_file.h"

#include "plan/ladder.h"

static const struct {
    const char *name;
    int count, bytes;
} files[REGISTER_FILE_COUNT] = {
    [REGISTERS_16_OF_4] = { "16 of 4", 16, 16 },
    [REGISTERS_32_OF_4] = { "32 of 4", 32, 16 },
    [REGISTERS_16_OF_8] = { "16 of 8", 16, 32 },
    [REGISTERS_32_OF_16] = { "32 of 16", 32, 64 },
};

enum register_file register_file_of(struct ask *ask)
{
    if (ask->context->device.device_class != DEVICE_CPU) {
        return REGISTERS_16_OF_4;
    }
    return ladder_has(ask, RUNG_AVX512, NULL) ? REGISTERS_32_OF_16
           : ladder_has(ask, RUNG_AVX2, NULL) ? REGISTERS_16_OF_8
           : ladder_has(ask, RUNG_NEON, NULL) ? REGISTERS_32_OF_4
                                              : REGISTERS_16_OF_4;
}

const char *register_file_name(enum register_file registers)
{
    return files[registers].name;
}

int register_count(enum register_file registers)
{
    return files[registers].count;
}

int register_bytes(enum register_file registers)
{
    return files[registers].bytes;
}
