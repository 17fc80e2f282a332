// The GPU algorithms on this processor, one block after the other.
#include <array>
#include <chrono>
#include <list>

#include "codec/cuda/device_codec.h"

namespace lynx::codec::cuda {
namespace {

class EmulatedDevice {
public:
    explicit EmulatedDevice(std::size_t shared_bytes_max) noexcept : shared_bytes_max_(shared_bytes_max) {}

    [[nodiscard]] std::size_t shared_bytes_max() const noexcept { return shared_bytes_max_; }

    Status reserve(Memory& memory, std::size_t bytes) {
        if (bytes > memory.bytes) {
            memory_.push_back(std::vector<Words4>(bytes / sizeof(Words4) + 1));
            memory = {reinterpret_cast<std::byte*>(memory_.back().data()), bytes};
        }
        return {};
    }
    static Status upload(std::byte* to, const void* from, std::size_t bytes) {
        std::memcpy(to, from, bytes);
        return {};
    }
    static Status download(void* to, const std::byte* from, std::size_t bytes) {
        std::memcpy(to, from, bytes);
        return {};
    }
    static Status fill(std::byte* to, int byte, std::size_t bytes) {
        std::memset(to, byte, bytes);
        return {};
    }

    /// Every block finds the leavings of the one before in shared memory, as on a device.
    template <class Body>
    Status launch(const Body& body, std::size_t blocks, std::size_t shared_bytes) {
        shared_.resize(shared_bytes / sizeof(Words4) + 1);
        for (std::size_t i = 0; i < blocks; ++i) {
            const auto index = static_cast<std::uint32_t>(i);
            HostBlock block(reinterpret_cast<std::byte*>(shared_.data()), index);
            body(block, index);
        }
        return {};
    }
    Status mark(std::size_t stage) {
        marks_[stage] = std::chrono::steady_clock::now();
        return {};
    }
    [[nodiscard]] double seconds(std::size_t stage) const {
        return std::chrono::duration<double>(marks_[stage + 1] - marks_[stage]).count();
    }

private:
    std::size_t shared_bytes_max_;
    std::list<std::vector<Words4>> memory_;
    std::vector<Words4> shared_;
    std::array<std::chrono::steady_clock::time_point, 3> marks_;
};

}  // namespace

Result<std::unique_ptr<DeviceCodec>> make_emulated_codec(std::string_view name, const CodecParams& params,
                                                         std::size_t shared_bytes_max) {
    return make_device_codec(name, params, EmulatedDevice(shared_bytes_max));
}

}  // namespace lynx::codec::cuda
