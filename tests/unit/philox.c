/* Philox 4x32-10: the known answers that its authors publish with Random123. */
#include "reference/philox.h"

#include "suite.h"

static const struct {
    uint32_t counter[4], key[2], result[4];
} known[] = {
    { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
    { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
      { 0xffffffff, 0xffffffff },
      { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
    { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
      { 0xa4093822, 0x299f31d0 },
      { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
};

START_TEST(test_known_answers)
{
    for (size_t n = 0; n < sizeof(known) / sizeof(known[0]); ++n) {
        uint32_t result[4];
        philox_4x32_10(known[n].counter, known[n].key, result);
        for (int word = 0; word < 4; ++word) {
            ck_assert_uint_eq(result[word], known[n].result[word]);
        }
    }
}
END_TEST

START_TEST(test_result_may_be_the_counter)
{
    uint32_t memory[4] = { 0, 0, 0, 0 };
    const uint32_t key[2] = { 0, 0 };
    philox_4x32_10(memory, key, memory);
    ck_assert_uint_eq(memory[0], known[0].result[0]);
    ck_assert_uint_eq(memory[3], known[0].result[3]);
}
END_TEST

SUITE("philox", test_known_answers, test_result_may_be_the_counter)
