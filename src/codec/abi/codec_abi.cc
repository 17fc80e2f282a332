// The C boundary of the codec module: checks pointers and ranges, turns exceptions and Status into codes, copies payloads
// into the caller's buffers. It holds no codec logic.
#include "lynx/codec_abi.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <limits>
#include <new>

#include "base/try.h"
#include "codec/context.h"
#include "codec/options.h"
#include "codec/page_codec.h"

struct lynxkv_codec {
    std::unique_ptr<lynx::codec::Codec> codec;
};

namespace {

using lynx::ErrorCode;
using lynx::Result;
using lynx::Status;
namespace base = lynx::base;
namespace codec = lynx::codec;
namespace kv = lynx::kv;

static_assert(LYNXKV_TIERS_MAX == codec::kTiersMax);
static_assert(LYNXKV_IO == static_cast<int>(ErrorCode::io) &&
              LYNXKV_TRUNCATED == static_cast<int>(ErrorCode::truncated));
static_assert(LYNXKV_F32 == static_cast<int>(kv::DType::f32) && LYNXKV_BF16 == static_cast<int>(kv::DType::bf16));
static_assert(LYNXKV_LATENT == static_cast<int>(kv::Kind::latent));
static_assert(LYNXKV_META_Q8 == static_cast<int>(codec::MetaFormat::q8));

constexpr std::size_t kMessageBytes = 4096;
thread_local std::array<char, kMessageBytes> last_error{};

lynxkv_status fail(lynxkv_status code, const char* message) noexcept {
    const std::size_t n = std::min(std::strlen(message), kMessageBytes - 1);
    std::memcpy(last_error.data(), message, n);
    last_error[n] = '\0';
    return code;
}

/// Runs `f`, which returns a Status; nothing escapes.
template <class F>
lynxkv_status guarded(F f) noexcept {
    try {
        const Status status = f();
        return status.ok() ? LYNXKV_OK : fail(static_cast<lynxkv_status>(status.code()), status.message().c_str());
    } catch (const std::bad_alloc&) {
        return fail(LYNXKV_IO, "out of memory");
    } catch (const std::exception& error) {
        return fail(LYNXKV_IO, error.what());
    }
}

Status missing(const char* what) { return {ErrorCode::invalid_argument, std::string(what) + " is NULL"}; }

/// The registry's names as C strings.
const std::vector<std::string>& names() {
    static const std::vector<std::string> kNames = [] {
        std::vector<std::string> list;
        for (const codec::CodecInfo& info : codec::list_codecs()) {
            list.push_back(info.name);
        }
        return list;
    }();
    return kNames;
}

lynxkv_codec_params to_abi(const codec::CodecParams& p) noexcept {
    return {p.alpha, p.chunk_tokens, p.page_tokens, static_cast<std::uint32_t>(p.meta), p.sinks, p.recent};
}

Result<codec::CodecParams> to_params(const lynxkv_codec_params* abi) {
    if (abi == nullptr) {
        return codec::CodecParams{};
    }
    lynx::CodecOptions options;
    options.alpha = static_cast<double>(abi->alpha);
    options.chunk_tokens = abi->chunk_tokens;
    options.page_tokens = abi->page_tokens;
    options.sinks = abi->sinks;
    options.recent = abi->recent;
    LYNX_ASSIGN(codec::CodecParams params, codec::to_params(options));
    params.meta = static_cast<codec::MetaFormat>(std::min<std::uint32_t>(abi->meta, UINT8_MAX));
    return params;
}

/// A value too large for its field becomes the largest, which the checks refuse.
std::uint16_t narrow(std::uint32_t x) noexcept {
    return static_cast<std::uint16_t>(std::min<std::uint32_t>(x, std::numeric_limits<std::uint16_t>::max()));
}

/// Checked for every codec, also one that does not look at it.
Result<codec::PageContext> to_context(const lynxkv_context* abi, std::uint32_t channels) {
    if (abi == nullptr) {
        return codec::PageContext{};
    }
    const codec::PageContext context{
        .first_token = abi->first_token,
        .sequence_tokens = abi->sequence_tokens,
        .layer = narrow(abi->layer),
        .kind = static_cast<kv::Kind>(std::min<std::uint32_t>(abi->kind, UINT8_MAX)),
        .head_channels = narrow(abi->head_channels),
        .rope = {abi->rope_dims, abi->rope_base, abi->rope_scale, abi->rope_interleaved != 0}};
    if (const Status s = codec::validate_context(context, channels); !s.ok()) {
        return Status{ErrorCode::invalid_argument, s.message()};
    }
    return context;
}

/// The view that a source or destination describes; shape limits are the codec's to check.
template <class View, class Abi>
Result<View> to_view(const Abi* abi, const char* what) {
    if (abi == nullptr || abi->data == nullptr) {
        return missing(what);
    }
    if (abi->dtype > LYNXKV_F32) {
        return Status{ErrorCode::invalid_argument,
                      std::string(what) + ": dtype: expected 0..2, actual " + std::to_string(abi->dtype)};
    }
    const auto dtype = static_cast<kv::DType>(abi->dtype);
    if (reinterpret_cast<std::uintptr_t>(abi->data) % kv::dtype_bytes(dtype) != 0) {
        return Status{ErrorCode::invalid_argument, std::string(what) + " is not aligned to its elements"};
    }
    View view;
    view.data = static_cast<decltype(view.data)>(abi->data);
    view.dtype = dtype;
    view.tokens = abi->tokens;
    view.channels = abi->channels;
    view.token_stride = abi->token_stride;
    view.channel_stride = abi->channel_stride;
    return view;
}

Status encode(const codec::Codec& codec, const lynxkv_source* page, const lynxkv_context* context,
              std::span<lynxkv_buffer> out) {
    LYNX_ASSIGN(const auto view, to_view<kv::ConstView>(page, "page"));
    LYNX_ASSIGN(const codec::PageContext page_context, to_context(context, view.channels));
    std::vector<base::Bytes> payloads(out.size());
    LYNX_TRY(codec.encode(view, page_context, payloads));
    Status status;
    for (std::size_t t = 0; t < out.size(); ++t) {
        out[t].bytes = payloads[t].size();
        if (out[t].data == nullptr || out[t].capacity < payloads[t].size()) {
            status = {ErrorCode::limit_exceeded, "encode: buffer of tier " + std::to_string(t) + ": expected " +
                                                     std::to_string(payloads[t].size()) + " bytes, actual " +
                                                     std::to_string(out[t].data == nullptr ? 0 : out[t].capacity)};
        }
    }
    for (std::size_t t = 0; status.ok() && t < out.size(); ++t) {
        std::memcpy(out[t].data, payloads[t].data(), payloads[t].size());
    }
    return status;
}

Status decode(const codec::Codec& codec, std::span<const lynxkv_payload> payloads,
              const lynxkv_destination* destination) {
    LYNX_ASSIGN(const auto view, to_view<kv::View>(destination, "destination"));
    std::vector<base::ByteView> views;
    for (const lynxkv_payload& p : payloads) {
        if (p.data == nullptr && p.bytes > 0) {
            return missing("payload");
        }
        views.emplace_back(static_cast<const std::byte*>(p.data), p.bytes);
    }
    return codec.decode(views, view);
}

Status describe(base::ByteView bytes, lynxkv_payload_info& info) {
    LYNX_ASSIGN(const codec::ParsedPayload parsed, codec::parse_payload(bytes));
    const codec::PayloadHeader& h = parsed.header;
    LYNX_ASSIGN(const std::string_view name, codec::codec_name(h.codec, h.mono));
    const auto known = std::find(names().begin(), names().end(), name);
    if (known == names().end()) {
        return {ErrorCode::unsupported_version, "no codec " + std::string(name)};
    }
    info = {known->c_str(), to_abi(h.params), h.tier, h.tiers, static_cast<std::uint32_t>(h.dtype),
            h.tokens,       h.channels};
    return {};
}

}  // namespace

const char* lynxkv_version(void) { return LYNX_VERSION; }

uint32_t lynxkv_codec_abi_version(void) { return LYNXKV_CODEC_ABI_VERSION; }

const char* lynxkv_status_name(lynxkv_status status) {
    // to_string's views are of literals, so they end in a zero.
    return status < LYNXKV_OK || status > LYNXKV_IO ? "unknown"
                                                    : lynx::to_string(static_cast<ErrorCode>(status)).data();
}

const char* lynxkv_last_error(void) { return last_error.data(); }

size_t lynxkv_codec_count(void) {
    std::size_t n = 0;
    (void)guarded([&n]() -> Status {
        n = names().size();
        return {};
    });
    return n;
}

const char* lynxkv_codec_name(size_t index) { return index < lynxkv_codec_count() ? names()[index].c_str() : nullptr; }

void lynxkv_codec_params_init(lynxkv_codec_params* params) {
    if (params != nullptr) {
        *params = to_abi(codec::CodecParams{});
    }
}

void lynxkv_context_init(lynxkv_context* context) {
    if (context != nullptr) {
        const codec::PageContext c;
        *context = {c.first_token, c.sequence_tokens, c.layer,      static_cast<std::uint32_t>(c.kind), c.head_channels,
                    c.rope.dims,   c.rope.base,       c.rope.scale, c.rope.interleaved ? 1U : 0U};
    }
}

lynxkv_status lynxkv_codec_create(const char* name, const lynxkv_codec_params* params, lynxkv_codec** out) {
    return guarded([&]() -> Status {
        if (out == nullptr) {
            return missing("out");
        }
        *out = nullptr;
        if (name == nullptr) {
            return missing("name");
        }
        LYNX_ASSIGN(const codec::CodecParams p, to_params(params));
        LYNX_ASSIGN(auto made, codec::make_codec(name, p));
        *out = new lynxkv_codec{std::move(made)};
        return {};
    });
}

void lynxkv_codec_destroy(lynxkv_codec* codec) { delete codec; }

uint32_t lynxkv_codec_tiers(const lynxkv_codec* codec) { return codec == nullptr ? 0 : codec->codec->info().tiers; }

size_t lynxkv_encoded_bytes_max(const lynxkv_codec* codec, uint32_t tokens, uint32_t channels, uint32_t dtype,
                                uint32_t tier) {
    if (codec == nullptr || tokens == 0 || tokens > codec->codec->params().page_tokens || channels == 0 ||
        channels > kv::kChannelsMax || dtype > LYNXKV_F32 || tier >= codec->codec->info().tiers) {
        return 0;
    }
    return codec->codec->encoded_bytes_max(tokens, channels, static_cast<kv::DType>(dtype),
                                           static_cast<std::uint8_t>(tier));
}

lynxkv_status lynxkv_encode(const lynxkv_codec* codec, const lynxkv_source* page, const lynxkv_context* context,
                            lynxkv_buffer* out, size_t out_count) {
    return guarded([&]() -> Status {
        if (codec == nullptr || out == nullptr) {
            return missing(codec == nullptr ? "codec" : "out");
        }
        if (out_count != codec->codec->info().tiers) {
            return {ErrorCode::invalid_argument, "encode: outputs: expected " +
                                                     std::to_string(codec->codec->info().tiers) + ", actual " +
                                                     std::to_string(out_count)};
        }
        return encode(*codec->codec, page, context, {out, out_count});
    });
}

lynxkv_status lynxkv_decode(const lynxkv_codec* codec, const lynxkv_payload* payloads, size_t payload_count,
                            const lynxkv_destination* destination) {
    return guarded([&]() -> Status {
        if (codec == nullptr || payloads == nullptr) {
            return missing(codec == nullptr ? "codec" : "payloads");
        }
        if (payload_count == 0 || payload_count > codec->codec->info().tiers) {
            return {ErrorCode::invalid_argument, "decode: payloads: expected 1.." +
                                                     std::to_string(codec->codec->info().tiers) + ", actual " +
                                                     std::to_string(payload_count)};
        }
        return decode(*codec->codec, {payloads, payload_count}, destination);
    });
}

lynxkv_status lynxkv_payload_describe(const void* payload, size_t bytes, lynxkv_payload_info* info) {
    return guarded([&]() -> Status {
        if (info == nullptr || (payload == nullptr && bytes > 0)) {
            return missing(info == nullptr ? "info" : "payload");
        }
        *info = {};
        return describe({static_cast<const std::byte*>(payload), bytes}, *info);
    });
}
