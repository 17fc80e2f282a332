#include "codec/container.h"

#include <cstring>

#include "base/try.h"
#include "codec/page_codec.h"
#include "codec/payload.h"

namespace lynx::codec {
namespace {

constexpr std::size_t kFileCrcOffset = 60;

Status corrupt(std::string_view what, std::uint64_t actual) {
    return {ErrorCode::corrupt, "file header: " + std::string(what) + ": actual " + std::to_string(actual)};
}

/// Extends a checksum by a payload's own checksum field. Precondition: at least kHeaderBytes bytes.
std::uint32_t add_payload_crc(base::ByteView payload, std::uint32_t crc) noexcept {
    return base::crc32(payload.subspan(kHeaderCrcOffset, 4), crc);
}

Status check_shape(const FileHeader& h) {
    if (h.tokens == 0 || h.tokens > kv::kContextTokensMax) {
        return corrupt("tokens", h.tokens);
    }
    if (h.channels == 0 || h.channels > kv::kChannelsMax) {
        return corrupt("channels", h.channels);
    }
    if (h.dtype > kv::DType::f32) {
        return corrupt("dtype", static_cast<std::uint64_t>(h.dtype));
    }
    if (const Status s = validate_params(h.params); !s.ok()) {
        return {ErrorCode::corrupt, "file header: " + s.message()};
    }
    return {};
}

}  // namespace

std::vector<base::ByteView> LynxFile::page(std::uint32_t page, std::size_t tier_count) const {
    std::vector<base::ByteView> tiers;
    for (std::size_t t = 0; t < tier_count; ++t) {
        tiers.push_back(payloads[t * header.paging().pages() + page]);
    }
    return tiers;
}

Status check_page_shape(std::span<const base::ByteView> payloads, std::uint32_t tokens, const FileHeader& header) {
    for (const base::ByteView bytes : payloads) {
        LYNX_ASSIGN(const ParsedPayload p, parse_payload(bytes));
        if (p.header.tokens != tokens || p.header.channels != header.channels || p.header.dtype != header.dtype) {
            return {ErrorCode::corrupt, "payload shape: expected [" + std::to_string(tokens) + ", " +
                                            std::to_string(header.channels) + "], actual [" +
                                            std::to_string(p.header.tokens) + ", " + std::to_string(p.header.channels) +
                                            "], or another dtype"};
        }
    }
    return {};
}

Result<base::Bytes> write_container(const FileHeader& header, std::span<const base::Bytes> payloads) {
    LYNX_ASSIGN(const auto codec, make_page_codec(header.codec, header.params));
    LYNX_TRY(check_shape(header));
    const std::size_t expected = std::size_t{header.tiers} * header.paging().pages();
    if (header.tiers != codec->info().tiers || payloads.size() != expected) {
        return Status{ErrorCode::invalid_argument, "file: payloads: expected " + std::to_string(expected) +
                                                       ", actual " + std::to_string(payloads.size())};
    }
    std::uint64_t payload_bytes = 0;
    std::uint32_t payload_crc = 0;
    for (const base::Bytes& p : payloads) {
        payload_bytes += p.size();
        payload_crc = add_payload_crc(p, payload_crc);
    }
    base::Bytes out;
    out.reserve(kFileHeaderBytes + payload_bytes);
    base::Writer w(out);
    w.put(kFileMagic);
    w.put(kFileVersion);
    w.put(codec->id());
    w.put(header.tiers);
    w.put(static_cast<std::uint8_t>(codec->mono() ? kFlagMono : 0));
    w.put(header.dtype);
    w.put(header.params.meta);
    w.put(header.params.cuts);
    w.put(header.tokens);
    w.put(header.channels);
    w.put(header.paging().pages());
    w.put(header.params.alpha);
    w.put(header.params.chunk_tokens);
    w.put(header.params.page_tokens);
    w.put(header.params.sinks);
    w.put(header.params.recent);
    w.put(header.params.step);
    w.put(payload_bytes);
    w.put(header.params.profile);
    w.put(payload_crc);
    w.put(base::crc32(base::ByteView(out).first(kFileCrcOffset)));
    for (const base::Bytes& p : payloads) {
        w.put_bytes(p);
    }
    return out;
}

Result<LynxFile> parse_container(base::ByteView bytes) {
    if (bytes.size() < kFileHeaderBytes) {
        return Status{ErrorCode::truncated, "file header: expected " + std::to_string(kFileHeaderBytes) +
                                                " bytes, actual " + std::to_string(bytes.size())};
    }
    base::Reader r(bytes);
    if (const auto magic = r.get<std::uint32_t>(); magic != kFileMagic) {
        return Status{ErrorCode::corrupt, "file header: magic: not a .lynx file"};
    }
    if (const auto version = r.get<std::uint16_t>(); version != kFileVersion) {
        return Status{ErrorCode::unsupported_version, "file header: version: expected " + std::to_string(kFileVersion) +
                                                          ", actual " + std::to_string(version)};
    }
    LynxFile file;
    FileHeader& h = file.header;
    const auto id = r.get<CodecId>();
    h.tiers = r.get<std::uint8_t>();
    const auto flags = r.get<std::uint8_t>();
    h.dtype = r.get<kv::DType>();
    h.params.meta = r.get<MetaFormat>();
    h.params.cuts = r.get<std::uint8_t>();
    h.tokens = r.get<std::uint32_t>();
    h.channels = r.get<std::uint32_t>();
    const auto pages = r.get<std::uint32_t>();
    h.params.alpha = r.get<float>();
    h.params.chunk_tokens = r.get<std::uint16_t>();
    h.params.page_tokens = r.get<std::uint16_t>();
    h.params.sinks = r.get<std::uint16_t>();
    h.params.recent = r.get<std::uint16_t>();
    h.params.step = r.get<float>();
    const auto payloads_total = r.get<std::uint64_t>();
    h.params.profile = r.get<std::uint64_t>();
    const auto payload_crc = r.get<std::uint32_t>();
    const auto crc = r.get<std::uint32_t>();
    if (const std::uint32_t expected = base::crc32(bytes.first(kFileCrcOffset)); crc != expected) {
        return Status{ErrorCode::corrupt, "file header checksum at offset 60: expected " + std::to_string(expected) +
                                              ", actual " + std::to_string(crc)};
    }
    if ((flags & ~kFlagMono) != 0) {
        return corrupt("flags", flags);
    }
    LYNX_TRY(check_shape(h));
    LYNX_ASSIGN(h.codec, codec_name(id, (flags & kFlagMono) != 0));
    LYNX_ASSIGN(const auto codec, make_page_codec(h.codec, h.params));
    if (h.tiers != codec->info().tiers || pages != h.paging().pages()) {
        return corrupt("tiers or pages", pages);
    }
    const std::uint64_t actual = bytes.size() - kFileHeaderBytes;
    if (actual != payloads_total) {
        return Status{
            actual < payloads_total ? ErrorCode::truncated : ErrorCode::corrupt,
            "file: payload bytes: expected " + std::to_string(payloads_total) + ", actual " + std::to_string(actual)};
    }
    const std::uint64_t count = std::uint64_t{h.tiers} * pages;
    if (count * kHeaderBytes > payloads_total) {
        return corrupt("pages do not fit the payload bytes", pages);
    }
    file.payloads.reserve(count);
    base::ByteView rest = bytes.subspan(kFileHeaderBytes);
    std::uint32_t crc_of_crcs = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
        Result<std::size_t> size = payload_bytes(rest);
        if (!size.ok() || size.value() > rest.size()) {
            return Status{ErrorCode::corrupt, "file: payload " + std::to_string(i) + " of " + std::to_string(count) +
                                                  ": its length or magic is wrong"};
        }
        file.payloads.push_back(rest.first(size.value()));
        crc_of_crcs = add_payload_crc(file.payloads.back(), crc_of_crcs);
        rest = rest.subspan(size.value());
    }
    if (!rest.empty() || crc_of_crcs != payload_crc) {
        return Status{ErrorCode::corrupt, "file: the payloads are not the ones the header was written for"};
    }
    return file;
}

}  // namespace lynx::codec
