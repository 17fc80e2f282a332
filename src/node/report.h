// From a finished request's times and counters to the public GenerateReport.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "codec/codec.h"
#include "kv/geometry.h"
#include "lynx/node.h"
#include "node/decode_request.h"

namespace lynx::node {

/// What the inference loop measured.
struct StepTimeline {
    std::vector<base::Nanos> committed_at;  ///< per committed token
    std::optional<base::Nanos> first_provisional;
    std::optional<base::Nanos> last_provisional;
    base::Nanos decode_time{0};
    std::uint32_t decode_steps = 0;
    base::Nanos draft_time{0};
    std::uint32_t draft_steps = 0;
};

/// Any time once the request has a sequence. `provisional`: drafts that are shown and not judged.
[[nodiscard]] RequestProgress make_progress(DecodeRequest& request, const StepTimeline& timeline, kv::Paging paging,
                                            std::uint32_t provisional, base::Nanos now);

/// Precondition: the request finished.
[[nodiscard]] GenerateReport make_report(DecodeRequest& request, const StepTimeline& timeline,
                                         const codec::Codec& codec, const kv::Geometry& geometry, kv::Paging paging);

}  // namespace lynx::node
