#include "node/codec_negotiation.h"

#include "base/try.h"

namespace lynx::node {

base::Bytes serialize_params(const codec::CodecParams& params) {
    base::Bytes bytes;
    base::Writer w(bytes);
    w.put(params.alpha);
    w.put(params.chunk_tokens);
    w.put(params.page_tokens);
    w.put(params.meta);
    w.put(params.sinks);
    w.put(params.recent);
    w.put(params.profile);
    w.put(params.step);
    w.put(params.cuts);
    return bytes;
}

Result<codec::CodecParams> parse_params(base::ByteView bytes) {
    base::Reader r(bytes);
    codec::CodecParams params;
    params.alpha = r.get<float>();
    params.chunk_tokens = r.get<std::uint16_t>();
    params.page_tokens = r.get<std::uint16_t>();
    params.meta = r.get<codec::MetaFormat>();
    params.sinks = r.get<std::uint16_t>();
    params.recent = r.get<std::uint16_t>();
    params.profile = r.get<std::uint64_t>();
    params.step = r.get<float>();
    params.cuts = r.get<std::uint8_t>();
    LYNX_TRY(r.status("codec parameters"));
    if (r.remaining() != 0) {
        return Status{ErrorCode::corrupt, "codec parameters: " + std::to_string(r.remaining()) + " bytes too many"};
    }
    return params;  // make_codec checks the ranges
}

}  // namespace lynx::node
