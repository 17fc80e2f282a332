// Codecs on a GPU: many pages a call, pages and payloads in device memory. Payloads are those of codec.h, bit for bit, and so
// are decoded values and the reasons for refusing a page or a payload.
//
// Goals: one pass over a page's memory; the host touches headers only. Non-goals: codecs other than nested44, lynx44 and their
// mono forms; moving payloads between host and device; several calls at once on one object.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>

#include "codec/codec.h"

namespace lynx::codec::cuda {

/// Memory for one payload: `bytes` there are, and after encode, that the payload has. `data` is a multiple of 16.
struct DevicePayload {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
};

struct EncodePage {
    kv::ConstView page;
    PageContext context;
    std::array<DevicePayload, kTiersMax> payloads;  ///< info().tiers of them
};

struct DecodePage {
    std::array<base::ByteView, kTiersMax> payloads;  ///< each at a multiple of 16; the first `tiers` count
    std::size_t tiers = 0;
    kv::View dst;
};

/// Seconds of the last call on the device, by stage.
struct StageTimes {
    double code_s = 0;      ///< the pages' elements
    double checksum_s = 0;  ///< payload checksums and headers
};

/// Blocking. Not thread-safe: an object owns a stream and working memory, which grows to the largest call and stays.
class DeviceCodec {
public:
    virtual ~DeviceCodec() = default;
    [[nodiscard]] virtual const Codec& host() const noexcept = 0;

    /// Encodes pages of one dtype and number of channels. On an error no payload is to be used.
    /// invalid_argument: as Codec::encode, pages that differ in dtype or channels, payload memory too small or misaligned;
    /// io: the device failed. The message names the page.
    [[nodiscard]] virtual Status encode(std::span<EncodePage> pages) = 0;

    /// Decodes pages of one dtype, number of channels and number of tiers. On an error no dst is to be used.
    /// Errors as Codec::decode; invalid_argument: pages that differ, misaligned payloads; io: the device failed.
    [[nodiscard]] virtual Status decode(std::span<const DecodePage> pages) = 0;

    [[nodiscard]] virtual StageTimes times() const noexcept = 0;
};

/// On the current CUDA device. invalid_argument: as make_codec, or a codec without GPU code; io: no usable device.
[[nodiscard]] Result<std::unique_ptr<DeviceCodec>> make_cuda_codec(std::string_view name, const CodecParams& params);

/// The same algorithms as loops on this processor, "device memory" being host memory: how they are tested without a GPU.
/// `shared_bytes_max` is the shared memory a block may have; tiles narrow to fit.
[[nodiscard]] Result<std::unique_ptr<DeviceCodec>> make_emulated_codec(std::string_view name, const CodecParams& params,
                                                                       std::size_t shared_bytes_max);

}  // namespace lynx::codec::cuda
