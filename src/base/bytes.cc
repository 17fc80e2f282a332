#include "base/bytes.h"

#include <libdeflate.h>

namespace lynx::base {

std::uint32_t crc32(ByteView bytes, std::uint32_t crc) noexcept {
    return libdeflate_crc32(crc, bytes.data(), bytes.size());
}

Status Reader::status(std::string_view what) const {
    if (!failed_) {
        return {};
    }
    return {ErrorCode::truncated,
            std::string(what) + ": ends at offset " + std::to_string(offset_) + " of " + std::to_string(in_.size())};
}

}  // namespace lynx::base
