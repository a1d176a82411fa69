/* What a file is that is none of the kinds that are read here, by its first bytes. */
#ifndef CLATTN_TOOLS_FILE_KIND_H
#define CLATTN_TOOLS_FILE_KIND_H

#include <stdint.h>

/* "is a zip archive, ...; unpack it": what it is, and what to do. "" where that cannot be told, or not be
 * read, or where it is a .safetensors file, perhaps a damaged one, and `is_safetensors_wanted`. */
const char *file_kind(int descriptor, uint64_t size_bytes, int is_safetensors_wanted);

#endif
