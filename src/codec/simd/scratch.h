// Scratch memory of the calling thread: it grows to the largest page seen and is then reused, so that encoding and decoding
// allocate nothing. Its size is bounded by the payload limit: a kernel's tables are a few times a block of channels.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lynx::codec::simd {

inline constexpr std::size_t kScratchAlignment = 64;

/// At least `bytes` bytes, aligned to kScratchAlignment, uninitialised; valid until this thread's next call.
[[nodiscard]] std::byte* thread_scratch(std::size_t bytes);

/// Cuts scratch memory into arrays, each aligned. Measuring and cutting are the same code: with no memory yet it only counts.
class ScratchLayout {
public:
    explicit ScratchLayout(std::byte* memory) noexcept : memory_(memory) {}
    template <class T>
    [[nodiscard]] T* array(std::size_t count) noexcept {
        std::byte* p = memory_ == nullptr ? nullptr : memory_ + bytes_;
        bytes_ += (count * sizeof(T) + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
        return reinterpret_cast<T*>(p);
    }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

private:
    std::byte* memory_;
    std::size_t bytes_ = 0;
};

}  // namespace lynx::codec::simd
