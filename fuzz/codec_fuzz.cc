// Any bytes into every decoder: the input is a .lynx file; its payloads are also decoded as they are, resealed, so that what
// lies behind the checksums is reached. Property: no crash, and what decodes once decodes again to the same bytes.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "codec/container.h"
#include "codec/page_codec.h"
#include "codec/payload.h"

namespace {

using namespace lynx;         // NOLINT(google-build-using-namespace)
using namespace lynx::codec;  // NOLINT(google-build-using-namespace)

constexpr std::size_t kTierOffset = 7;
constexpr std::size_t kElementsMax = std::size_t{1} << 20;

void decode_page(const std::vector<base::ByteView>& payloads) {
    const Result<ParsedPayload> anchor = parse_payload(payloads.front());
    if (!anchor.ok()) {
        return;
    }
    const PayloadHeader& h = anchor.value().header;
    const Result<std::string_view> name = codec_name(h.codec, h.mono);
    if (!name.ok() || std::size_t{h.tokens} * h.channels > kElementsMax) {
        return;
    }
    const auto codec = make_page_codec(name.value(), h.params);
    LYNX_CHECK(codec.ok() || h.params.profile != 0);
    if (!codec.ok()) {
        return;  // nobody has loaded that profile
    }
    base::Bytes first(std::size_t{h.tokens} * h.channels * kv::dtype_bytes(h.dtype));
    const kv::View dense = kv::token_major(first.data(), h.dtype, h.tokens, h.channels);
    base::Bytes second(first.size());
    kv::View turned = dense;
    turned.data = second.data();
    turned.token_stride = 1;
    turned.channel_stride = h.tokens;
    const Status status = codec.value()->decode(payloads, dense);
    LYNX_CHECK(codec.value()->decode(payloads, turned).code() == status.code());
    PageSymbols symbols;
    static_cast<void>(codec.value()->inspect(payloads, symbols));
    const std::size_t element = kv::dtype_bytes(h.dtype);
    for (std::uint32_t t = 0; status.ok() && t < h.tokens; ++t) {
        for (std::uint32_t c = 0; c < h.channels; ++c) {
            LYNX_CHECK(std::memcmp(dense.at(t, c), turned.at(t, c), element) == 0);
        }
    }
}

/// Gives a payload the checksum its bytes call for, whatever they are.
base::Bytes reseal(base::ByteView payload, std::uint32_t anchor_crc) {
    base::Bytes bytes(payload.begin(), payload.end());
    std::memcpy(bytes.data() + 40, &anchor_crc, sizeof anchor_crc);
    std::memset(bytes.data() + kHeaderCrcOffset, 0, 4);
    const std::uint32_t crc = base::crc32(bytes);
    std::memcpy(bytes.data() + kHeaderCrcOffset, &crc, sizeof crc);
    return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const base::ByteView bytes(reinterpret_cast<const std::byte*>(data), size);
    static_cast<void>(parse_container(bytes));
    // The payloads behind the file header, cut by their own lengths; those that follow a tier 0 are tried as its later tiers.
    std::vector<base::Bytes> page;
    base::ByteView rest = bytes.size() > kFileHeaderBytes ? bytes.subspan(kFileHeaderBytes) : base::ByteView{};
    for (std::size_t i = 0; !rest.empty() && i < kTiersMax; ++i) {
        const Result<std::size_t> n = payload_bytes(rest);
        if (!n.ok() || n.value() > rest.size()) {
            break;
        }
        std::uint32_t anchor_crc = 0;
        if (rest[kTierOffset] == std::byte{0}) {
            page.clear();
        } else if (!page.empty()) {
            std::memcpy(&anchor_crc, page.front().data() + kHeaderCrcOffset, sizeof anchor_crc);
        }
        page.push_back(reseal(rest.first(n.value()), anchor_crc));
        rest = rest.subspan(n.value());
        decode_page({page.begin(), page.end()});
    }
    return 0;
}
