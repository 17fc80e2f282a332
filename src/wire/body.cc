// Bodies of the control frames (docs/format/WIRE.md "Bodies"): one encoder and one decoder per message.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/try.h"
#include "wire/frame.h"

namespace lynx::wire {
namespace {

constexpr std::size_t kLayerBytes = 4 * 3 + 1 + 4 + 4 + 4 + 4 + 1;  // of one LayerGeometry in a hello body
constexpr std::size_t kHelloFixedBytes = 1 + 16 + 8 + 4 + 4 + 4 + 4;
constexpr std::size_t kRequestFixedBytes = 128;  // all but prompt, codec name and params; generous

Status bad(FrameType type, std::string_view what) {
    return {ErrorCode::corrupt, std::string(to_string(type)) + " body: " + std::string(what)};
}

base::ByteView cut(std::string_view text) { return base::as_view(text.substr(0, kTextBytesMax)); }

/// A peer's text on one line: it ends up in logs and terminals.
std::string printable(base::ByteView bytes) {
    std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    std::replace_if(
        text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, '?');
    return text;
}

// --- encoding: put(writer, message) writes the body; request and generation live in the header ---

void put(base::Writer& w, const Hello& m) {
    w.put(m.role);
    w.put_bytes(std::as_bytes(std::span(m.fingerprint)));
    w.put(m.credit_bytes);
    w.put(m.payload_bytes_max);
    w.put(m.requests_max);
    w.put(m.peer_timeout_ms);
    w.put(static_cast<std::uint32_t>(m.geometry.layers.size()));
    for (const kv::LayerGeometry& l : m.geometry.layers) {
        w.put(l.kv_heads);
        w.put(l.key_dim);
        w.put(l.value_dim);
        w.put(l.dtype);
        w.put(l.window);
        w.put(l.rope.dims);
        w.put(l.rope.base);
        w.put(l.rope.scale);
        w.put(static_cast<std::uint8_t>(l.rope.interleaved));
    }
}
void put(base::Writer& w, const Goodbye& m) {
    w.put(m.code);
    w.put_blob(cut(m.message));
}
void put(base::Writer&, const Heartbeat&) {}
void put(base::Writer& w, const Credit& m) {
    w.put(m.lane);
    w.put(m.bytes);
}
void put(base::Writer& w, const Request& m) {
    w.put_blob(base::as_view(m.codec));
    w.put_blob(m.codec_params);
    w.put(m.profile_hash);
    w.put(m.page_tokens);
    w.put(m.tiers);
    w.put(m.sampler.temperature);
    w.put(m.sampler.top_k);
    w.put(m.sampler.top_p);
    w.put(static_cast<std::uint8_t>(m.sampler.seed.has_value()));
    w.put(m.sampler.seed.value_or(0));
    w.put_blob(std::as_bytes(std::span(m.prompt)));
}
void put(base::Writer& w, const Progress& m) {
    w.put(m.tokens_done);
    w.put(m.tokens_total);
    w.put(static_cast<std::uint8_t>(m.prefix_hit));
}
void put(base::Writer& w, const FirstToken& m) { w.put(m.token); }
void put(base::Writer& w, const Abort& m) {
    w.put(m.code);
    w.put_blob(cut(m.message));
}
void put(base::Writer&, const AbortDone&) {}
void put(base::Writer&, const Done&) {}

FrameType type_of(const Message& m) noexcept {
    static constexpr FrameType kTypes[] = {
        FrameType::hello,    FrameType::goodbye,     FrameType::heartbeat, FrameType::credit,     FrameType::request,
        FrameType::progress, FrameType::first_token, FrameType::abort,     FrameType::abort_done, FrameType::done};
    static_assert(std::size(kTypes) == std::variant_size_v<Message>);
    return kTypes[m.index()];
}

template <class T>
concept OfRequest = requires(T m) {
    m.request;
    m.generation;
};

// --- decoding: one function per message that has a body of its own ---

bool get_bool(base::Reader& r, bool& out) {
    const auto v = r.get<std::uint8_t>();
    out = v == 1;
    return v <= 1;
}

bool get_code(base::Reader& r, ErrorCode& out) {
    const auto v = r.get<std::uint8_t>();
    out = static_cast<ErrorCode>(v);
    return v <= static_cast<std::uint8_t>(ErrorCode::unauthenticated);
}

Result<Message> get_hello(const FrameHeader& h, base::Reader& r) {
    Hello m;
    m.connection_id = h.key.request;
    const auto role = r.get<std::uint8_t>();
    if (role > 1) {
        return bad(h.type, "role: expected 0..1, actual " + std::to_string(role));
    }
    m.role = static_cast<Role>(role);
    if (const base::ByteView f = r.take(m.fingerprint.size()); !f.empty()) {
        std::memcpy(m.fingerprint.data(), f.data(), f.size());
    }
    m.credit_bytes = r.get<std::uint64_t>();
    m.payload_bytes_max = r.get<std::uint32_t>();
    m.requests_max = r.get<std::uint32_t>();
    m.peer_timeout_ms = r.get<std::uint32_t>();
    const auto layers = r.get<std::uint32_t>();
    if (layers > kv::kLayersMax || layers * kLayerBytes > r.remaining()) {
        return bad(h.type, "layers: " + std::to_string(layers) + " do not fit");
    }
    m.geometry.layers.resize(layers);
    for (kv::LayerGeometry& l : m.geometry.layers) {
        l.kv_heads = r.get<std::uint32_t>();
        l.key_dim = r.get<std::uint32_t>();
        l.value_dim = r.get<std::uint32_t>();
        const auto dtype = r.get<std::uint8_t>();
        if (dtype > static_cast<std::uint8_t>(kv::DType::f32)) {
            return bad(h.type, "dtype: expected 0..2, actual " + std::to_string(dtype));
        }
        l.dtype = static_cast<kv::DType>(dtype);
        l.window = r.get<std::uint32_t>();
        l.rope.dims = r.get<std::uint32_t>();
        l.rope.base = r.get<float>();
        l.rope.scale = r.get<float>();
        if (!get_bool(r, l.rope.interleaved) || !std::isfinite(l.rope.base) || !std::isfinite(l.rope.scale)) {
            return bad(h.type, "rotary parameters are not valid");
        }
    }
    return Message{std::move(m)};
}

Result<Message> get_request(const FrameHeader& h, base::Reader& r) {
    Request m;
    m.request = h.key.request;
    m.generation = h.key.generation;
    m.codec = printable(r.get_blob(kTextBytesMax));
    const base::ByteView params = r.get_blob(kCodecParamsBytesMax);
    m.codec_params.assign(params.begin(), params.end());
    m.profile_hash = r.get<std::uint64_t>();
    m.page_tokens = r.get<std::uint32_t>();
    m.tiers = r.get<std::uint8_t>();
    m.sampler.temperature = r.get<float>();
    m.sampler.top_k = r.get<std::uint32_t>();
    m.sampler.top_p = r.get<float>();
    bool seeded = false;
    const bool valid = get_bool(r, seeded);
    const auto seed = r.get<std::uint64_t>();
    if (seeded) {
        m.sampler.seed = seed;
    }
    const base::ByteView prompt = r.get_blob(std::size_t{kPromptTokensMax} * sizeof(std::int32_t));
    LYNX_TRY(r.status("request body"));
    if (!valid || (!seeded && seed != 0) || prompt.size() % sizeof(std::int32_t) != 0) {
        return bad(h.type, "a flag, the seed or the prompt's length is not valid");
    }
    m.prompt.resize(prompt.size() / sizeof(std::int32_t));
    if (!prompt.empty()) {
        std::memcpy(m.prompt.data(), prompt.data(), prompt.size());
    }
    LYNX_TRY(validate(m));
    return Message{std::move(m)};
}

Result<Message> get_message(const FrameHeader& h, base::Reader& r) {
    const std::uint64_t request = h.key.request;
    const std::uint32_t generation = h.key.generation;
    switch (h.type) {
        case FrameType::hello: return get_hello(h, r);
        case FrameType::request: return get_request(h, r);
        case FrameType::heartbeat: return Message{Heartbeat{}};
        case FrameType::abort_done: return Message{AbortDone{request, generation}};
        case FrameType::done: return Message{Done{request, generation}};
        case FrameType::first_token: return Message{FirstToken{request, generation, r.get<std::int32_t>()}};
        case FrameType::goodbye: {
            Goodbye m;
            if (!get_code(r, m.code)) {
                return bad(h.type, "unknown error code");
            }
            m.message = printable(r.get_blob(kTextBytesMax));
            return Message{std::move(m)};
        }
        case FrameType::abort: {
            Abort m{request, generation, ErrorCode::ok, {}};
            if (!get_code(r, m.code) || m.code == ErrorCode::ok) {
                return bad(h.type, "error code: expected 1..10");
            }
            m.message = printable(r.get_blob(kTextBytesMax));
            return Message{std::move(m)};
        }
        case FrameType::credit: {
            const auto lane = r.get<std::uint8_t>();
            const auto bytes = r.get<std::uint64_t>();
            if (lane >= kLanes) {
                return bad(h.type, "lane: expected 0..1, actual " + std::to_string(lane));
            }
            return Message{Credit{static_cast<Lane>(lane), bytes}};
        }
        case FrameType::progress: {
            Progress m{request, generation, r.get<std::uint32_t>(), r.get<std::uint32_t>(), false};
            if (!get_bool(r, m.prefix_hit) || m.tokens_done > m.tokens_total) {
                return bad(h.type, "tokens done " + std::to_string(m.tokens_done) + " of " +
                                       std::to_string(m.tokens_total) + ", or the flag, is not valid");
            }
            return Message{m};
        }
        case FrameType::page: break;
    }
    return bad(h.type, "has no control body");
}

}  // namespace

Status validate(const Request& request) {
    const auto refuse = [](ErrorCode code, std::string_view field, std::uint64_t actual, std::uint64_t max) {
        return Status{code, "request: " + std::string(field) + ": expected 1.." + std::to_string(max) + ", actual " +
                                std::to_string(actual)};
    };
    if (request.prompt.empty() || request.prompt.size() > kPromptTokensMax) {
        return refuse(ErrorCode::limit_exceeded, "prompt tokens", request.prompt.size(), kPromptTokensMax);
    }
    if (request.page_tokens == 0 || request.page_tokens > kv::kPageTokensMax) {
        return refuse(ErrorCode::invalid_argument, "page_tokens", request.page_tokens, kv::kPageTokensMax);
    }
    if (request.tiers == 0 || request.tiers > kTiersMax) {
        return refuse(ErrorCode::invalid_argument, "tiers", request.tiers, kTiersMax);
    }
    if (request.codec.size() > kTextBytesMax || request.codec_params.size() > kCodecParamsBytesMax) {
        return {ErrorCode::limit_exceeded,
                "request: codec name or parameters are longer than " + std::to_string(kCodecParamsBytesMax) + " bytes"};
    }
    const SamplerSettings& s = request.sampler;
    if (!std::isfinite(s.temperature) || s.temperature < 0 || !std::isfinite(s.top_p) || s.top_p < 0) {
        return {ErrorCode::invalid_argument, "request: temperature and top_p must be finite and not negative"};
    }
    return {};
}

std::size_t body_bytes_max(FrameType type) noexcept {
    switch (type) {
        case FrameType::hello: return kHelloFixedBytes + kv::kLayersMax * kLayerBytes;
        case FrameType::goodbye:
        case FrameType::abort: return 1 + 4 + kTextBytesMax;
        case FrameType::credit: return 9;
        case FrameType::request:
            return kRequestFixedBytes + kTextBytesMax + kCodecParamsBytesMax +
                   std::size_t{kPromptTokensMax} * sizeof(std::int32_t);
        case FrameType::progress: return 9;
        case FrameType::first_token: return 4;
        case FrameType::page: return kPayloadBytesMax;
        case FrameType::heartbeat:
        case FrameType::abort_done:
        case FrameType::done: return 0;
    }
    return 0;
}

base::Bytes encode_frame(const Message& message, Lane lane) {
    FrameHeader header{.type = type_of(message), .lane = lane, .body_bytes = 0, .body_crc = 0, .key = {}};
    base::Bytes frame(kHeaderBytes);
    base::Writer w(frame);
    std::visit(
        [&](const auto& m) {
            using M = std::decay_t<decltype(m)>;
            if constexpr (OfRequest<M>) {
                header.key.request = m.request;
                header.key.generation = m.generation;
            } else if constexpr (std::is_same_v<M, Hello>) {
                header.key.request = m.connection_id;
            }
            put(w, m);
        },
        message);
    const auto body = base::ByteView(frame).subspan(kHeaderBytes);
    header.body_bytes = static_cast<std::uint32_t>(body.size());
    header.body_crc = base::crc32(body);
    const auto bytes = encode_header(header);
    std::copy(bytes.begin(), bytes.end(), frame.begin());
    return frame;
}

Result<Message> decode_body(const FrameHeader& header, base::ByteView body) {
    const std::string name = std::string(to_string(header.type)) + " body";
    if (body.size() != header.body_bytes) {
        return Status{ErrorCode::truncated, name + ": expected " + std::to_string(header.body_bytes) +
                                                " bytes, actual " + std::to_string(body.size())};
    }
    if (base::crc32(body) != header.body_crc) {
        return bad(header.type, "checksum does not match");
    }
    base::Reader r(body);
    LYNX_ASSIGN(Message message, get_message(header, r));
    LYNX_TRY(r.status(name));
    if (r.remaining() != 0) {
        return bad(header.type, std::to_string(r.remaining()) + " bytes left over");
    }
    return message;
}

}  // namespace lynx::wire
