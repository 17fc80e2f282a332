// A state blob of zeros: how a sequence gets cells for KV that has not arrived yet.
//
// llama.cpp creates cells and positions only by computing them or by importing a sequence state, so a reservation
// imports a state of the right length whose K and V are zero. Its format is llama.cpp's own and unversioned, hence
// the check against a real one at load.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

#include "engine/llama/llama_cache.h"

namespace lynx::engine {

/// Bytes that read as zero until written and cost memory only where they were (calloc maps the shared zero page).
class ZeroBytes {
public:
    explicit ZeroBytes(std::size_t size)
        : bytes_(static_cast<std::uint8_t*>(std::calloc(size, 1))), size_(bytes_ == nullptr ? 0 : size) {}
    /// Empty when there was no memory.
    [[nodiscard]] std::span<std::uint8_t> bytes() noexcept { return {bytes_.get(), size_}; }

private:
    std::unique_ptr<std::uint8_t, CDeleter<std::free>> bytes_;
    std::size_t size_;
};

/// The state of a sequence of `tokens` > 0 zero cells at positions 0, 1, ..: what llama_state_seq_set_data takes for
/// any sequence of a context with this cache.
[[nodiscard]] ZeroBytes make_skeleton(const LlamaCache& cache, std::uint32_t tokens);

}  // namespace lynx::engine
