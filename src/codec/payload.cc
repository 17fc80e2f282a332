#include "codec/payload.h"

#include <array>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/try.h"
#include "codec/ref/lynxt.h"

namespace lynx::codec {
namespace {

constexpr std::size_t kReservedBytes = 3;  // offsets 57..59

using HeaderBytes = std::array<std::byte, kHeaderBytes>;

class Cursor {
public:
    explicit Cursor(HeaderBytes& out) noexcept : out_(out) {}
    template <class T>
    void put(T value) noexcept {
        std::memcpy(out_.data() + offset_, &value, sizeof value);
        offset_ += sizeof value;
    }

private:
    HeaderBytes& out_;
    std::size_t offset_ = 0;
};

std::uint32_t header_checksum(HeaderBytes header) noexcept {
    std::memset(header.data() + kHeaderCrcOffset, 0, 4);
    return base::crc32(header);
}

Status corrupt(std::string_view what, std::uint64_t actual) {
    return {ErrorCode::corrupt, "payload header: " + std::string(what) + ": actual " + std::to_string(actual)};
}

/// Relations between fields, once the checksum holds.
Status check_fields(const PayloadHeader& h, std::uint8_t flags) {
    if (h.codec < CodecId::f16 || h.codec > kLastCodecId) {
        return {ErrorCode::unsupported_version,
                "payload header: codec id " + std::to_string(static_cast<int>(h.codec))};
    }
    if ((flags & ~kFlagMono) != 0) {
        return corrupt("flags", flags);
    }
    if (h.tiers == 0 || h.tiers > kTiersMax || h.tier >= h.tiers) {
        return corrupt("tier", h.tier);
    }
    if (h.dtype > kv::DType::f32) {
        return corrupt("dtype", static_cast<std::uint64_t>(h.dtype));
    }
    if (h.tokens == 0 || h.tokens > h.params.page_tokens) {
        return corrupt("tokens", h.tokens);
    }
    if (h.channels == 0 || h.channels > kv::kChannelsMax) {
        return corrupt("channels", h.channels);
    }
    if (std::uint32_t{h.exact_head} + h.exact_tail > h.tokens) {
        return corrupt("exact rows", std::uint64_t{h.exact_head} + h.exact_tail);
    }
    if (h.tier == 0 && h.anchor_crc != 0) {
        return corrupt("anchor checksum in tier 0", h.anchor_crc);
    }
    if (const Status s = validate_params(h.params); !s.ok()) {
        return {ErrorCode::corrupt, "payload header: " + s.message()};
    }
    return {};
}

}  // namespace

HeaderBytes serialise_header(const PayloadHeader& h) noexcept {
    HeaderBytes bytes{};
    Cursor c(bytes);
    c.put(kPayloadMagic);
    c.put(kPayloadVersion);
    c.put(h.codec);
    c.put(h.tier);
    c.put(h.tiers);
    c.put(static_cast<std::uint8_t>(h.mono ? kFlagMono : 0));
    c.put(h.dtype);
    c.put(h.params.meta);
    c.put(h.tokens);
    c.put(h.channels);
    c.put(h.exact_head);
    c.put(h.exact_tail);
    c.put(h.params.alpha);
    c.put(h.params.chunk_tokens);
    c.put(h.params.page_tokens);
    c.put(h.params.sinks);
    c.put(h.params.recent);
    c.put(h.body_bytes);
    c.put(h.anchor_crc);
    c.put(h.params.profile);
    c.put(h.params.step);
    c.put(h.params.cuts);
    return bytes;
}

std::span<std::byte> start_payload(std::size_t body_bytes, base::Bytes& out) {
    out.resize(kHeaderBytes + body_bytes);
    return std::span(out).subspan(kHeaderBytes);
}

std::uint32_t seal_payload(const PayloadHeader& header, base::Bytes& out) {
    LYNX_CHECK(out.size() == kHeaderBytes + header.body_bytes);
    HeaderBytes bytes = serialise_header(header);
    const std::uint32_t crc = base::crc32(base::ByteView(out).subspan(kHeaderBytes), base::crc32(bytes));
    std::memcpy(bytes.data() + kHeaderCrcOffset, &crc, sizeof crc);
    std::memcpy(out.data(), bytes.data(), kHeaderBytes);
    return crc;
}

Result<std::size_t> payload_bytes(base::ByteView bytes) {
    if (bytes.size() < kHeaderBytes) {
        return Status{ErrorCode::truncated, "payload header: expected " + std::to_string(kHeaderBytes) +
                                                " bytes, actual " + std::to_string(bytes.size())};
    }
    base::Reader r(bytes);
    if (const auto magic = r.get<std::uint32_t>(); magic != kPayloadMagic) {
        return corrupt("magic", magic);
    }
    if (const auto version = r.get<std::uint16_t>(); version != kPayloadVersion) {
        return Status{ErrorCode::unsupported_version, "payload header: version: expected " +
                                                          std::to_string(kPayloadVersion) + ", actual " +
                                                          std::to_string(version)};
    }
    base::Reader length(bytes.subspan(36));
    const auto body = length.get<std::uint32_t>();
    if (body > kPayloadBytesMax - kHeaderBytes) {
        return Status{ErrorCode::limit_exceeded, "payload header: body length " + std::to_string(body)};
    }
    return kHeaderBytes + body;
}

Result<ParsedHeader> parse_header(base::ByteView first, std::size_t payload_size, const BodyChecksum& body_checksum) {
    LYNX_ASSIGN(const std::size_t total, payload_bytes(first));
    if (payload_size < total) {
        return Status{ErrorCode::truncated,
                      "payload: expected " + std::to_string(total) + " bytes, actual " + std::to_string(payload_size)};
    }
    if (payload_size > total) {
        return Status{ErrorCode::corrupt, "payload: trailing bytes: expected " + std::to_string(total) + ", actual " +
                                              std::to_string(payload_size)};
    }
    HeaderBytes raw;
    std::memcpy(raw.data(), first.data(), kHeaderBytes);
    ParsedHeader p;
    base::Reader r(first.subspan(6, kHeaderBytes - 6));
    PayloadHeader& h = p.header;
    h.codec = r.get<CodecId>();
    h.tier = r.get<std::uint8_t>();
    h.tiers = r.get<std::uint8_t>();
    const auto flags = r.get<std::uint8_t>();
    h.mono = (flags & kFlagMono) != 0;
    h.dtype = r.get<kv::DType>();
    h.params.meta = r.get<MetaFormat>();
    h.tokens = r.get<std::uint32_t>();
    h.channels = r.get<std::uint32_t>();
    h.exact_head = r.get<std::uint16_t>();
    h.exact_tail = r.get<std::uint16_t>();
    h.params.alpha = r.get<float>();
    h.params.chunk_tokens = r.get<std::uint16_t>();
    h.params.page_tokens = r.get<std::uint16_t>();
    h.params.sinks = r.get<std::uint16_t>();
    h.params.recent = r.get<std::uint16_t>();
    h.body_bytes = r.get<std::uint32_t>();
    h.anchor_crc = r.get<std::uint32_t>();
    h.params.profile = r.get<std::uint64_t>();
    h.params.step = r.get<float>();
    h.params.cuts = r.get<std::uint8_t>();
    const base::ByteView reserved = r.take(kReservedBytes);
    p.crc = r.get<std::uint32_t>();
    if (const std::uint32_t expected = body_checksum(header_checksum(raw)); p.crc != expected) {
        return Status{ErrorCode::corrupt, "payload checksum at offset 60: expected " + std::to_string(expected) +
                                              ", actual " + std::to_string(p.crc)};
    }
    for (const std::byte b : reserved) {
        if (b != std::byte{0}) {
            return corrupt("reserved bytes", static_cast<std::uint64_t>(b));
        }
    }
    LYNX_TRY(check_fields(h, flags));
    return p;
}

Result<ParsedPayload> parse_payload(base::ByteView bytes) {
    const auto body = [&] { return bytes.subspan(kHeaderBytes); };
    LYNX_ASSIGN(const ParsedHeader p,
                parse_header(bytes, bytes.size(), [&](std::uint32_t crc) { return base::crc32(body(), crc); }));
    return ParsedPayload{p.header, p.crc, body()};
}

Status validate_params(const CodecParams& p) {
    const auto bad = [](std::string_view name, auto actual, std::string_view range) {
        return Status{ErrorCode::invalid_argument,
                      std::string(name) + ": expected " + std::string(range) + ", actual " + std::to_string(actual)};
    };
    if (!(p.alpha >= kAlphaMin && p.alpha <= kAlphaMax)) {
        return bad("alpha", p.alpha, "2^-10..2^20");
    }
    if (p.chunk_tokens == 0 || p.chunk_tokens > kChunkTokensMax) {
        return bad("chunk", p.chunk_tokens, "1..1024");
    }
    if (p.page_tokens == 0 || p.page_tokens > kv::kPageTokensMax) {
        return bad("page", p.page_tokens, "1..4096");
    }
    if (p.meta > MetaFormat::q8) {
        return bad("meta", static_cast<int>(p.meta), "f32, f16 or q8");
    }
    if (p.sinks > kExactTokensMax) {
        return bad("sinks", p.sinks, "0..1024");
    }
    if (p.recent > kExactTokensMax) {
        return bad("recent", p.recent, "0..1024");
    }
    if (p.step != 0 && !(p.step >= kStepMin && p.step <= kStepMax)) {
        return bad("step", p.step, "0 or 2^-12..16");
    }
    if (!lynxt_cuts_valid(p.cuts)) {
        return bad("cuts", static_cast<int>(p.cuts),
                   "0, or anchor + 16 * second tier: anchor at most 6, second tier 1 or 2 less and 1..4");
    }
    return {};
}

}  // namespace lynx::codec
