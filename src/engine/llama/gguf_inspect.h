// What a GGUF file says about itself, read before any weight is loaded: enough to refuse a model by name.
#pragma once

#include <cstdint>
#include <string>

#include "engine/engine.h"
#include "lynx/status.h"

namespace lynx::engine {

struct GgufFacts {
    std::string architecture;
    std::uint32_t context_tokens_trained = 0;  ///< 0: not stated
    /// Every weight is of a type whose repacked kernels round a row the same way at every batch size (measured on
    /// AVX2 and AVX-512; the K quantisations' do not).
    bool repack_is_exact = true;
};

/// io: unreadable; corrupt: not a GGUF, or its metadata is cut short; invalid_argument: an architecture without a
/// plain KV cache (recurrent, hybrid, MLA, encoder), named; or one file of a split model.
[[nodiscard]] Result<GgufFacts> inspect_gguf(const std::string& path);

/// 128-bit hash (XXH3) of the whole file and of `kv_layout`, a name for how KV is stored. io when unreadable.
[[nodiscard]] Result<Fingerprint> fingerprint_file(const std::string& path, std::string_view kv_layout);

}  // namespace lynx::engine
