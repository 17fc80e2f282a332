#include "serve/utf8_stream.h"

#include <algorithm>
#include <utility>

namespace lynx::serve {

std::size_t unfinished_bytes(std::string_view text) noexcept {
    for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
        const auto byte = static_cast<unsigned char>(text[text.size() - back]);
        if ((byte & 0xC0U) == 0x80U) {
            continue;  // a continuation: its lead byte is further in front
        }
        const std::size_t length = byte >= 0xF0U ? 4 : byte >= 0xE0U ? 3 : byte >= 0xC0U ? 2 : 1;
        return length > back ? back : 0;
    }
    return 0;
}

std::string Utf8Stream::take(std::string_view bytes) {
    pending_ += bytes;
    const std::size_t whole = pending_.size() - unfinished_bytes(pending_);
    std::string out = pending_.substr(0, whole);
    pending_.erase(0, whole);
    return out;
}

}  // namespace lynx::serve
