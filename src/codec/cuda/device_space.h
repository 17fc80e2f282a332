// Device memory for callers that have no CUDA runtime of their own: checks and benchmarks.
#pragma once

#include <memory>
#include <string>

#include "base/bytes.h"
#include "lynx/status.h"

namespace lynx::codec::cuda {

/// Owns what it allocates, until it ends. Calls block. Not thread-safe.
class DeviceSpace {
public:
    virtual ~DeviceSpace() = default;
    [[nodiscard]] virtual std::string device_name() const = 0;
    /// At a multiple of 256; uninitialised. limit_exceeded: out of memory.
    [[nodiscard]] virtual Result<std::byte*> allocate(std::size_t bytes) = 0;
    [[nodiscard]] virtual Status upload(std::byte* to, base::ByteView from) = 0;
    [[nodiscard]] virtual Status download(std::span<std::byte> to, const std::byte* from) = 0;
    /// Frees everything allocated so far.
    virtual void clear() noexcept = 0;
    /// Seconds that a copy within the device takes, the best of `repeats`.
    [[nodiscard]] virtual Result<double> copy_s(std::byte* to, const std::byte* from, std::size_t bytes,
                                                int repeats) = 0;
};

/// io: no usable device.
[[nodiscard]] Result<std::unique_ptr<DeviceSpace>> make_cuda_space();
[[nodiscard]] std::unique_ptr<DeviceSpace> make_emulated_space();

}  // namespace lynx::codec::cuda
