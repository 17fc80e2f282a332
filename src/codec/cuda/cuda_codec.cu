// DeviceCodec on a GPU: the CUDA runtime behind device_codec.h, and the one kernel that runs every kind of block.
#include <cuda_runtime.h>

#include "codec/cuda/device_codec.h"

namespace lynx::codec::cuda {
namespace {

/// Registers are limited so that Body::kBlocksAtOnce blocks fit a multiprocessor.
template <class Body>
__global__ void __launch_bounds__(kBlockThreads, Body::kBlocksAtOnce) run_block(const Body body) {
    DeviceBlock block;
    body(block, blockIdx.x);
}

Status check(cudaError_t error, const char* what) {
    if (error == cudaSuccess) {
        return {};
    }
    return {ErrorCode::io, std::string("cuda: ") + what + ": " + cudaGetErrorString(error)};
}

class CudaDevice {
public:
    [[nodiscard]] static Result<CudaDevice> open();

    CudaDevice(CudaDevice&& other) noexcept = default;
    CudaDevice& operator=(CudaDevice&&) = delete;
    CudaDevice(const CudaDevice&) = delete;
    CudaDevice& operator=(const CudaDevice&) = delete;
    ~CudaDevice() {
        for (std::byte* p : memory_) {
            cudaFree(p);
        }
        for (cudaEvent_t e : marks_) {
            cudaEventDestroy(e);
        }
    }

    [[nodiscard]] std::size_t shared_bytes_max() const noexcept { return shared_bytes_max_; }

    Status reserve(Memory& memory, std::size_t bytes) {
        if (bytes <= memory.bytes) {
            return {};
        }
        std::byte* p = nullptr;
        LYNX_TRY(check(cudaMalloc(&p, bytes), "cudaMalloc"));
        if (memory.data != nullptr) {
            std::erase(memory_, memory.data);
            LYNX_TRY(check(cudaFree(memory.data), "cudaFree"));
        }
        memory_.push_back(p);
        memory = {p, bytes};
        return {};
    }
    Status upload(std::byte* to, const void* from, std::size_t bytes) {
        return check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_.get()), "upload");
    }
    Status download(void* to, const std::byte* from, std::size_t bytes) {
        LYNX_TRY(check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_.get()), "download"));
        return check(cudaStreamSynchronize(stream_.get()), "kernels");
    }
    Status fill(std::byte* to, int byte, std::size_t bytes) {
        return check(cudaMemsetAsync(to, byte, bytes, stream_.get()), "fill");
    }

    template <class Body>
    Status launch(const Body& body, std::size_t blocks, std::size_t shared_bytes) {
        constexpr std::size_t kBlocksMax = 0x7FFFFFFFU;
        if (blocks > kBlocksMax) {
            return {ErrorCode::limit_exceeded, "cuda: a launch of " + std::to_string(blocks) + " blocks"};
        }
        LYNX_TRY(check(cudaFuncSetAttribute(run_block<Body>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            static_cast<int>(shared_bytes)),
                       "shared memory"));
        run_block<<<static_cast<unsigned>(blocks), kBlockThreads, shared_bytes, stream_.get()>>>(body);
        return check(cudaGetLastError(), "launch");
    }
    Status mark(std::size_t stage) { return check(cudaEventRecord(marks_[stage], stream_.get()), "event"); }
    [[nodiscard]] double seconds(std::size_t stage) const {
        float ms = 0;
        return cudaEventElapsedTime(&ms, marks_[stage], marks_[stage + 1]) == cudaSuccess
                   ? static_cast<double>(ms) * 1e-3
                   : 0.0;
    }

private:
    struct DestroyStream {
        void operator()(CUstream_st* s) const noexcept { cudaStreamDestroy(s); }
    };

    CudaDevice() = default;

    std::unique_ptr<CUstream_st, DestroyStream> stream_;
    std::vector<cudaEvent_t> marks_;
    std::vector<std::byte*> memory_;
    std::size_t shared_bytes_max_ = 0;
};

Result<CudaDevice> CudaDevice::open() {
    CudaDevice d;
    int ordinal = 0;
    int bytes = 0;
    LYNX_TRY(check(cudaGetDevice(&ordinal), "no device"));
    LYNX_TRY(check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, ordinal), "no device"));
    d.shared_bytes_max_ = static_cast<std::size_t>(bytes);
    cudaStream_t stream = nullptr;
    LYNX_TRY(check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream"));
    d.stream_.reset(stream);
    for (int i = 0; i < 3; ++i) {
        cudaEvent_t event = nullptr;
        LYNX_TRY(check(cudaEventCreate(&event), "event"));
        d.marks_.push_back(event);
    }
    return Result<CudaDevice>(std::move(d));
}

}  // namespace

Result<std::unique_ptr<DeviceCodec>> make_cuda_codec(std::string_view name, const CodecParams& params) {
    LYNX_ASSIGN(CudaDevice device, CudaDevice::open());
    return make_device_codec(name, params, std::move(device));
}

}  // namespace lynx::codec::cuda
