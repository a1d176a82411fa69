#include "words.h"

#include <stdint.h>
#include <string.h>

enum kind { LETTER, DIGIT, BLANK, OTHER };

/* Beyond ASCII: ranges of characters that are no letters, as coarse as a text in one of today's languages allows. A
 * character in the wrong class moves a word's end, so that a text has other tokens than the model learned it by; it
 * never loses text. */
static const struct {
    uint32_t first, last;
    enum kind kind;
} ranges[] = {
    { 0x80, 0x84, OTHER },     { 0x85, 0x85, BLANK },       { 0x86, 0x9f, OTHER },       { 0xa0, 0xa0, BLANK },
    { 0xa1, 0xa9, OTHER },     { 0xab, 0xb1, OTHER },       { 0xb2, 0xb3, DIGIT },       { 0xb4, 0xb4, OTHER },
    { 0xb6, 0xb8, OTHER },     { 0xb9, 0xb9, DIGIT },       { 0xbb, 0xbb, OTHER },       { 0xbc, 0xbe, DIGIT },
    { 0xbf, 0xbf, OTHER },     { 0xd7, 0xd7, OTHER },       { 0xf7, 0xf7, OTHER },       { 0x2c2, 0x2c5, OTHER },
    { 0x300, 0x36f, OTHER },   { 0x589, 0x5cf, OTHER },     { 0x600, 0x61f, OTHER },     { 0x64b, 0x65f, OTHER },
    { 0x660, 0x669, DIGIT },   { 0x66a, 0x66d, OTHER },     { 0x6f0, 0x6f9, DIGIT },     { 0x900, 0x903, OTHER },
    { 0x93a, 0x93c, OTHER },   { 0x93e, 0x94f, OTHER },     { 0x964, 0x965, OTHER },     { 0x966, 0x96f, DIGIT },
    { 0x1680, 0x1680, BLANK }, { 0x2000, 0x200a, BLANK },   { 0x200b, 0x2027, OTHER },   { 0x2028, 0x2029, BLANK },
    { 0x202a, 0x202e, OTHER }, { 0x202f, 0x202f, BLANK },   { 0x2030, 0x205e, OTHER },   { 0x205f, 0x205f, BLANK },
    { 0x2060, 0x206f, OTHER }, { 0x2070, 0x2070, DIGIT },   { 0x2074, 0x2079, DIGIT },   { 0x207a, 0x207e, OTHER },
    { 0x2080, 0x2089, DIGIT }, { 0x208a, 0x208e, OTHER },   { 0x20a0, 0x20ff, OTHER },   { 0x2150, 0x2189, DIGIT },
    { 0x2190, 0x245f, OTHER }, { 0x2460, 0x249b, DIGIT },   { 0x249c, 0x2bff, OTHER },   { 0x3000, 0x3000, BLANK },
    { 0x3001, 0x3004, OTHER }, { 0x3007, 0x3007, DIGIT },   { 0x3008, 0x3020, OTHER },   { 0x3030, 0x3030, OTHER },
    { 0x30fb, 0x30fb, OTHER }, { 0xe000, 0xf8ff, OTHER },   { 0xfe00, 0xfe6f, OTHER },   { 0xff01, 0xff0f, OTHER },
    { 0xff10, 0xff19, DIGIT }, { 0xff1a, 0xff20, OTHER },   { 0xff3b, 0xff40, OTHER },   { 0xff5b, 0xff65, OTHER },
    { 0xffe0, 0xffff, OTHER }, { 0x1d7ce, 0x1d7ff, DIGIT }, { 0x1f000, 0x1ffff, OTHER }, { 0xe0000, 0x10ffff, OTHER },
};

static enum kind kind_of(uint32_t character)
{
    if (character < 0x80) {
        const int letter = (character | 32) >= 'a' && (character | 32) <= 'z';
        const int digit = character >= '0' && character <= '9';
        const int white = character == ' ' || (character >= 9 && character <= 13);
        return letter ? LETTER : digit ? DIGIT : white ? BLANK : OTHER;
    }
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); ++i) {
        if (character >= ranges[i].first && character <= ranges[i].last) {
            return ranges[i].kind;
        }
    }
    return LETTER;
}

/* Bytes of the first character of UTF-8, and its kind; of a byte that begins none 1, and OTHER. */
static size_t character(const char *text, size_t length, enum kind *kind)
{
    const unsigned char first = (unsigned char)text[0];
    const size_t size = first < 0x80   ? 1
                        : first < 0xc2 ? 0
                        : first < 0xe0 ? 2
                        : first < 0xf0 ? 3
                        : first < 0xf5 ? 4
                                       : 0;
    uint32_t value = size <= 1 ? first : first & (0x7fu >> size);
    *kind = OTHER;
    if (!size || size > length) {
        return 1;
    }
    for (size_t i = 1; i < size; ++i) {
        if (((unsigned char)text[i] & 0xc0) != 0x80) {
            return 1;
        }
        value = value << 6 | ((unsigned char)text[i] & 0x3f);
    }
    *kind = kind_of(value);
    return size;
}

static size_t contraction(const char *text, size_t length)
{
    static const char *const known[] = { "'s", "'t", "'re", "'ve", "'m", "'ll", "'d" };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); ++i) {
        const size_t size = strlen(known[i]);
        if (size <= length && !memcmp(text, known[i], size)) {
            return size;
        }
    }
    return 0;
}

/* Bytes of the characters of one kind that a text begins with; of blanks, *last is the bytes of the last one. */
static size_t run(const char *text, size_t length, enum kind kind, size_t *last)
{
    size_t at = 0;
    enum kind found;
    while (at < length) {
        const size_t size = character(text + at, length - at, &found);
        if (found != kind) {
            break;
        }
        *last = size;
        at += size;
    }
    return at;
}

size_t word_length(const char *text, size_t length)
{
    enum kind kind;
    size_t last = 0;
    const size_t first = character(text, length, &kind), short_form = contraction(text, length);
    if (kind == DIGIT) {
        return first;
    }
    if (short_form) {
        return short_form;
    }
    if (kind != BLANK) {
        return run(text, length, kind, &last);
    }
    if (text[0] == ' ' && length > 1) {
        character(text + 1, length - 1, &kind);
        if (kind == LETTER || kind == OTHER) {
            return 1 + run(text + 1, length - 1, kind, &last);
        }
    }
    const size_t blanks = run(text, length, BLANK, &last);
    if (blanks == length || blanks == last) {
        return blanks;
    }
    character(text + blanks, length - blanks, &kind);
    return kind == DIGIT ? blanks : blanks - last; /* digits are cut out first: for what is before them the text ends */
}
