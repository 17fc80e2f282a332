// Whole files in and out of memory, with a size limit.
#pragma once

#include <string>

#include "base/bytes.h"
#include "lynx/status.h"

namespace lynx::codec {

inline constexpr std::uint64_t kFileBytesMax = std::uint64_t{16} << 30;

/// io: cannot be opened or read; limit_exceeded: larger than kFileBytesMax.
[[nodiscard]] Result<base::Bytes> read_file(const std::string& path);

/// Replaces the file with the parts in order. io.
[[nodiscard]] Status write_file(const std::string& path, std::span<const base::ByteView> parts);

}  // namespace lynx::codec
