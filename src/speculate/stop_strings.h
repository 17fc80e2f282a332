// Output text that ends before a stop string, fed piece by piece.
//
// The match that ends first counts, and of those that end together the one that starts first, so the result does not depend on how the
// text is cut into tokens. Text that may still turn out to be the start of a stop string is not `safe` yet: a streaming client
// never sees part of one. Bytes, not characters: a piece may end inside a UTF-8 sequence, and joining those is the edge's business.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lynx::speculate {

inline constexpr std::size_t kStopStringsMax = 64;
inline constexpr std::size_t kStopStringBytesMax = 4096;

/// A value: copy it to try a continuation. Not thread-safe.
class StopText {
public:
    StopText() = default;
    /// Precondition: no stop string is empty.
    explicit StopText(std::vector<std::string> stop_strings);

    /// Appends a token's bytes; true when a stop string is complete: the text is cut before it and takes nothing more.
    bool append(std::string_view piece);

    [[nodiscard]] bool stopped() const noexcept { return stopped_; }
    [[nodiscard]] const std::string& text() const noexcept { return text_; }
    /// Bytes of text() that no later piece can cut away; never shrinks.
    [[nodiscard]] std::size_t safe_bytes() const noexcept;

private:
    std::vector<std::string> stop_strings_;
    std::string text_;
    bool stopped_ = false;
};

}  // namespace lynx::speculate
