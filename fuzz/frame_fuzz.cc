// Frame headers and control bodies from any bytes: no crash, no over-read, and what decodes re-encodes to the same
// bytes. Input: a whole frame. Checksums are repaired first, so that the fuzzer gets past them; byte 0's top bit leaves
// them as they are.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/bytes.h"
#include "base/check.h"
#include "wire/frame.h"

namespace {

using lynx::base::Bytes;
using lynx::base::ByteView;
namespace wire = lynx::wire;

void repair(Bytes& frame) {
    const ByteView body = ByteView(frame).subspan(wire::kHeaderBytes);
    const auto put = [&frame](std::size_t at, std::uint32_t value) {
        std::memcpy(frame.data() + at, &value, sizeof value);
    };
    if (static_cast<std::uint8_t>(frame[6]) != static_cast<std::uint8_t>(wire::FrameType::page)) {
        put(12, lynx::base::crc32(body));
        put(16, static_cast<std::uint32_t>(body.size()));
    }
    put(8, 0);
    put(8, lynx::base::crc32(ByteView(frame).first(wire::kHeaderBytes)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) {
        return 0;
    }
    const auto* bytes = reinterpret_cast<const std::byte*>(data);
    Bytes frame(bytes + 1, bytes + size);
    if ((data[0] & 0x80U) == 0 && frame.size() >= wire::kHeaderBytes) {
        repair(frame);
    }
    const auto header = wire::decode_header(frame);
    if (!header.ok()) {
        return 0;
    }
    if (header.value().type == wire::FrameType::page) {
        const auto again = wire::encode_header(header.value());
        LYNX_CHECK(std::memcmp(again.data(), frame.data(), again.size()) == 0);
        return 0;
    }
    const auto message = wire::decode_body(header.value(), ByteView(frame).subspan(wire::kHeaderBytes));
    if (message.ok()) {
        const Bytes again = wire::encode_frame(message.value(), header.value().lane);
        const auto back =
            wire::decode_body(wire::decode_header(again).value(), ByteView(again).subspan(wire::kHeaderBytes));
        LYNX_CHECK(back.ok() && back.value() == message.value());
    }
    return 0;
}
