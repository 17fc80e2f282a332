#include "node/codec_negotiation.h"

#include "base/try.h"
#include "codec/profile.h"

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
    params.step = r.get<float>();
    params.cuts = r.get<std::uint8_t>();
    LYNX_TRY(r.status("codec parameters"));
    if (r.remaining() != 0) {
        return Status{ErrorCode::corrupt, "codec parameters: " + std::to_string(r.remaining()) + " bytes too many"};
    }
    return params;  // make_codec checks the ranges
}

Result<std::unique_ptr<codec::Codec>> make_codec_for(const engine::ModelInfo& model, std::string_view name,
                                                     const codec::CodecParams& params) {
    LYNX_ASSIGN(std::unique_ptr<codec::Codec> codec, codec::make_codec(name, params));
    if (const std::shared_ptr<const codec::Profile> profile = codec::find_profile(params.profile); profile != nullptr) {
        LYNX_TRY(codec::check_profile_model(*profile, model.fingerprint, model.geometry));
    }
    return codec;
}

}  // namespace lynx::node
