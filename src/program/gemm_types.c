/* Which types CLBlast multiplies on a device: asked before anything of CLBlast runs, and where it is not built in. */
#include "program/gemm.h"

/* What its tuned kernels take, on the devices of its table. */
#define WORK_GROUP_MIN 256

const char *gemm_declines_type(const struct device *device, clattn_type type)
{
    if (!gemm_is_built()) {
        return "clattn was built without CLBlast";
    }
    if (type != CLATTN_FLOAT32 && type != CLATTN_FLOAT64) {
        return "it would sum 16-bit types in 16 bits";
    }
    if (!device->runs_clblast) {
        return "it compiles its own programs, and the device has no compiler";
    }
    return device->work_group_limit < WORK_GROUP_MIN ? "its kernels need larger work-groups than the device's" : NULL;
}
