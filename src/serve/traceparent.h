// The W3C trace context header: which trace of the caller's a request belongs to (https://www.w3.org/TR/trace-context/, "traceparent").
#pragma once

#include <string>
#include <string_view>

namespace lynx::serve {

/// `header` if it is one of version 00 to fe with a trace and a span that are not zero; else empty: a caller's mistake is no reason to refuse. Of a later
/// version the fields of version 00 are kept.
[[nodiscard]] std::string checked_traceparent(std::string_view header);

}  // namespace lynx::serve
