#include "codec/simd/scratch.h"

#include <memory>
#include <new>

namespace lynx::codec::simd {
namespace {

struct Free {
    void operator()(std::byte* p) const noexcept { ::operator delete (p, std::align_val_t{kScratchAlignment}); }
};

struct Memory {
    std::unique_ptr<std::byte, Free> data;
    std::size_t bytes = 0;
};

}  // namespace

std::byte* thread_scratch(std::size_t bytes) {
    thread_local Memory memory;
    if (bytes > memory.bytes) {
        memory.bytes = 0;
        memory.data.reset();
        memory.data.reset(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kScratchAlignment})));
        memory.bytes = bytes;
    }
    return memory.data.get();
}

}  // namespace lynx::codec::simd
