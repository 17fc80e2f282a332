// The checksum where libdeflate is not at hand (LYNX_ONLY_CODEC): a byte at a time.
#include <array>

#include "base/bytes.h"

namespace lynx::base {
namespace {

constexpr std::array<std::uint32_t, 256> make_table() noexcept {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < table.size(); ++i) {
        std::uint32_t r = i;
        for (int bit = 0; bit < 8; ++bit) {
            r = (r >> 1U) ^ (0xEDB88320U & (0U - (r & 1U)));
        }
        table[i] = r;
    }
    return table;
}

constexpr std::array<std::uint32_t, 256> kTable = make_table();

}  // namespace

std::uint32_t crc32(ByteView bytes, std::uint32_t crc) noexcept {
    crc = ~crc;
    for (const std::byte b : bytes) {
        crc = (crc >> 8U) ^ kTable[(crc ^ static_cast<std::uint32_t>(b)) & 0xFFU];
    }
    return ~crc;
}

}  // namespace lynx::base
