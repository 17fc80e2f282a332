// The public file-level API: include/lynx/codec.h.
#include <array>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/try.h"
#include "codec/container.h"
#include "codec/io/files.h"
#include "codec/io/npy.h"
#include "codec/io/npz.h"
#include "codec/io/symbol_arrays.h"
#include "codec/options.h"
#include "codec/page_codec.h"
#include "codec/profile.h"
#include "lynx/codec.h"

namespace lynx {
namespace {

constexpr std::array<std::string_view, 3> kDTypeNames{"f16", "bf16", "f32"};

CodecFileReport make_report(const codec::CodecInfo& codec, const codec::FileHeader& h,
                            std::span<const base::ByteView> payloads, std::size_t bytes) {
    CodecFileReport r;
    r.full_tier = codec::full_tier(codec);
    r.exact = codec.exact;
    r.options = codec::to_options(h.codec, h.params);
    r.dtype = kDTypeNames[static_cast<std::size_t>(h.dtype)];
    r.tokens = h.tokens;
    r.channels = h.channels;
    r.pages = h.paging().pages();
    r.file_bytes = bytes;
    r.tier_bytes.assign(h.tiers, 0);
    for (std::size_t i = 0; i < payloads.size(); ++i) {
        r.tier_bytes[i / r.pages] += payloads[i].size();
    }
    double total = 0;
    for (const std::uint64_t n : r.tier_bytes) {
        total += 8.0 * static_cast<double>(n);
        r.tier_bits.push_back(total / (static_cast<double>(h.tokens) * h.channels));
    }
    return r;
}

Result<codec::PageContext> to_page_context(const MatrixContext& m) {
    if (m.kind != "key" && m.kind != "value") {
        return Status{ErrorCode::invalid_argument, "kind: expected key or value, actual \"" + m.kind + "\""};
    }
    if (m.layer >= kv::kLayersMax || m.layers > kv::kLayersMax) {
        return Status{ErrorCode::invalid_argument, "layer: expected at most " + std::to_string(kv::kLayersMax) +
                                                       " layers, actual layer " + std::to_string(m.layer) + " of " +
                                                       std::to_string(m.layers)};
    }
    if (m.head_channels > kv::kChannelsMax - 1 || m.rope_dims > m.head_channels) {
        return Status{ErrorCode::invalid_argument, "rotation: expected at most " + std::to_string(m.head_channels) +
                                                       " rotated channels per head, actual " +
                                                       std::to_string(m.rope_dims)};
    }
    codec::PageContext context;
    context.head_channels = static_cast<std::uint16_t>(m.head_channels);
    context.rope = {.dims = m.rope_dims,
                    .base = static_cast<float>(m.rope_base),
                    .scale = static_cast<float>(m.rope_scale),
                    .interleaved = m.rope_interleaved};
    context.kind = m.kind == "key" ? kv::Kind::key : kv::Kind::value;
    context.layer = static_cast<std::uint16_t>(m.layer);
    context.layers = static_cast<std::uint16_t>(m.layers);
    return context;
}

/// The context of a matrix that a profile knows: how its keys were rotated stands there.
Result<codec::PageContext> profile_context(const codec::Profile& profile, const codec::PageContext& place,
                                           kv::Paging paging, std::uint32_t channels) {
    if (profile.find(place.layer, place.kind, channels) == nullptr) {
        return Status{ErrorCode::invalid_argument, "the profile has no layer " + std::to_string(place.layer) + " of " +
                                                       std::to_string(channels) + " channels"};
    }
    kv::Geometry geometry;
    geometry.layers = profile.layers;
    return codec::page_context(geometry, place.layer, place.kind, paging, 0);
}

/// How many tiers "anchor", "full", "exact", "last" or a tier's number asks for.
Result<std::size_t> tier_count(const std::string& tier, const codec::CodecInfo& codec) {
    if (tier == "anchor") {
        return std::size_t{1};
    }
    if (tier == "full") {
        return codec::full_tier(codec) + std::size_t{1};
    }
    if (tier == "last" || (tier == "exact" && codec.exact)) {
        return std::size_t{codec.tiers};
    }
    if (tier.size() == 1 && tier[0] >= '0' && tier[0] - '0' < codec.tiers) {
        return static_cast<std::size_t>(tier[0] - '0') + 1;
    }
    return Status{ErrorCode::invalid_argument, std::string("tier: expected anchor, full, ") +
                                                   (codec.exact ? "exact, " : "") + "last or a number below " +
                                                   std::to_string(codec.tiers) + ", actual \"" + tier + "\""};
}

}  // namespace

Result<std::string> load_profile(const std::string& path) {
    LYNX_ASSIGN(const base::Bytes bytes, codec::read_file(path));
    Result<codec::Profile> profile = codec::parse_profile(bytes);
    if (!profile.ok()) {
        return profile.status().with_context(path);
    }
    return codec::profile_name(codec::keep_profile(std::move(profile).value())->hash);
}

std::vector<CodecDescription> available_codecs() {
    std::vector<CodecDescription> all;
    for (const codec::CodecInfo& c : codec::list_codecs()) {
        all.push_back({c.name, c.tiers, c.summary, c.exact});
    }
    return all;
}

std::string to_json(const CodecFileReport& r) {
    const nlohmann::ordered_json j{
        {"codec", r.options.name},
        {"dtype", r.dtype},
        {"tokens", r.tokens},
        {"channels", r.channels},
        {"pages", r.pages},
        {"alpha", r.options.alpha},
        {"chunk_tokens", r.options.chunk_tokens},
        {"page_tokens", r.options.page_tokens},
        {"meta", r.options.meta},
        {"sinks", r.options.sinks},
        {"recent", r.options.recent},
        {"profile", r.options.profile},
        {"step", r.options.step},
        {"anchor_cut", r.options.anchor_cut},
        {"second_cut", r.options.second_cut},
        {"file_bytes", r.file_bytes},
        {"tier_bytes", r.tier_bytes},
        {"bits_anchor", r.tier_bits.front()},
        {"bits_full", r.tier_bits[r.full_tier]},
        {"bits_exact", r.exact ? nlohmann::ordered_json(r.tier_bits.back()) : nlohmann::ordered_json(nullptr)}};
    return j.dump();
}

Result<CodecFileReport> encode_npy_file(const std::string& in_npy, const std::string& out_lynx,
                                        const CodecOptions& options, const MatrixContext& matrix_context) {
    LYNX_ASSIGN(codec::PageContext context, to_page_context(matrix_context));
    LYNX_ASSIGN(const codec::CodecParams params, codec::to_params(options));
    LYNX_ASSIGN(const auto coder, codec::make_codec(options.name, params));
    LYNX_ASSIGN(const base::Bytes bytes, codec::read_file(in_npy));
    Result<codec::NpyMatrix> parsed = codec::parse_npy_matrix(bytes);
    if (!parsed.ok()) {
        return parsed.status().with_context(in_npy);
    }
    const codec::NpyMatrix& matrix = parsed.value();
    const codec::FileHeader header{options.name,  coder->info().tiers, matrix.dtype,
                                   matrix.tokens, matrix.channels,     params};
    const kv::Paging paging = header.paging();
    if (const std::shared_ptr<const codec::Profile> profile = codec::find_profile(params.profile)) {
        LYNX_ASSIGN(context, profile_context(*profile, context, paging, matrix.channels));
    }
    std::vector<base::Bytes> payloads(std::size_t{header.tiers} * paging.pages());
    std::vector<base::Bytes> page(header.tiers);
    for (std::uint32_t i = 0; i < paging.pages(); ++i) {
        const std::uint32_t first = paging.first_token(i);
        const kv::ConstView view = matrix.view().slice_tokens(first, paging.tokens_in(i));
        context.first_token = first;
        context.sequence_tokens = matrix.tokens;
        if (const Status s = coder->encode(view, context, page); !s.ok()) {
            return s.with_context(in_npy);
        }
        for (std::size_t t = 0; t < page.size(); ++t) {
            payloads[t * paging.pages() + i] = page[t];
        }
    }
    LYNX_ASSIGN(const base::Bytes file, codec::write_container(header, payloads));
    const std::array<base::ByteView, 1> parts{file};
    LYNX_TRY(codec::write_file(out_lynx, parts));
    const std::vector<base::ByteView> views(payloads.begin(), payloads.end());
    return make_report(coder->info(), header, views, file.size());
}

Status decode_lynx_file(const std::string& in_lynx, const std::string& out_npy, const std::string& tier) {
    LYNX_ASSIGN(const base::Bytes bytes, codec::read_file(in_lynx));
    Result<codec::LynxFile> parsed = codec::parse_container(bytes);
    if (!parsed.ok()) {
        return parsed.status().with_context(in_lynx);
    }
    const codec::FileHeader& h = parsed.value().header;
    LYNX_ASSIGN(const auto coder, codec::make_codec(h.codec, h.params));
    const kv::Paging paging = h.paging();
    LYNX_ASSIGN(const std::size_t tiers, tier_count(tier, coder->info()));
    std::vector<base::Bytes> pages;
    for (std::uint32_t i = 0; i < paging.pages(); ++i) {
        const std::vector<base::ByteView> payloads = parsed.value().page(i, tiers);
        // Every payload states its own size, so a page is only allocated when bytes enough for it are there.
        if (const Status s = codec::check_page_shape(payloads, paging.tokens_in(i), h); !s.ok()) {
            return s.with_context(in_lynx + ": page " + std::to_string(i));
        }
        base::Bytes& page =
            pages.emplace_back(std::size_t{paging.tokens_in(i)} * h.channels * kv::dtype_bytes(h.dtype));
        const kv::View dst = kv::token_major(page.data(), h.dtype, paging.tokens_in(i), h.channels);
        if (const Status s = coder->decode(payloads, dst); !s.ok()) {
            return s.with_context(in_lynx + ": page " + std::to_string(i));
        }
    }
    const std::array<std::size_t, 2> shape{h.tokens, h.channels};
    const std::string header = codec::npy_header(codec::npy_descr(h.dtype), shape);
    std::vector<base::ByteView> parts{base::as_view(header)};
    parts.insert(parts.end(), pages.begin(), pages.end());
    return codec::write_file(out_npy, parts);
}

Result<CodecFileReport> inspect_lynx_file(const std::string& in_lynx, const std::string& symbols_npz) {
    LYNX_ASSIGN(const base::Bytes bytes, codec::read_file(in_lynx));
    Result<codec::LynxFile> parsed = codec::parse_container(bytes);
    if (!parsed.ok()) {
        return parsed.status().with_context(in_lynx);
    }
    const codec::FileHeader& h = parsed.value().header;
    LYNX_ASSIGN(const auto coder, codec::make_page_codec(h.codec, h.params));
    codec::SymbolArrays arrays(h);
    codec::PageSymbols symbols;
    for (std::uint32_t i = 0; i < h.paging().pages(); ++i) {
        const std::vector<base::ByteView> payloads = parsed.value().page(i, h.tiers);
        Status s = codec::check_page_shape(payloads, h.paging().tokens_in(i), h);
        s = s.ok() ? coder->inspect(payloads, symbols) : s;
        if (!s.ok()) {
            return s.with_context(in_lynx + ": page " + std::to_string(i));
        }
        if (!symbols_npz.empty()) {
            arrays.add_page(i, symbols);
        }
    }
    if (!symbols_npz.empty()) {
        LYNX_TRY(arrays.write(symbols_npz));
    }
    return make_report(coder->info(), h, parsed.value().payloads, bytes.size());
}

}  // namespace lynx
