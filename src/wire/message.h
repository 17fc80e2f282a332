// What two nodes say to each other besides pages: plain values; frame.h turns them into bytes and back.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "kv/geometry.h"
#include "lynx/status.h"
#include "wire/lane.h"

namespace lynx::wire {

inline constexpr std::uint32_t kPromptTokensMax = kv::kContextTokensMax;
inline constexpr std::uint32_t kTextBytesMax = 4096;  ///< of any name or error message
inline constexpr std::uint32_t kCodecParamsBytesMax = 4096;
inline constexpr std::uint32_t kPayloadBytesMax = 1U << 30;  ///< of any page; a session may allow less
inline constexpr std::uint8_t kTiersMax = 8;
inline constexpr std::uint16_t kProtocolVersion = 1;

enum class Role : std::uint8_t { prefill = 0, decode = 1 };

/// First message on each lane in each direction. A mismatch ends the connection before any request.
struct Hello {
    std::uint16_t version = kProtocolVersion;
    Role role = Role::prefill;
    std::uint64_t connection_id = 0;  ///< same on both lanes and in both directions: pairs them
    std::array<std::uint8_t, 16> fingerprint{};
    kv::Geometry geometry;
    // Limits of the side that says hello; the session fills them in from its options.
    std::uint64_t credit_bytes = 0;       ///< frame bytes of pages it takes unreleased on this lane
    std::uint32_t payload_bytes_max = 0;  ///< of one page
    std::uint32_t requests_max = 0;       ///< live or not yet quiescent requests
    std::uint32_t peer_timeout_ms = 0;    ///< the silence after which it gives this peer up
    bool operator==(const Hello&) const = default;
};

/// Sampler settings of the one token that the prefill node draws. Same meaning as speculate::Sampling.
struct SamplerSettings {
    float temperature = 0;    ///< 0: greedy
    std::uint32_t top_k = 0;  ///< 0: off
    float top_p = 1;          ///< 1: off
    std::optional<std::uint64_t> seed;
    bool operator==(const SamplerSettings&) const = default;
};

/// decode -> prefill: prefill this prompt and send its KV.
struct Request {
    std::uint64_t request = 0;
    std::uint32_t generation = 0;
    std::vector<std::int32_t> prompt;     ///< 1..kPromptTokensMax tokens
    std::string codec;                    ///< registry name; wire does not interpret it
    std::vector<std::byte> codec_params;  ///< opaque to wire
    std::uint64_t profile_hash = 0;       ///< 0: none
    std::uint32_t page_tokens = 256;
    std::uint8_t tiers = 1;
    SamplerSettings sampler;
    bool operator==(const Request&) const = default;
};

/// prefill -> decode: how far the prefill is.
struct Progress {
    std::uint64_t request = 0;
    std::uint32_t generation = 0;
    std::uint32_t tokens_done = 0;
    std::uint32_t tokens_total = 0;
    bool prefix_hit = false;  ///< the KV was there already
    bool operator==(const Progress&) const = default;
};

/// prefill -> decode: token 1, drawn from the prefill node's own exact logits.
struct FirstToken {
    std::uint64_t request = 0;
    std::uint32_t generation = 0;
    std::int32_t token = 0;
    bool operator==(const FirstToken&) const = default;
};

/// Either direction: the request is over, for this reason; no page of it follows on this lane.
struct Abort {
    std::uint64_t request = 0;
    std::uint32_t generation = 0;
    ErrorCode code = ErrorCode::cancelled;
    std::string message;
    bool operator==(const Abort&) const = default;
};

/// Closes a request after Abort or Done: nothing of it follows on this lane. A side that sends pages says it on each
/// lane.
struct AbortDone {
    std::uint64_t request = 0;
    std::uint32_t generation = 0;
    bool operator==(const AbortDone&) const = default;
};

/// decode -> prefill: everything of the request has arrived; its buffers may go.
struct Done {
    std::uint64_t request = 0;
    std::uint32_t generation = 0;
    bool operator==(const Done&) const = default;
};

/// Returns credit: the receiver of pages is done with so many frame bytes of that lane.
struct Credit {
    Lane lane = Lane::high;
    std::uint64_t bytes = 0;
    bool operator==(const Credit&) const = default;
};

/// "I am here": sent when nothing else was for a while.
struct Heartbeat {
    bool operator==(const Heartbeat&) const = default;
};

/// Last frame of a side that gives up, with its reason, so that both ends report the same cause.
struct Goodbye {
    ErrorCode code = ErrorCode::ok;  ///< ok: closed on purpose
    std::string message;             ///< one line, cut to kTextBytesMax
    bool operator==(const Goodbye&) const = default;
};

/// ok, or invalid_argument / limit_exceeded naming the field of a request that no prefill node could serve.
[[nodiscard]] Status validate(const Request& request);

}  // namespace lynx::wire
