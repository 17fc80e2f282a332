// The one list of codecs. A new codec is a line in kCodecs; tests, fuzzers, benches and the CLI iterate it.
#include <array>

#include "base/try.h"
#include "codec/baseline/cachegen.h"
#include "codec/baseline/fp8.h"
#include "codec/baseline/ggml_block.h"
#include "codec/baseline/kivi.h"
#include "codec/baseline/kvquant.h"
#include "codec/baseline/turboquant.h"
#include "codec/page_codec.h"
#include "codec/profile.h"
#include "codec/ref/alpha_coder.h"
#include "codec/ref/bf16_split.h"
#include "codec/ref/exact_tier.h"
#include "codec/ref/int_group.h"
#include "codec/ref/lynxt.h"
#include "codec/ref/nested.h"
#include "codec/ref/raw_f16.h"
#include "codec/simd/backend.h"

namespace lynx::codec {
namespace {

template <AlphaSpec kSpec>
std::unique_ptr<PageCoder> alpha(const CodecParams& params) {
    return std::make_unique<AlphaCoder>(kSpec, params);
}
template <NestedSpec kSpec>
std::unique_ptr<PageCoder> nested(const CodecParams& params) {
    return make_nested(kSpec, params);
}
template <IntGroupSpec kSpec>
std::unique_ptr<PageCoder> int_group(const CodecParams& /*params*/) {
    return make_int_group(kSpec);
}

struct Entry {
    CodecId id;
    std::string_view name;
    std::string_view mono_name;  ///< empty: one tier anyway
    std::string_view summary;
    std::unique_ptr<PageCoder> (*make)(const CodecParams&);
    bool exact = false;  ///< what make() makes gets an exact tier
};

constexpr std::array kCodecs{
    // Embedded linear index between a chunk's minimum and maximum; first and newest tokens exact.
    Entry{
        CodecId::nested44, "nested44", "nested44-mono",
        "linear index between chunk minimum and maximum, 4-bit anchor + 4-bit residual, first and newest tokens exact",
        nested<NestedSpec{CodecId::nested44, 2, {4, 4, 0}}>},
    Entry{CodecId::nested35, "nested35", "nested35-mono", "nested44 cut into 3 + 5 bits",
          nested<NestedSpec{CodecId::nested35, 2, {3, 5, 0}}>},
    Entry{CodecId::nested26, "nested26", "nested26-mono", "nested44 cut into 2 + 6 bits",
          nested<NestedSpec{CodecId::nested26, 2, {2, 6, 0}}>},
    Entry{CodecId::nested224, "nested224", "nested224-mono", "nested44 cut into three tiers of 2 + 2 + 4 bits",
          nested<NestedSpec{CodecId::nested224, 3, {2, 2, 4}}>},
    Entry{CodecId::nested44_exact, "nested44-exact", "nested44-exact-mono",
          "nested44 and a last tier that restores every bit", nested<NestedSpec{CodecId::nested44, 2, {4, 4, 0}}>,
          true},
    // Calibrated transform, embedded index, entropy code.
    Entry{CodecId::lynxt, "lynxt", "lynxt-mono",
          "un-rotated keys, calibrated transform, embedded index and entropy code in three tiers; first and newest "
          "tokens exact",
          make_lynxt},
    Entry{CodecId::lynxt_exact, "lynxt-exact", "lynxt-exact-mono", "lynxt and a last tier that restores every bit",
          make_lynxt, true},
    // The alpha-law with as many levels as the split carries, and centroid anchors.
    Entry{CodecId::lynx44, "lynx44", "lynx44-mono", "alpha-law with 120 levels, 4 + 4 bits, centroid anchors",
          alpha<AlphaSpec{.id = CodecId::lynx44, .levels = kLynx44Levels, .anchor_bits = 4, .centroids = true}>},
    Entry{CodecId::lynx35, "lynx35", "lynx35-mono", "alpha-law with 112 levels, 3 + 5 bits, centroid anchors",
          alpha<AlphaSpec{
              .id = CodecId::lynx35, .levels = 112, .residual_bits = 5, .anchor_bits = 3, .centroids = true}>},
    Entry{CodecId::lynx53, "lynx53", "lynx53-mono", "alpha-law with 124 levels, 5 + 3 bits, centroid anchors",
          alpha<AlphaSpec{
              .id = CodecId::lynx53, .levels = 124, .residual_bits = 3, .anchor_bits = 5, .centroids = true}>},
    Entry{CodecId::lynx62, "lynx62", "lynx62-mono", "alpha-law with 126 levels, 6 + 2 bits, centroid anchors",
          alpha<AlphaSpec{
              .id = CodecId::lynx62, .levels = 126, .residual_bits = 2, .anchor_bits = 6, .centroids = true}>},
    // Algorithm 1, its appendix, and what each of its parts is worth.
    Entry{CodecId::alg1, "alg1", "alg1-mono", "Algorithm 1 of arXiv:2607.01831, 127 levels, 18 anchor symbols",
          alpha<AlphaSpec{.id = CodecId::alg1}>},
    Entry{CodecId::lynx_int4, "lynx-int4", "", "the anchor of alg1 alone",
          alpha<AlphaSpec{.id = CodecId::lynx_int4, .anchor_only = true}>},
    Entry{CodecId::alg1_a1, "alg1-a1", "alg1-a1-mono",
          "the variant of arXiv:2607.01831's appendix: Q >> 4 and Q & 15, chunks of 16, alpha 100",
          alpha<AlphaSpec{.id = CodecId::alg1_a1,
                          .anchor_bits = 4,
                          .cut = AlphaCut::twos_complement,
                          .alpha = 100,
                          .chunk_tokens = 16}>},
    Entry{CodecId::alg1_a1_int4, "alg1-a1-int4", "", "the anchor of alg1-a1 alone",
          alpha<AlphaSpec{.id = CodecId::alg1_a1_int4,
                          .anchor_bits = 4,
                          .cut = AlphaCut::twos_complement,
                          .anchor_only = true,
                          .alpha = 100,
                          .chunk_tokens = 16}>},
    Entry{CodecId::alg1_nopage, "alg1-nopage", "alg1-nopage-mono", "alg1 without page normalisation",
          alpha<AlphaSpec{.id = CodecId::alg1_nopage, .page_gamma = false}>},
    Entry{CodecId::alg1_nochunk, "alg1-nochunk", "alg1-nochunk-mono", "alg1 without chunks",
          alpha<AlphaSpec{.id = CodecId::alg1_nochunk, .chunk_tokens = kv::kPageTokensMax}>},
    Entry{CodecId::alg1_linear, "alg1-linear", "alg1-linear-mono", "alg1 with evenly spaced levels",
          alpha<AlphaSpec{.id = CodecId::alg1_linear, .curve = AlphaCurve::linear}>},
    Entry{CodecId::alg1_log, "alg1-log", "alg1-log-mono", "alg1 with levels in geometric progression",
          alpha<AlphaSpec{.id = CodecId::alg1_log, .curve = AlphaCurve::log}>},
    Entry{CodecId::alg1_nobias, "alg1-nobias", "alg1-nobias-mono", "alg1 without the bias of 7 before the cut",
          alpha<AlphaSpec{.id = CodecId::alg1_nobias, .anchor_bits = 4, .cut = AlphaCut::truncated}>},
    Entry{CodecId::alg1_nosign, "alg1-nosign", "alg1-nosign-mono", "alg1 without the sign map: zero has one symbol",
          alpha<AlphaSpec{.id = CodecId::alg1_nosign, .cut = AlphaCut::zero_merged}>},
    Entry{CodecId::alg1_clip16, "alg1-clip16", "alg1-clip16-mono", "alg1 clipped to 16 anchor symbols",
          alpha<AlphaSpec{.id = CodecId::alg1_clip16, .anchor_bits = 4, .cut = AlphaCut::clipped}>},
    Entry{CodecId::bf16_split, "bf16-split", "bf16-split-mono", "the upper and the lower byte of bfloat16",
          [](const CodecParams&) { return make_bf16_split(); }},
    // Integers and floats with plain scales.
    Entry{CodecId::int8_split, "int8-split", "int8-split-mono", "int8 cut into two tiers of 4 bits",
          int_group<IntGroupSpec{.id = CodecId::int8_split, .split = true}>},
    Entry{CodecId::int8, "int8", "", "symmetric 8-bit integers per token and 32 channels, 8.5 bits",
          int_group<IntGroupSpec{.id = CodecId::int8}>},
    Entry{CodecId::int4, "int4", "", "symmetric 4-bit integers per token and 32 channels, 4.5 bits",
          int_group<IntGroupSpec{.id = CodecId::int4, .bits = 4}>},
    Entry{CodecId::int8_g128, "int8-g128", "", "symmetric 8-bit integers per token and 128 channels",
          int_group<IntGroupSpec{.id = CodecId::int8_g128, .group_channels = 128}>},
    Entry{CodecId::int4_g128, "int4-g128", "", "symmetric 4-bit integers per token and 128 channels",
          int_group<IntGroupSpec{.id = CodecId::int4_g128, .bits = 4, .group_channels = 128}>},
    Entry{CodecId::int8_token, "int8-token", "", "symmetric 8-bit integers with one scale per token",
          int_group<IntGroupSpec{.id = CodecId::int8_token, .group_channels = 0}>},
    Entry{CodecId::int4_token, "int4-token", "", "symmetric 4-bit integers with one scale per token",
          int_group<IntGroupSpec{.id = CodecId::int4_token, .bits = 4, .group_channels = 0}>},
    Entry{CodecId::int8_page, "int8-page", "", "symmetric 8-bit integers with one scale per page",
          int_group<IntGroupSpec{.id = CodecId::int8_page, .group_channels = 0, .whole_page = true}>},
    Entry{CodecId::int4_page, "int4-page", "", "symmetric 4-bit integers with one scale per page",
          int_group<IntGroupSpec{.id = CodecId::int4_page, .bits = 4, .group_channels = 0, .whole_page = true}>},
    Entry{CodecId::fp8_token, "fp8-token", "", "E4M3 with one scale per token",
          [](const CodecParams&) { return make_fp8(CodecId::fp8_token, true); }},
    Entry{CodecId::fp8_page, "fp8-page", "", "E4M3 with one scale per page",
          [](const CodecParams&) { return make_fp8(CodecId::fp8_page, false); }},
    Entry{CodecId::q8_0, "q8_0", "", "ggml's blocks of 32 8-bit integers",
          [](const CodecParams&) { return make_q8_0(); }},
    Entry{CodecId::q4_0, "q4_0", "", "ggml's blocks of 32 4-bit integers",
          [](const CodecParams&) { return make_q4_0(); }},
    // Published methods.
    Entry{CodecId::kivi4, "kivi4", "", "KIVI: 4 bits, keys per channel, values per token, newest tokens exact",
          [](const CodecParams&) { return make_kivi(CodecId::kivi4, 4); }},
    Entry{CodecId::kivi2, "kivi2", "", "KIVI: 2 bits, keys per channel, values per token, newest tokens exact",
          [](const CodecParams&) { return make_kivi(CodecId::kivi2, 2); }},
    Entry{CodecId::kvquant4, "kvquant4", "", "KVQuant: 16 fitted levels, keys before rotation, 1% outliers apart",
          [](const CodecParams&) { return make_kvquant(CodecId::kvquant4, 4); }},
    Entry{CodecId::kvquant3, "kvquant3", "", "KVQuant: 8 fitted levels, keys before rotation, 1% outliers apart",
          [](const CodecParams&) { return make_kvquant(CodecId::kvquant3, 3); }},
    Entry{CodecId::cachegen, "cachegen", "", "CacheGen: differences in groups of ten tokens, range coded",
          [](const CodecParams&) { return make_cachegen(); }},
    Entry{CodecId::turboquant4, "turboquant4", "", "TurboQuant: rotation and Lloyd-Max levels of 4 bits",
          [](const CodecParams&) { return make_turboquant(CodecId::turboquant4, 4); }},
    Entry{CodecId::turboquant3, "turboquant3", "", "TurboQuant: rotation and Lloyd-Max levels of 3 bits",
          [](const CodecParams&) { return make_turboquant(CodecId::turboquant3, 3); }},
    Entry{CodecId::f16, "f16", "", "float16 as it is", [](const CodecParams&) { return make_raw_f16(); }},
};

constexpr std::string_view kScalar = "scalar";
constexpr std::int64_t kScalarTarget = 0;

std::unique_ptr<PageCoder> make_coder(const Entry& e, const CodecParams& params, std::int64_t target) {
    std::unique_ptr<PageCoder> coder = simd::on_target(e.make(params), params, target);
    return e.exact ? make_exact(e.id, std::move(coder)) : std::move(coder);
}

/// Highway's bit of a backend, 0 for scalar; the best runnable one for an empty name.
Result<std::int64_t> target_of(std::string_view backend) {
    std::string names;
    for (const simd::SimdTarget& t : simd::list_targets()) {
        if (t.runnable && (backend.empty() || backend == t.name)) {
            return t.bit;
        }
        if (backend == t.name) {
            return Status{ErrorCode::invalid_argument, "backend: this CPU does not run " + t.name};
        }
        names += t.name + ", ";
    }
    if (backend.empty() || backend == kScalar) {
        return kScalarTarget;
    }
    return Status{ErrorCode::invalid_argument, "backend: expected one of " + names + std::string(kScalar) +
                                                   ", actual \"" + std::string(backend) + "\""};
}

}  // namespace

std::vector<BackendInfo> list_backends() {
    std::vector<BackendInfo> all;
    for (simd::SimdTarget& t : simd::list_targets()) {
        all.push_back({std::move(t.name), t.runnable});
    }
    all.push_back({std::string(kScalar), true});
    return all;
}

std::vector<CodecInfo> list_codecs() {
    std::vector<CodecInfo> all;
    for (const Entry& e : kCodecs) {
        const std::uint8_t tiers = make_coder(e, CodecParams{}, kScalarTarget)->tiers();
        all.push_back({std::string(e.name), tiers, std::string(e.summary), e.exact});
        if (!e.mono_name.empty()) {
            all.push_back(
                {std::string(e.mono_name), 1, std::string(e.name) + " with all tiers in one payload", e.exact});
        }
    }
    return all;
}

Result<std::unique_ptr<PageCodec>> make_page_codec(std::string_view name, const CodecParams& params,
                                                   std::string_view backend) {
    LYNX_TRY(validate_params(params));
    LYNX_ASSIGN(const std::int64_t target, target_of(backend));
    for (const Entry& e : kCodecs) {
        const bool mono = !e.mono_name.empty() && name == e.mono_name;
        if (name != e.name && !mono) {
            continue;
        }
        if ((e.id == CodecId::lynxt || e.id == CodecId::lynxt_exact) && params.profile != 0 &&
            find_profile(params.profile) == nullptr) {
            return Status{ErrorCode::invalid_argument, std::string(e.name) + ": profile " +
                                                           profile_name(params.profile) + " has not been loaded here"};
        }
        auto coder = make_coder(e, params, target);
        CodecInfo info{std::string(name), mono ? std::uint8_t{1} : coder->tiers(), std::string(e.summary), e.exact};
        return std::make_unique<PageCodec>(std::move(info), params, std::move(coder), mono);
    }
    std::string names;
    for (const CodecInfo& c : list_codecs()) {
        names += (names.empty() ? "" : ", ") + c.name;
    }
    return Status{ErrorCode::invalid_argument,
                  "codec: expected one of " + names + ", actual \"" + std::string(name) + "\""};
}

Result<std::unique_ptr<Codec>> make_codec(std::string_view name, const CodecParams& params, std::string_view backend) {
    LYNX_ASSIGN(std::unique_ptr<PageCodec> codec, make_page_codec(name, params, backend));
    return std::unique_ptr<Codec>(std::move(codec));
}

Result<std::string_view> codec_name(CodecId id, bool mono) {
    for (const Entry& e : kCodecs) {
        if (e.id == id && (!mono || !e.mono_name.empty())) {
            return mono ? e.mono_name : e.name;
        }
    }
    return Status{ErrorCode::unsupported_version, "codec id " + std::to_string(static_cast<int>(id))};
}

}  // namespace lynx::codec
