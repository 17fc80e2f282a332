// Writing and reading a payload's header and checksum (FORMAT, "Payload header"). The body is the codec's business.
#pragma once

#include <array>
#include <functional>

#include "codec/format.h"

namespace lynx::codec {

struct ParsedPayload {
    PayloadHeader header;
    std::uint32_t crc = 0;  ///< the checksum field, already verified
    base::ByteView body;    ///< header.body_bytes bytes inside the input
};

/// Sizes `out` to header + body and returns the body, uninitialised. `out`'s capacity is reused.
[[nodiscard]] std::span<std::byte> start_payload(std::size_t body_bytes, base::Bytes& out);

/// Writes `header` (its body_bytes must fit `out`) and the checksum over it and the body; returns the checksum.
std::uint32_t seal_payload(const PayloadHeader& header, base::Bytes& out);

/// A header as it stands at the front of a payload, with a checksum of 0.
[[nodiscard]] std::array<std::byte, kHeaderBytes> serialise_header(const PayloadHeader& header) noexcept;

struct ParsedHeader {
    PayloadHeader header;
    std::uint32_t crc = 0;  ///< the checksum field, already verified
};

/// Extends a checksum by a payload's body.
using BodyChecksum = std::function<std::uint32_t(std::uint32_t crc)>;

/// parse_payload for a body that lies elsewhere: `first` holds the payload's first bytes, kHeaderBytes if there are as many,
/// `payload_size` says how many it has. The checksum is asked for once the length is right.
[[nodiscard]] Result<ParsedHeader> parse_header(base::ByteView first, std::size_t payload_size,
                                                const BodyChecksum& body_checksum);

/// Reads a payload that must fill `bytes` exactly and verifies its checksum and every header field.
/// truncated: any proper prefix; corrupt: magic, checksum, reserved bits, field values, trailing bytes;
/// unsupported_version: version or codec id; limit_exceeded: body length.
[[nodiscard]] Result<ParsedPayload> parse_payload(base::ByteView bytes);

/// Bytes of the payload that starts at the front of `bytes`, as its (unverified) header says.
/// truncated, corrupt (magic), unsupported_version, limit_exceeded.
[[nodiscard]] Result<std::size_t> payload_bytes(base::ByteView bytes);

/// invalid_argument when a parameter is out of range.
[[nodiscard]] Status validate_params(const CodecParams& params);

}  // namespace lynx::codec
