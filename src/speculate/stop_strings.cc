#include "speculate/stop_strings.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace lynx::speculate {

StopText::StopText(std::vector<std::string> stop_strings) : stop_strings_(std::move(stop_strings)) {
    for (const std::string& stop : stop_strings_) {
        LYNX_CHECK(!stop.empty());
    }
}

bool StopText::append(std::string_view piece) {
    if (stopped_) {
        return true;
    }
    const std::size_t old_bytes = text_.size();
    text_.append(piece);
    std::size_t first_end = std::string::npos;
    std::size_t cut = std::string::npos;
    for (const std::string& stop : stop_strings_) {
        // A match that ends in the old text would have stopped there: start where the new piece can complete one.
        const std::size_t from = old_bytes + 1 > stop.size() ? old_bytes + 1 - stop.size() : 0;
        const std::size_t begin = text_.find(stop, from);
        if (begin == std::string::npos) {
            continue;
        }
        if (const std::size_t end = begin + stop.size(); end < first_end || (end == first_end && begin < cut)) {
            first_end = end;
            cut = begin;
        }
    }
    if (cut != std::string::npos) {
        text_.resize(cut);
        stopped_ = true;
    }
    return stopped_;
}

std::size_t StopText::safe_bytes() const noexcept {
    if (stopped_) {
        return text_.size();
    }
    const std::string_view text = text_;
    std::size_t withheld = 0;
    for (const std::string& stop : stop_strings_) {
        for (std::size_t n = std::min(stop.size() - 1, text.size()); n > withheld; --n) {
            if (text.substr(text.size() - n) == std::string_view(stop).substr(0, n)) {
                withheld = n;
            }
        }
    }
    return text.size() - withheld;
}

}  // namespace lynx::speculate
