#define _XOPEN_SOURCE 700
#include "file_kind.h"

#include <stddef.h>
#include <string.h>
#include <sys/types.h>

#include "system.h"

#define LOOKED_AT_BYTES 64

static const struct {
    const char *start;
    size_t bytes;
    const char *is;
} kinds[] = {
    { "PK\3\4", 4, "is a zip archive, as .npz and PyTorch's .pt are; save its arrays as .npy or .safetensors" },
    { "PK\5\6", 4, "is an empty zip archive" },
    { "\x93NUMPY", 6, "is an .npy file; give it by --q, --k or another option" },
    { "\x80\2", 2, "is a pickle of Python, whose code is not run here; save its arrays as .npy or .safetensors" },
    { "\x80\4", 2, "is a pickle of Python, whose code is not run here; save its arrays as .npy or .safetensors" },
    { "GGUF", 4, "is a GGUF model; save its tensors as .safetensors" },
    { "\x89HDF\r\n", 6, "is an HDF5 file; save its arrays as .npy or .safetensors" },
    { "\x1f\x8b", 2, "is compressed by gzip; unpack it" },
    { "\x28\xb5\x2f\xfd", 4, "is compressed by zstd; unpack it" },
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* Printable ASCII and the blanks of lines; of UTF-8 no byte that it never has. */
static int is_text(const unsigned char *bytes, size_t count)
{
    size_t letters = 0;
    for (size_t i = 0; i < count; i++) {
        const unsigned char byte = bytes[i];
        if (byte == 0x7f || byte >= 0xf5 || (byte < ' ' && (byte == 0 || !strchr("\t\r\n", byte)))) {
            return 0;
        }
        letters += byte < 0x80;
    }
    return letters > count / 2;
}

/* Its length in eight bytes, then a JSON object. */
static int is_safetensors(const unsigned char *bytes, size_t count)
{
    return count > 9 && bytes[8] == '{' && bytes[5] == 0 && bytes[6] == 0 && bytes[7] == 0;
}

const char *file_kind(int descriptor, uint64_t size_bytes, int is_safetensors_wanted)
{
    unsigned char bytes[LOOKED_AT_BYTES];
    const size_t most = size_bytes < sizeof bytes ? (size_t)size_bytes : sizeof bytes;
    const ssize_t got = system_read_at(descriptor, bytes, most, 0);
    const size_t count = got > 0 ? (size_t)got : 0;
    for (int i = 0; i < KINDS; i++) {
        if (count >= kinds[i].bytes && memcmp(bytes, kinds[i].start, kinds[i].bytes) == 0) {
            return kinds[i].is;
        }
    }
    if (is_safetensors(bytes, count)) {
        return is_safetensors_wanted ? "" : "is a .safetensors file; give it as INPUT";
    }
    return is_text(bytes, count) ? "is text; save its numbers as .npy or .safetensors, with NumPy: "
                                   "numpy.save(\"q.npy\", numpy.loadtxt(\"q.txt\", dtype=\"float32\"))"
                                 : "";
}
