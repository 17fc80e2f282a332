// Making and loading calibration profiles, which the codec lynxt wants: what a model's KV looks like, learned from some text.
// Blocking calls. Standard types only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lynx/node.h"
#include "lynx/status.h"

namespace lynx {

struct CalibrateOptions {
    ModelConfig model;
    std::vector<std::string> text_paths;  ///< plain text; each gives the same share of the tokens
    std::uint32_t tokens = 16384;         ///< to learn from, all texts together
    std::uint32_t window_tokens = 2048;   ///< that one pass sees; at most the model's context
    std::uint32_t basis_bits = 6;         ///< of a transform's entry, 3..8: size against rate
    std::string out_path;
};

struct CalibrateReport {
    std::string profile;  ///< its hash, 16 hexadecimal digits
    std::uint32_t tokens = 0;
    std::uint64_t file_bytes = 0;
};

/// Runs the texts through the model and writes a profile of its KV. invalid_argument: a text too short to learn from (the message
/// says how long it must be), a cache wider than profiles hold; io.
[[nodiscard]] Result<CalibrateReport> calibrate_profile(const CalibrateOptions& options);

}  // namespace lynx
