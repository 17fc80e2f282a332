// The .lynx file: one sequence's pages of one matrix, all tiers, in memory (FORMAT, "Files"). Payloads lie tier-major: every
// page's anchor before any residual. Non-goals: reading and writing the file system, .npy (io/).
#pragma once

#include <string>
#include <vector>

#include "codec/format.h"

namespace lynx::codec {

inline constexpr std::uint32_t kFileMagic = 0x46584E4CU;  // "LNXF" in file order
inline constexpr std::uint16_t kFileVersion = 1;
inline constexpr std::size_t kFileHeaderBytes = 64;

struct FileHeader {
    std::string codec;  ///< registry name
    std::uint8_t tiers = 1;
    kv::DType dtype = kv::DType::f16;
    std::uint32_t tokens = 0;    ///< 1..kv::kContextTokensMax
    std::uint32_t channels = 0;  ///< 1..kv::kChannelsMax
    CodecParams params;

    [[nodiscard]] kv::Paging paging() const noexcept { return {tokens, params.page_tokens}; }
};

/// A parsed file; the views point into the parsed bytes.
struct LynxFile {
    FileHeader header;
    std::vector<base::ByteView> payloads;  ///< [tier][page]

    /// Tiers 0..count-1 of one page, for Codec::decode.
    [[nodiscard]] std::vector<base::ByteView> page(std::uint32_t page, std::size_t tier_count) const;
};

/// The file's bytes. `payloads` is [tier][page], as many as the header says; invalid_argument when the codec is unknown or the
/// counts do not agree.
[[nodiscard]] Result<base::Bytes> write_container(const FileHeader& header, std::span<const base::Bytes> payloads);

/// Checks the file header and cuts the payloads apart; each payload's own checksum is left to decode.
/// truncated: any proper prefix; corrupt; unsupported_version; limit_exceeded.
[[nodiscard]] Result<LynxFile> parse_container(base::ByteView bytes);

/// Whether a page's payloads are what the file says they are: shape, dtype, tiers. Checks headers only, so that memory for the
/// page can be taken before it is decoded. corrupt, truncated.
[[nodiscard]] Status check_page_shape(std::span<const base::ByteView> payloads, std::uint32_t tokens,
                                      const FileHeader& header);

}  // namespace lynx::codec
