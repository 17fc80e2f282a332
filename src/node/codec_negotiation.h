// How a request names its codec on the wire: the registry name and these bytes (docs/format/WIRE.md, "Request").
#pragma once

#include "base/bytes.h"
#include "codec/codec.h"
#include "engine/engine.h"
#include "lynx/status.h"

namespace lynx::node {

/// f32 alpha, u16 chunk, u16 page, u8 meta, u16 sinks, u16 recent, f32 step, u8 cuts: 18 bytes. The profile's hash has a field of its
/// own in the request.
[[nodiscard]] base::Bytes serialize_params(const codec::CodecParams& params);
[[nodiscard]] Result<codec::CodecParams> parse_params(base::ByteView bytes);

/// codec::make_codec for one model: also refuses a profile that was made for another one.
[[nodiscard]] Result<std::unique_ptr<codec::Codec>> make_codec_for(const engine::ModelInfo& model,
                                                                   std::string_view name,
                                                                   const codec::CodecParams& params);

}  // namespace lynx::node
