/* Decoding of UTF-8. */
#include "base/utf8.h"

size_t utf8_decode(const char *text, unsigned long *code)
{
    static const unsigned long least[5] = { 0, 0, 0x80, 0x800, 0x10000 };
    const unsigned char *bytes = (const unsigned char *)text;
    const size_t n = bytes[0] < 0x80 ? 1 : bytes[0] >= 0xf0 ? 4 : bytes[0] >= 0xe0 ? 3 : 2;
    if (bytes[0] >= 0xf8 || (bytes[0] >= 0x80 && bytes[0] < 0xc0)) {
        return 0;
    }
    *code = n == 1 ? bytes[0] : bytes[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; ++i) {
        if ((bytes[i] & 0xc0) != 0x80) {
            return 0;
        }
        *code = *code << 6 | (bytes[i] & 0x3f);
    }
    return *code < least[n] || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000) ? 0 : n;
}
