// A thread block as the codec's GPU algorithms see it. They are written once, as phases of independent threads with a barrier
// behind each; nvcc makes kernels of them, and a host compiler makes loops that tests compare with the scalar reference.
//
// A phase is a callable f(thread). It reads what earlier phases left in shared or global memory, never what another thread
// writes in the same phase. Non-goals: warp shuffles and asynchronous copies, which a loop over threads cannot stand for.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host_device.h"

/// Before a loop whose loads should be under way together.
#ifdef __CUDACC__
#define LYNX_UNROLL_4 _Pragma("unroll 4")
#else
#define LYNX_UNROLL_4
#endif

namespace lynx::codec::cuda {

inline constexpr std::uint32_t kBlockThreads = 256;

/// Runs a block's phases as loops, in an order that differs from block to block, so that a missing barrier shows.
class HostBlock {
public:
    HostBlock(std::byte* shared, std::uint32_t index) noexcept
        : shared_(shared), step_(2 * (index * 37 % kBlockThreads) + 1), first_(index * 101) {}

    template <class F>
    void threads(F&& f) {
        for (std::uint32_t i = 0; i < kBlockThreads; ++i) {
            f((first_ + i * step_) % kBlockThreads);
        }
    }
    [[nodiscard]] std::byte* shared() const noexcept { return shared_; }
    static void atomic_min(std::uint32_t* p, std::uint32_t v) noexcept { *p = v < *p ? v : *p; }
    static void atomic_add(std::uint64_t* p, std::uint64_t v) noexcept { *p += v; }

private:
    std::byte* shared_;
    std::uint32_t step_;  ///< odd, so that every thread has its turn
    std::uint32_t first_;
};

#ifdef __CUDACC__
/// The block a kernel runs in.
class DeviceBlock {
public:
    template <class F>
    LYNX_HOST_DEVICE void threads([[maybe_unused]] F&& f) {
#ifdef __CUDA_ARCH__
        f(threadIdx.x);
        __syncthreads();
#endif
    }
    [[nodiscard]] LYNX_HOST_DEVICE std::byte* shared() const noexcept {
#ifdef __CUDA_ARCH__
        extern __shared__ uint4 dynamic_shared[];
        return reinterpret_cast<std::byte*>(dynamic_shared);
#else
        return nullptr;
#endif
    }
    LYNX_HOST_DEVICE static void atomic_min([[maybe_unused]] std::uint32_t* p,
                                            [[maybe_unused]] std::uint32_t v) noexcept {
#ifdef __CUDA_ARCH__
        atomicMin(p, v);
#endif
    }
    LYNX_HOST_DEVICE static void atomic_add([[maybe_unused]] std::uint64_t* p,
                                            [[maybe_unused]] std::uint64_t v) noexcept {
#ifdef __CUDA_ARCH__
        static_assert(sizeof(unsigned long long) == sizeof(std::uint64_t));
        atomicAdd(reinterpret_cast<unsigned long long*>(p), v);
#endif
    }
};
#endif

}  // namespace lynx::codec::cuda
