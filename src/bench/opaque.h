// What the two sides of the link benchmark agree on: one layer of one channel, a page per token, so that a request's prompt length
// and its codec parameters say how many frames come and how large they are.
#pragma once

#include <array>
#include <cstdint>

#include "lynx/link_bench.h"
#include "lynx/status.h"
#include "wire/session.h"

namespace lynx::bench {

/// Payload bytes of a frame of the anchors and of the residual; 0: that tier isn't sent.
struct Opaque {
    std::array<std::uint32_t, 2> frame_bytes{};
};

inline constexpr std::uint32_t kOpaqueFrameBytesMax = kLinkFrameKibMax * 1024;
inline constexpr std::uint32_t kFramesPerPage = 2;  ///< K and V

[[nodiscard]] wire::SessionOptions opaque_session(wire::Role role, std::uint64_t connection_id);

/// A request for `pages` pages.
[[nodiscard]] wire::Request opaque_request(std::uint64_t id, std::uint32_t pages, const Opaque& opaque);

/// What a request asks for; invalid_argument when it isn't one of these.
[[nodiscard]] Result<Opaque> parse_opaque(const wire::Request& request);

}  // namespace lynx::bench
