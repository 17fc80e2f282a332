// Cuts a byte stream where UTF-8 characters end: tokens do not, and JSON must.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lynx::serve {

/// Not thread-safe.
class Utf8Stream {
public:
    /// The whole characters there are now, after `bytes`. What is no UTF-8 at all is passed on (JSON replaces it).
    [[nodiscard]] std::string take(std::string_view bytes);
    /// What is left, whole or not.
    [[nodiscard]] std::string rest() { return std::move(pending_); }

private:
    std::string pending_;  // at most 3 bytes: an unfinished character
};

/// Bytes at the end of `text` that begin a character without finishing it, 0..3.
[[nodiscard]] std::size_t unfinished_bytes(std::string_view text) noexcept;

}  // namespace lynx::serve
