// The one list of codecs. A new codec is a line in kCodecs; tests, fuzzers, benches and the CLI iterate it.
#include <array>

#include "base/try.h"
#include "codec/page_codec.h"
#include "codec/ref/alg1.h"
#include "codec/ref/int_group.h"
#include "codec/ref/lynx44.h"
#include "codec/ref/nested44.h"
#include "codec/ref/raw_f16.h"
#include "codec/simd/backend.h"

namespace lynx::codec {
namespace {

struct Entry {
    CodecId id;
    std::string_view name;
    std::string_view mono_name;  ///< empty: one tier anyway
    std::string_view summary;
    std::unique_ptr<PageCoder> (*make)(const CodecParams&);
};

constexpr std::array kCodecs{
    Entry{
        CodecId::nested44, "nested44", "nested44-mono",
        "linear index between chunk minimum and maximum, 4-bit anchor + 4-bit residual, first and newest tokens exact",
        make_nested44},
    Entry{CodecId::lynx44, "lynx44", "lynx44-mono", "alpha-law with 120 levels, 4 + 4 bits, centroid anchors",
          make_lynx44},
    Entry{CodecId::alg1, "alg1", "alg1-mono", "Algorithm 1 of arXiv:2607.01831, 127 levels, 18 anchor symbols",
          make_alg1},
    Entry{CodecId::int8_split, "int8-split", "int8-split-mono", "int8 cut into two tiers of 4 bits",
          [](const CodecParams&) { return make_int_group(CodecId::int8_split); }},
    Entry{CodecId::int8, "int8", "", "symmetric 8-bit integers per token and 32 channels, 8.5 bits",
          [](const CodecParams&) { return make_int_group(CodecId::int8); }},
    Entry{CodecId::int4, "int4", "", "symmetric 4-bit integers per token and 32 channels, 4.5 bits",
          [](const CodecParams&) { return make_int_group(CodecId::int4); }},
    Entry{CodecId::f16, "f16", "", "float16 as it is", [](const CodecParams&) { return make_raw_f16(); }},
};

constexpr std::string_view kScalar = "scalar";

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
        return std::int64_t{0};
    }
    return Status{ErrorCode::invalid_argument, "backend: expected one of " + names + std::string(kScalar) +
                                                   ", actual \"" + std::string(backend) + "\""};
}

std::unique_ptr<PageCoder> make_coder(const Entry& e, const CodecParams& params, std::int64_t target) {
    auto coder = target == 0 ? nullptr : simd::make_simd_coder(e.id, params, target);
    return coder == nullptr ? e.make(params) : std::move(coder);
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
        const std::uint8_t tiers = e.make(CodecParams{})->tiers();
        all.push_back({std::string(e.name), tiers, std::string(e.summary)});
        if (!e.mono_name.empty()) {
            all.push_back({std::string(e.mono_name), 1, std::string(e.name) + " with both tiers in one payload"});
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
        auto coder = make_coder(e, params, target);
        CodecInfo info{std::string(name), mono ? std::uint8_t{1} : coder->tiers(), std::string(e.summary)};
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
