/* What the host's CPU and its operating system allow, asked before any such instruction runs on a CPU
 * device. Elsewhere than on x86-64 the answer is no; for what the operating system must save apart, elsewhere than on
 * x86-64 Linux. */
#ifndef CLATTN_SRC_X86_H
#define CLATTN_SRC_X86_H

#include "base/text.h"
#include "device/device.h"

/* 1: yes. 0: no, and appends one sentence why. `device` may be held to less than the CPU has. */
int x86_has_avx2(const struct device *device, struct text *why); /* with its multiply-adds (FMA) */
int x86_has_avx512(const struct device *device, struct text *why);
int x86_has_avx512_bf16(const struct device *device, struct text *why);
int x86_has_amx_bf16(const struct device *device, struct text *why);

/* Asks the operating system for the tile registers of AMX, which it gives to the whole process for good.
 * Nothing happens where there are none. */
void x86_request_tiles(void);

#endif
