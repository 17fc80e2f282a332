// Pre-shared keys: a text file of NAME:HEX lines. The file is the operator's; it is still read as if it were hostile.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lynx/status.h"

namespace lynx::transport {

inline constexpr std::size_t kKeyBytes = 32;
inline constexpr std::size_t kKeyNameBytesMax = 64;
inline constexpr std::size_t kKeysMax = 1024;
inline constexpr std::size_t kKeyFileBytesMax = std::size_t{1} << 18;

struct NamedKey {
    std::string name;  ///< letters, digits, '.', '_' and '-'
    std::array<unsigned char, kKeyBytes> secret{};
};

/// Empty lines and lines that begin with '#' are skipped. invalid_argument with the line's number, never its text;
/// limit_exceeded beyond the maxima.
[[nodiscard]] Result<std::vector<NamedKey>> parse_keys(std::string_view text);

/// A regular file of at most kKeyFileBytesMax; another is invalid_argument. io when it cannot be read; the path stands
/// in every message.
[[nodiscard]] Result<std::vector<NamedKey>> read_key_file(const std::string& path);

}  // namespace lynx::transport
