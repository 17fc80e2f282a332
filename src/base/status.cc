#include "lynx/status.h"

namespace lynx {

std::string_view to_string(ErrorCode code) noexcept {
    switch (code) {
        case ErrorCode::ok: return "ok";
        case ErrorCode::truncated: return "truncated";
        case ErrorCode::corrupt: return "corrupt";
        case ErrorCode::unsupported_version: return "unsupported_version";
        case ErrorCode::invalid_argument: return "invalid_argument";
        case ErrorCode::limit_exceeded: return "limit_exceeded";
        case ErrorCode::io: return "io";
        case ErrorCode::peer_lost: return "peer_lost";
        case ErrorCode::timeout: return "timeout";
        case ErrorCode::cancelled: return "cancelled";
        case ErrorCode::unauthenticated: return "unauthenticated";
    }
    return "unknown";
}

std::string Status::to_string() const {
    if (ok()) {
        return "ok";
    }
    return std::string(lynx::to_string(code_)) + ": " + message_;
}

Status Status::with_context(std::string_view context) const {
    if (ok()) {
        return *this;
    }
    return {code_, std::string(context) + ": " + message_};
}

}  // namespace lynx
