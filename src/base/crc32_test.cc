#include <gtest/gtest.h>
#include <libdeflate.h>

#include "base/bytes.h"
#include "base/rng.h"

namespace lynx::base {
namespace {

TEST(Crc32, IsTheStandardsCheckValue) { EXPECT_EQ(crc32(as_view("123456789")), 0xCBF43926U); }

/// Around every length at which the way of computing changes, at odd addresses, and continued from another checksum.
TEST(Crc32, EqualsLibdeflate) {
    Rng rng(1);
    Bytes data(100'000);
    for (std::byte& b : data) {
        b = static_cast<std::byte>(rng() & 255U);
    }
    for (std::size_t n = 0; n < 3000; ++n) {
        const ByteView part = ByteView(data).subspan(n % 67, n);
        const auto start = static_cast<std::uint32_t>(n % 3 == 0 ? 0 : rng());
        ASSERT_EQ(crc32(part, start), libdeflate_crc32(start, part.data(), part.size())) << n;
    }
    for (int round = 0; round < 300; ++round) {
        const std::size_t first = rng.below(1000);
        const ByteView part = ByteView(data).subspan(first, rng.below(data.size() - first));
        const std::size_t cut = rng.below(part.size() + 1);
        const std::uint32_t expected = libdeflate_crc32(0, part.data(), part.size());
        ASSERT_EQ(crc32(part), expected);
        ASSERT_EQ(crc32(part.subspan(cut), crc32(part.first(cut))), expected) << cut << " of " << part.size();
    }
}

}  // namespace
}  // namespace lynx::base
