/* The table of rates. */
#include "plan/rates.h"

/* What one compute unit does in a millisecond. Guesses, where nothing is said of a device. */
static const struct rate {
    double launch_ms, multiply_adds, bytes, groups;
} rates[RATE_COUNT] = {
    [RATE_SCALAR] = { 0.02, 5e5, 0, 0 },
    /* 33 GB/s and 100 multiply-adds a nanosecond, measured on CPUs; a microsecond a work-group. */
    [RATE_SPLIT] = { 0.02, 1e8, 3.3e7, 1e3 },
    [RATE_SPLIT_SIMT] = { 0.03, 3e7, 1e7, 0 },
    [RATE_SPLIT_SIMT_OFF_GPU] = { 0.03, 3e5, 1e5, 0 }, /* barriers cost more there */
    [RATE_SIMD] = { 0.02, 1e8, 4e7, 0 },
    /* 9e7 measured on cores of 128 lanes (H100), others have 64; off GPUs barriers cost more than tiles save. */
    [RATE_SIMT] = { 0.02, 6e7, 0, 0 },
    [RATE_SIMT_OFF_GPU] = { 0.02, 5e4, 0, 0 },
    /* Half of what counted units bound it to; not measured. */
    [RATE_WGMMA] = { 0.02, 9e8, 0, 0 },
    /* 6e8 measured on an H100, half as many guessed for what most have, of tf32 half of that. */
    [RATE_MMA] = { 0.02, 3e8, 0, 0 },
    [RATE_MMA_TF32] = { 0.02, 1.5e8, 0, 0 },
    [RATE_MMA_EMULATED] = { 0.02, 1e4, 0, 0 },
    /* Measured on CPUs; on a GPU (H100) CLBlast alone. Bytes: elements of scores that pass by, and loads into tiles. */
    [RATE_STAGED_CPU] = { 0.06, 3e7, 1e6, 0 },
    [RATE_STAGED_CPU_CLBLAST] = { 0.06, 5e6, 1e6, 0 },
    [RATE_STAGED_GPU] = { 0.06, 2e7, 1e6, 0 },
    [RATE_STAGED_GPU_CLBLAST] = { 0.06, 4e7, 1e6, 0 },
    [RATE_ROWS] = { 0.02, 0, 0, 0 },
    [RATE_GRADIENTS_SCALAR] = { 0.05, 5e5, 0, 0 },
    [RATE_GRADIENTS_SIMD] = { 0.05, 1 / 1.1e-8, 0, 0 },
    [RATE_GRADIENTS_AMX] = { 0.05, 1 / 3e-9, 0, 0 },
    [RATE_GRADIENTS_AMX_HALF] = { 0.05, 1 / 8e-9, 0, 0 },
    [RATE_GRADIENTS_SIMT] = { 0.05, 6e7, 0, 0 },
    [RATE_GRADIENTS_SIMT_OFF_GPU] = { 0.05, 5e4, 0, 0 },
    [RATE_GRADIENTS_MMA] = { 0.05, 2e8, 0, 0 },
    [RATE_GRADIENTS_WGMMA] = { 0.05, 4e8, 0, 0 }, /* not measured */
    [RATE_GRADIENTS_MMA_EMULATED] = { 0.05, 1e4, 0, 0 },
};

static double share(double amount, double rate)
{
    return amount > 0 ? amount / rate : 0;
}

double work_ms(const struct device *device, const struct work *work)
{
    const struct rate *rate = &rates[work->rate];
    const double shared = share(work->multiply_adds, rate->multiply_adds) + share(work->bytes, rate->bytes) +
                          share(work->groups, rate->groups);
    return (work->launches > 0 ? work->launches : 1) * rate->launch_ms + work->alone_ms +
           shared / (work->units > 0 ? work->units : (double)device->compute_units);
}
