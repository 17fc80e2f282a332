// The numbers of the payload format: magic, version, identifiers, header layout. docs/format/FORMAT.md is the text of it.
// Non-goals: bodies (each codec's own file) and .lynx files (container.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/codec.h"

namespace lynx::codec {

inline constexpr std::uint32_t kPayloadMagic = 0x50584E4CU;  // "LNXP" in file order
inline constexpr std::uint16_t kPayloadVersion = 1;
inline constexpr std::size_t kHeaderBytes = 64;
inline constexpr std::size_t kHeaderCrcOffset = 60;
inline constexpr std::uint8_t kFlagMono = 1;  // one payload carries the bodies of all tiers

inline constexpr float kAlphaMin = 0x1p-10F;
inline constexpr float kAlphaMax = 0x1p20F;
inline constexpr float kStepMin = 0x1p-12F;
inline constexpr float kStepMax = 16;

/// Numbers of the registry; they never change and are never reused.
enum class CodecId : std::uint8_t {
    f16 = 1,
    int8 = 2,
    int4 = 3,
    int8_split = 4,
    alg1 = 5,
    lynx44 = 6,
    nested44 = 7,
    lynx35 = 8,
    lynx53 = 9,
    lynx62 = 10,
    nested35 = 11,
    nested26 = 12,
    nested224 = 13,
    alg1_a1 = 14,
    lynx_int4 = 15,
    alg1_a1_int4 = 16,
    alg1_nopage = 17,
    alg1_nochunk = 18,
    alg1_linear = 19,
    alg1_nobias = 20,
    alg1_nosign = 21,
    alg1_clip16 = 22,
    alg1_log = 23,
    bf16_split = 24,
    int8_page = 25,
    int4_page = 26,
    int8_token = 27,
    int4_token = 28,
    int8_g128 = 29,
    int4_g128 = 30,
    fp8_page = 31,
    fp8_token = 32,
    q8_0 = 33,
    q4_0 = 34,
    kivi2 = 35,
    kivi4 = 36,
    cachegen = 37,
    turboquant3 = 38,
    turboquant4 = 39,
    kvquant3 = 40,
    kvquant4 = 41,
    lynxt = 42,
    nested44_exact = 43,
    lynxt_exact = 44,
};
inline constexpr CodecId kLastCodecId = CodecId::lynxt_exact;

/// The header of a payload in memory (FORMAT, "Payload header"); all fields but magic, version and checksum.
struct PayloadHeader {
    CodecId codec = CodecId::f16;
    std::uint8_t tier = 0;
    std::uint8_t tiers = 1;  ///< payloads per page
    bool mono = false;
    kv::DType dtype = kv::DType::f16;
    std::uint32_t tokens = 0;
    std::uint32_t channels = 0;
    std::uint16_t exact_head = 0;  ///< first tokens of the page stored raw
    std::uint16_t exact_tail = 0;  ///< last tokens of the page stored raw
    CodecParams params;
    std::uint32_t body_bytes = 0;
    std::uint32_t anchor_crc = 0;  ///< tier > 0: checksum field of this page's tier 0; else 0
    bool operator==(const PayloadHeader&) const = default;
};

}  // namespace lynx::codec
