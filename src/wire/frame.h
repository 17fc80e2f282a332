// Frames: the bytes of docs/format/WIRE.md and the plain values of message.h, both ways.
//
// Decoding takes any bytes: it never reads past its input, allocates no more than the input is long, and checks every
// length against a named maximum before use. It knows nothing of order, credit or requests: that is the session's.
// Free functions, thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>

#include "base/bytes.h"
#include "kv/geometry.h"
#include "lynx/status.h"
#include "wire/lane.h"
#include "wire/message.h"

namespace lynx::wire {

inline constexpr std::size_t kHeaderBytes = 64;
inline constexpr std::uint32_t kMagic = 0x584E594CU;  ///< "LYNX" as little-endian bytes

/// WIRE "Frame types". The numbers never change.
enum class FrameType : std::uint8_t {
    hello = 1,
    goodbye = 2,
    heartbeat = 3,
    credit = 4,
    request = 5,
    progress = 6,
    first_token = 7,
    page = 8,
    abort = 9,
    abort_done = 10,
    done = 11,
};

[[nodiscard]] std::string_view to_string(FrameType type) noexcept;
[[nodiscard]] std::string_view to_string(Lane lane) noexcept;

/// A frame's header once its checksum and version have been verified.
struct FrameHeader {
    FrameType type = FrameType::heartbeat;
    Lane lane = Lane::high;
    std::uint32_t body_bytes = 0;
    std::uint32_t body_crc = 0;  ///< CRC-32 of a control body; 0 for pages, whose payload carries the codec's checksum
    kv::PageKey key;  ///< control frames use request and generation only; hello's request is the connection id
    bool operator==(const FrameHeader&) const = default;
};

/// Every message with a control body. Pages are not among them: their payload is opaque.
using Message = std::variant<Hello, Goodbye, Heartbeat, Credit, Request, Progress, FirstToken, Abort, AbortDone, Done>;

[[nodiscard]] std::array<std::byte, kHeaderBytes> encode_header(const FrameHeader& header) noexcept;

/// truncated: fewer than kHeaderBytes; corrupt: magic, checksum, type, lane, reserved bits or a field that the type
/// does not use; unsupported_version; limit_exceeded: a body longer than body_bytes_max(type).
[[nodiscard]] Result<FrameHeader> decode_header(base::ByteView bytes);

/// Largest body that a frame of this type may announce, in bytes.
[[nodiscard]] std::size_t body_bytes_max(FrameType type) noexcept;

/// A complete control frame: header and body. Texts longer than kTextBytesMax are cut.
[[nodiscard]] base::Bytes encode_frame(const Message& message, Lane lane);

/// The header of a page frame whose payload of `payload_bytes` follows. The lane follows from the tier.
[[nodiscard]] std::array<std::byte, kHeaderBytes> encode_page_header(const kv::PageKey& key,
                                                                     std::uint32_t payload_bytes) noexcept;

/// Precondition: header.type is not page. corrupt: checksum, field or trailing bytes; truncated: the body ends early;
/// invalid_argument / limit_exceeded: as validate().
[[nodiscard]] Result<Message> decode_body(const FrameHeader& header, base::ByteView body);

/// Tier 0 travels high, the rest low.
[[nodiscard]] constexpr Lane lane_of(const kv::PageKey& key) noexcept { return key.tier == 0 ? Lane::high : Lane::low; }

/// Bytes that a page takes from its lane's credit: the whole frame, so that small pages are not free.
[[nodiscard]] constexpr std::size_t charge_of(std::size_t payload_bytes) noexcept {
    return kHeaderBytes + payload_bytes;
}

}  // namespace lynx::wire
