// How a request names its codec on the wire: the registry name and these bytes (docs/format/WIRE.md, "Request").
#pragma once

#include "base/bytes.h"
#include "codec/codec.h"
#include "lynx/status.h"

namespace lynx::node {

/// f32 alpha, u16 chunk, u16 page, u8 meta, u16 sinks, u16 recent, u64 profile, f32 step, u8 cuts: 26 bytes.
[[nodiscard]] base::Bytes serialize_params(const codec::CodecParams& params);
[[nodiscard]] Result<codec::CodecParams> parse_params(base::ByteView bytes);

}  // namespace lynx::node
