// The checksum, by libdeflate.
#include <libdeflate.h>

#include "base/bytes.h"

namespace lynx::base {

std::uint32_t crc32(ByteView bytes, std::uint32_t crc) noexcept {
    return libdeflate_crc32(crc, bytes.data(), bytes.size());
}

}  // namespace lynx::base
