#include "wire/frame.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "base/try.h"

namespace lynx::wire {
namespace {

// Offsets within the header: WIRE "Header".
constexpr std::size_t kMagicAt = 0;
constexpr std::size_t kVersionAt = 4;
constexpr std::size_t kTypeAt = 6;
constexpr std::size_t kFlagsAt = 7;
constexpr std::size_t kHeaderCrcAt = 8;
constexpr std::size_t kBodyCrcAt = 12;
constexpr std::size_t kBodyBytesAt = 16;
constexpr std::size_t kLaneAt = 20;
constexpr std::size_t kKindAt = 21;
constexpr std::size_t kTierAt = 22;
constexpr std::size_t kReservedByteAt = 23;
constexpr std::size_t kRequestAt = 24;
constexpr std::size_t kGenerationAt = 32;
constexpr std::size_t kLayerAt = 36;
constexpr std::size_t kReservedHalfAt = 38;
constexpr std::size_t kPageAt = 40;
constexpr std::size_t kFirstTokenAt = 44;
constexpr std::size_t kReservedTailAt = 48;

template <class T>
void store(std::array<std::byte, kHeaderBytes>& h, std::size_t at, T value) noexcept {
    std::memcpy(h.data() + at, &value, sizeof(T));
}

template <class T>
T load(base::ByteView h, std::size_t at) noexcept {
    T value{};
    std::memcpy(&value, h.data() + at, sizeof(T));
    return value;
}

std::string hex(std::uint32_t v) {
    char text[16];
    std::snprintf(text, sizeof text, "0x%08x", v);
    return text;
}

/// The checksum of a header: its own field counts as zero.
std::uint32_t header_crc(base::ByteView h) noexcept {
    const std::byte zero[4] = {};
    std::uint32_t crc = base::crc32(h.first(kHeaderCrcAt));
    crc = base::crc32(zero, crc);
    return base::crc32(h.subspan(kHeaderCrcAt + 4, kHeaderBytes - kHeaderCrcAt - 4), crc);
}

bool reserved_is_zero(base::ByteView h) noexcept {
    return load<std::uint8_t>(h, kFlagsAt) == 0 && load<std::uint8_t>(h, kReservedByteAt) == 0 &&
           load<std::uint16_t>(h, kReservedHalfAt) == 0 &&
           std::all_of(h.begin() + kReservedTailAt, h.end(), [](std::byte b) { return b == std::byte{0}; });
}

/// Fields that a type does not use must be zero, so that they can get a meaning later.
bool unused_is_zero(const FrameHeader& h) noexcept {
    if (h.type == FrameType::page) {
        return h.body_crc == 0;
    }
    const kv::PageKey& k = h.key;
    if (k.layer != 0 || k.kind != kv::Kind::key || k.tier != 0 || k.page != 0 || k.first_token != 0) {
        return false;
    }
    switch (h.type) {
        case FrameType::hello: return k.generation == 0;
        case FrameType::goodbye:
        case FrameType::heartbeat:
        case FrameType::credit: return k.request == 0 && k.generation == 0;
        default: return true;
    }
}

}  // namespace

std::string_view to_string(FrameType type) noexcept {
    switch (type) {
        case FrameType::hello: return "hello";
        case FrameType::goodbye: return "goodbye";
        case FrameType::heartbeat: return "heartbeat";
        case FrameType::credit: return "credit";
        case FrameType::request: return "request";
        case FrameType::progress: return "progress";
        case FrameType::first_token: return "first_token";
        case FrameType::page: return "page";
        case FrameType::abort: return "abort";
        case FrameType::abort_done: return "abort_done";
        case FrameType::done: return "done";
    }
    return "unknown";
}

std::string_view to_string(Lane lane) noexcept { return lane == Lane::high ? "high" : "low"; }

std::array<std::byte, kHeaderBytes> encode_header(const FrameHeader& header) noexcept {
    std::array<std::byte, kHeaderBytes> h{};
    store(h, kMagicAt, kMagic);
    store(h, kVersionAt, kProtocolVersion);
    store(h, kTypeAt, header.type);
    store(h, kBodyCrcAt, header.body_crc);
    store(h, kBodyBytesAt, header.body_bytes);
    store(h, kLaneAt, header.lane);
    store(h, kKindAt, header.key.kind);
    store(h, kTierAt, header.key.tier);
    store(h, kRequestAt, header.key.request);
    store(h, kGenerationAt, header.key.generation);
    store(h, kLayerAt, header.key.layer);
    store(h, kPageAt, header.key.page);
    store(h, kFirstTokenAt, header.key.first_token);
    store(h, kHeaderCrcAt, header_crc(h));
    return h;
}

Result<FrameHeader> decode_header(base::ByteView bytes) {
    if (bytes.size() < kHeaderBytes) {
        return Status{ErrorCode::truncated, "frame header: expected " + std::to_string(kHeaderBytes) +
                                                " bytes, actual " + std::to_string(bytes.size())};
    }
    const base::ByteView h = bytes.first(kHeaderBytes);
    if (const auto magic = load<std::uint32_t>(h, kMagicAt); magic != kMagic) {
        return Status{ErrorCode::corrupt, "frame magic: expected " + hex(kMagic) + ", actual " + hex(magic)};
    }
    const auto crc = load<std::uint32_t>(h, kHeaderCrcAt);
    if (const std::uint32_t expected = header_crc(h); crc != expected) {
        return Status{ErrorCode::corrupt, "frame header checksum: expected " + hex(expected) + ", actual " + hex(crc)};
    }
    // The checksum comes first: a flipped version bit is corruption, not another protocol.
    if (const auto version = load<std::uint16_t>(h, kVersionAt); version != kProtocolVersion) {
        return Status{ErrorCode::unsupported_version, "protocol version: expected " + std::to_string(kProtocolVersion) +
                                                          ", actual " + std::to_string(version)};
    }
    const auto type = load<std::uint8_t>(h, kTypeAt);
    if (type < static_cast<std::uint8_t>(FrameType::hello) || type > static_cast<std::uint8_t>(FrameType::done)) {
        return Status{ErrorCode::corrupt, "frame type: expected 1..11, actual " + std::to_string(type)};
    }
    const auto lane = load<std::uint8_t>(h, kLaneAt);
    const auto kind = load<std::uint8_t>(h, kKindAt);
    if (lane >= kLanes || kind > static_cast<std::uint8_t>(kv::Kind::latent)) {
        return Status{ErrorCode::corrupt, "frame lane " + std::to_string(lane) + ", kind " + std::to_string(kind) +
                                              ": expected 0..1 and 0..2"};
    }
    FrameHeader out;
    out.type = static_cast<FrameType>(type);
    out.lane = static_cast<Lane>(lane);
    out.body_bytes = load<std::uint32_t>(h, kBodyBytesAt);
    out.body_crc = load<std::uint32_t>(h, kBodyCrcAt);
    out.key.request = load<std::uint64_t>(h, kRequestAt);
    out.key.generation = load<std::uint32_t>(h, kGenerationAt);
    out.key.layer = load<std::uint16_t>(h, kLayerAt);
    out.key.kind = static_cast<kv::Kind>(kind);
    out.key.tier = load<std::uint8_t>(h, kTierAt);
    out.key.page = load<std::uint32_t>(h, kPageAt);
    out.key.first_token = load<std::uint32_t>(h, kFirstTokenAt);
    if (!reserved_is_zero(h) || !unused_is_zero(out)) {
        return Status{ErrorCode::corrupt, std::string(to_string(out.type)) + " frame: a reserved field is not zero"};
    }
    if (out.body_bytes > body_bytes_max(out.type)) {
        return Status{ErrorCode::limit_exceeded, std::string(to_string(out.type)) + " frame: body of " +
                                                     std::to_string(out.body_bytes) + " bytes, at most " +
                                                     std::to_string(body_bytes_max(out.type))};
    }
    return out;
}

std::array<std::byte, kHeaderBytes> encode_page_header(const kv::PageKey& key, std::uint32_t payload_bytes) noexcept {
    return encode_header(
        {.type = FrameType::page, .lane = lane_of(key), .body_bytes = payload_bytes, .body_crc = 0, .key = key});
}

}  // namespace lynx::wire
