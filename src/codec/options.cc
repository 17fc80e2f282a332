#include "codec/options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string_view>

#include "codec/profile.h"

namespace lynx::codec {

namespace {

constexpr std::array<std::string_view, 3> kMetaNames{"f32", "f16", "q8"};  // by MetaFormat

std::uint16_t narrow(std::uint32_t x) {
    return static_cast<std::uint16_t>(std::min<std::uint32_t>(x, std::numeric_limits<std::uint16_t>::max()));
}

}  // namespace

Result<CodecParams> to_params(const CodecOptions& options) {
    CodecParams p;
    p.alpha = static_cast<float>(options.alpha);
    p.chunk_tokens = narrow(options.chunk_tokens);
    p.page_tokens = narrow(options.page_tokens);
    p.sinks = narrow(options.sinks);
    p.recent = narrow(options.recent);
    const auto* meta = std::find(kMetaNames.begin(), kMetaNames.end(), options.meta);
    if (meta == kMetaNames.end()) {
        return Status{ErrorCode::invalid_argument, "meta: expected f32, f16 or q8, actual \"" + options.meta + "\""};
    }
    p.meta = static_cast<MetaFormat>(meta - kMetaNames.begin());
    if (!options.profile.empty()) {
        const char* end = options.profile.data() + options.profile.size();
        const auto [stop, error] = std::from_chars(options.profile.data(), end, p.profile, 16);
        if (error != std::errc{} || stop != end || p.profile == 0) {
            return Status{ErrorCode::invalid_argument,
                          "profile: expected 16 hexadecimal digits, actual \"" + options.profile + "\""};
        }
    }
    p.step = static_cast<float>(options.step);
    constexpr std::uint32_t kCutMax = 15;  // the field's; make_codec knows the range
    p.cuts =
        static_cast<std::uint8_t>(std::min(options.anchor_cut, kCutMax) | std::min(options.second_cut, kCutMax) << 4U);
    return p;
}

CodecOptions to_options(const std::string& name, const CodecParams& params) {
    return {.name = name,
            .alpha = static_cast<double>(params.alpha),
            .chunk_tokens = params.chunk_tokens,
            .page_tokens = params.page_tokens,
            .meta = std::string(kMetaNames[static_cast<std::size_t>(params.meta)]),
            .sinks = params.sinks,
            .recent = params.recent,
            .profile = params.profile == 0 ? std::string{} : profile_name(params.profile),
            .step = static_cast<double>(params.step),
            .anchor_cut = params.cuts & 15U,
            .second_cut = static_cast<std::uint32_t>(params.cuts >> 4U)};
}

}  // namespace lynx::codec
