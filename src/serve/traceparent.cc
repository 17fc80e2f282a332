#include "serve/traceparent.h"

#include <algorithm>
#include <cstddef>

namespace lynx::serve {
namespace {

constexpr std::size_t kLength = 55;  // VV-32 digits-16 digits-FF

bool is_lower_hex(std::string_view text) {
    return std::all_of(text.begin(), text.end(),
                       [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_zero(std::string_view text) { return text.find_first_not_of('0') == std::string_view::npos; }

}  // namespace

std::string checked_traceparent(std::string_view header) {
    if (header.size() < kLength || header[2] != '-' || header[35] != '-' || header[52] != '-') {
        return {};
    }
    const std::string_view version = header.substr(0, 2);
    const std::string_view trace = header.substr(3, 32);
    const std::string_view span = header.substr(36, 16);
    const std::string_view flags = header.substr(53, 2);
    const bool known_form =
        version == "00" ? header.size() == kLength : header.size() == kLength || header[kLength] == '-';
    if (!known_form || version == "ff" || !is_lower_hex(version) || !is_lower_hex(trace) || !is_lower_hex(span) ||
        !is_lower_hex(flags) || is_zero(trace) || is_zero(span)) {
        return {};
    }
    return std::string(header.substr(0, kLength));
}

}  // namespace lynx::serve
