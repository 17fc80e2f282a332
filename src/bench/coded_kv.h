// A prompt's KV as one codec's payloads: encoded once, put into an engine at any tier.
#pragma once

#include "base/bytes.h"
#include "codec/codec.h"
#include "engine/engine.h"

namespace lynx::bench {

struct PromptKv;

/// What a codec's payloads of a KV weigh on the wire, framing included, per tier.
struct CodedSize {
    std::vector<std::uint64_t> tier_bytes;
    std::uint64_t frames_per_tier = 0;
    std::uint64_t elements = 0;
};

class CodedKv {
public:
    /// `codec` must outlive the result.
    [[nodiscard]] static Result<CodedKv> encode(const codec::Codec& codec, const PromptKv& kv,
                                                const kv::Geometry& geometry);

    /// Sequence 0 of the engine, of that geometry, becomes what the codec restores at `tier`.
    [[nodiscard]] Status load(engine::Engine& engine, std::uint8_t tier) const;
    [[nodiscard]] const CodedSize& size() const noexcept { return size_; }

private:
    explicit CodedKv(const codec::Codec& codec) : codec_(&codec) {}

    const codec::Codec* codec_;
    kv::Paging paging_;
    std::vector<std::vector<base::Bytes>> pages_;  ///< [layer, key or value, page][tier]
    CodedSize size_;
};

}  // namespace lynx::bench
