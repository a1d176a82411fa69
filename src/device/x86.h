/* What the host's CPU and its operating system allow, asked before any such instruction runs on a CPU
 * device. Elsewhere than on x86-64 Linux the answer is no. */
#ifndef CLATTN_SRC_X86_H
#define CLATTN_SRC_X86_H

#include "base/text.h"

/* 1: yes. 0: no, and appends one sentence why. */
int x86_has_avx512_bf16(struct text *why);
int x86_has_amx_bf16(struct text *why);

/* Asks the operating system for the tile registers of AMX, which it gives to the whole process for good.
 * Nothing happens where there are none. */
void x86_request_tiles(void);

#endif
