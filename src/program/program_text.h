/* The text that a driver makes of a program, changed so that it may be built again for a target that OpenCL C does not
 * reach: PTX of NVIDIA's drivers, for the instructions that a GPU has beside those of its family. Knows of no OpenCL.
 *
 * Such an instruction stands in the OpenCL C as an asm statement behind a mark, //@, which makes it a comment: the
 * compiler writes the registers of its operands into it and the first build passes over it. The second text has
 *
 *     .version   at least that of PTX which names the instructions
 *     .target    the one that is wanted, sm_90a for sm_90
 *     //@        at the beginning of a line: gone, so that the instruction counts, or an array of local memory that is
 *                larger than the first build may have
 */
#ifndef CLATTN_SRC_PROGRAM_TEXT_H
#define CLATTN_SRC_PROGRAM_TEXT_H

#include "base/text.h"

/* The second text of `first`, which ends with 0, for `target`, "sm_90a". NULL: one sentence why not is appended to
 * `why`; or memory ran out, and `why` gets nothing. The caller frees it. */
char *program_text_rewrite(const char *first, const char *target, struct text *why);

/* Line `number` of a text, from 1 on, without blanks before it and without its end; a length of 0: it has no such
 * line. */
const char *program_text_line(const char *text, long number, size_t *length);

/* The number of the first line that an assembler's log complains of ("line 12; error"); 0: of none. */
long program_text_line_in_log(const char *log);

#endif
