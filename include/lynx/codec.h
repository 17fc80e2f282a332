// Codecs at the level of files: encode a matrix in NumPy's .npy form, decode it, look inside. All functions block, may be
// called from several threads, and return a one-line Status on bad input: invalid_argument, truncated, corrupt,
// unsupported_version, limit_exceeded or io. File format: docs/format/FORMAT.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lynx/status.h"

namespace lynx {

struct CodecDescription {
    std::string name;
    std::uint8_t tiers = 1;  ///< payloads per page: 2 or more for progressive codecs, else 1
    std::string summary;     ///< one line
    bool exact = false;      ///< the last tier restores every bit
};

/// Every codec of this build, the default one first.
[[nodiscard]] std::vector<CodecDescription> available_codecs();

/// Parameters of an encoding; a codec ignores what it has no use for.
struct CodecOptions {
    std::string name = "nested44";    ///< one of available_codecs()
    double alpha = 255;               ///< alpha-law curvature, 2^-10..2^20
    std::uint32_t chunk_tokens = 32;  ///< 1..1024
    std::uint32_t page_tokens = 256;  ///< 1..4096
    std::string meta = "f32";         ///< metadata of the alpha-law codecs: f32, f16 or q8
    std::uint32_t sinks = 4;          ///< first tokens kept exact in the anchor (nested codecs), 0..1024
    std::uint32_t recent = 16;        ///< newest tokens kept exact in the anchor (nested codecs), 0..1024
    std::string profile{};            ///< what load_profile() returned; empty: none (lynxt)
    double step = 0;                  ///< finest step over the coefficients' rms, 2^-12..16; 0: the default (lynxt)
    std::uint32_t anchor_cut = 0;     ///< low bits of the finest index that the anchor lacks, at most 6 (lynxt)
    std::uint32_t second_cut = 0;     ///< the same for the second tier, 1 or 2 less; both 0: the default (lynxt)
};

/// What a matrix is in its model; some codecs treat keys and values, or early and late layers, differently.
struct MatrixContext {
    std::string kind = "value";       ///< key or value
    std::uint32_t layer = 0;          ///< 0..1023
    std::uint32_t layers = 0;         ///< of the model, at most 1024; 0: unknown
    std::uint32_t head_channels = 0;  ///< channels per head, which divide the matrix's; 0: unknown
    std::uint32_t rope_dims = 0;      ///< rotated channels of each head of keys, even; 0: none
    double rope_base = 0;             ///< frequency base, above 1 and at most 2^40; 0 without rotation
    double rope_scale = 1;            ///< linear position scale, 2^-20..2^20
    bool rope_interleaved = false;    ///< pairs (2i, 2i+1) of a head, otherwise (i, i + rope_dims / 2)
};

/// Reads a calibration profile and keeps it for this process. Returns its name, 16 hexadecimal digits. io, truncated, corrupt,
/// unsupported_version, limit_exceeded.
[[nodiscard]] Result<std::string> load_profile(const std::string& path);

/// What a .lynx file holds.
struct CodecFileReport {
    CodecOptions options;
    std::string dtype;  ///< f16, bf16 or f32
    std::uint32_t tokens = 0;
    std::uint32_t channels = 0;
    std::uint32_t pages = 0;
    std::uint64_t file_bytes = 0;
    std::vector<std::uint64_t> tier_bytes;  ///< payload bytes of each tier, headers included
    std::vector<double> tier_bits;          ///< cumulative bits per element through each tier, headers included
    std::uint32_t full_tier = 0;            ///< the last lossy tier, or the only one
    bool exact = false;                     ///< the last tier restores every bit
};

/// The report as one JSON object.
[[nodiscard]] std::string to_json(const CodecFileReport& report);

/// Encodes a float16, bfloat16 ('<V2', as ml_dtypes writes it) or float32 [tokens, channels] .npy file as one sequence. invalid_argument: also a profile without that place.
[[nodiscard]] Result<CodecFileReport> encode_npy_file(const std::string& in_npy, const std::string& out_lynx,
                                                      const CodecOptions& options, const MatrixContext& context = {});

/// Decodes to an .npy file of the source's dtype. `tier`: "anchor"; "full", the last lossy tier; "exact", of a codec that has such a
/// tier; "last"; or a number from 0. A codec with one tier has the same in all.
[[nodiscard]] Status decode_lynx_file(const std::string& in_lynx, const std::string& out_npy, const std::string& tier);

/// Verifies a whole file (every checksum, every symbol) and reports on it. With a non-empty `symbols_npz`, writes the symbols
/// there: level, sign, q_anc, q_res [pages, channels, page_tokens], gamma_min, gamma_scale [pages, channels], mu, sigma
/// [pages, channels, chunks], each where the codec has it; 0 where a page has no such token.
[[nodiscard]] Result<CodecFileReport> inspect_lynx_file(const std::string& in_lynx, const std::string& symbols_npz);

}  // namespace lynx
