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

namespace lynx::wire {

inline constexpr std::uint32_t kPromptTokensMax = kv::kContextTokensMax;
inline constexpr std::uint32_t kTextBytesMax = 4096;   ///< of any name or error message
inline constexpr std::uint16_t kProtocolVersion = 1;

enum class Role : std::uint8_t { prefill = 0, decode = 1 };

/// First message on each lane in each direction. A mismatch ends the connection before any request.
struct Hello {
    std::uint16_t version = kProtocolVersion;
    Role role = Role::prefill;
    std::uint64_t connection_id = 0;              ///< same on both lanes: pairs them
    std::array<std::uint8_t, 16> fingerprint{};
    kv::Geometry geometry;
    bool operator==(const Hello&) const = default;
};

/// Sampler settings of the one token that the prefill node draws. Same meaning as speculate::Sampling.
struct SamplerSettings {
    float temperature = 0;                        ///< 0: greedy
    std::uint32_t top_k = 0;                      ///< 0: off
    float top_p = 1;                              ///< 1: off
    std::optional<std::uint64_t> seed;
    bool operator==(const SamplerSettings&) const = default;
};

/// decode -> prefill: prefill this prompt and send its KV.
struct Request {
    std::uint64_t request = 0;
    std::uint32_t generation = 0;
    std::vector<std::int32_t> prompt;             ///< 1..kPromptTokensMax tokens
    std::string codec;                            ///< registry name; wire does not interpret it
    std::vector<std::byte> codec_params;          ///< opaque to wire
    std::uint64_t profile_hash = 0;               ///< 0: none
    std::uint32_t page_tokens = 256;
    std::uint8_t tiers = 1;
    bool hold_until_ready = false;                ///< send nothing before prefill has ended (benchmarks: KV ready at time zero)
    SamplerSettings sampler;
    bool operator==(const Request&) const = default;
};

/// prefill -> decode: how far the prefill is.
struct Progress {
    std::uint64_t request = 0;
    std::uint32_t generation = 0;
    std::uint32_t tokens_done = 0;
    std::uint32_t tokens_total = 0;
    bool prefix_hit = false;                      ///< the KV was there already
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

/// The answer to Abort: nothing of the request is in flight from this side any more.
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

}  // namespace lynx::wire
