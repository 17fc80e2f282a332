// The memory that the codec benchmark works on: a prompt's KV, copied until it is larger than any cache, cut into pages, with
// room for their payloads and for what is decoded from them. Every copy is one sequence.
#pragma once

#include <functional>
#include <memory>

#include "bench/reference.h"
#include "codec/codec.h"

namespace lynx::bench {

/// Squared error and square, summed over one kind's elements.
struct ErrorSums {
    double error = 0;
    double square = 0;
    [[nodiscard]] double nmse() const noexcept { return square > 0 ? error / square : 0; }
};

/// Decoded KV against its original.
struct DecodedError {
    ErrorSums key;
    ErrorSums value;
    bool same_bits = true;
};

class WorkingSet {
public:
    /// Copies of `kv` until they have `bytes_min`. Peak memory: three times what bytes() says, when the payloads are as large.
    WorkingSet(const PromptKv& kv, const kv::Geometry& geometry, std::uint32_t page_tokens, std::uint64_t bytes_min);

    [[nodiscard]] std::uint64_t bytes() const noexcept { return copies_ * copy_bytes_; }
    [[nodiscard]] std::uint64_t elements() const noexcept { return copies_ * copy_elements_; }

    /// Gives the payloads their memory, so that no pass waits for pages of it.
    void prepare(const codec::Codec& codec);

    /// Each runs over all pages with that many threads and returns the seconds it took, or the first page's error.
    /// encode: after prepare() for that codec.
    [[nodiscard]] Result<double> encode(const codec::Codec& codec, std::uint32_t threads);
    /// Tiers 0..tier of what was encoded last.
    [[nodiscard]] Result<double> decode(const codec::Codec& codec, std::uint8_t tier, std::uint32_t threads);
    [[nodiscard]] Result<double> copy(std::uint32_t threads);

    /// All-in bits per element through tier `tier` of what was encoded last.
    [[nodiscard]] double bits(std::uint8_t tier) const;
    /// Of what was decoded last, over one copy; the others hold the same.
    [[nodiscard]] DecodedError error() const;

private:
    struct Page {
        std::size_t offset = 0;  ///< of its first byte in the set
        kv::DType dtype = kv::DType::f16;
        std::uint32_t tokens = 0;
        std::uint32_t channels = 0;
        codec::PageContext context;
        std::vector<base::Bytes> payloads;
    };
    Result<double> for_pages(std::uint32_t threads, const std::function<Status(Page&)>& work);
    [[nodiscard]] kv::ConstView source(const Page& page) const noexcept;
    [[nodiscard]] kv::View destination(const Page& page) const noexcept;

    std::uint64_t copies_ = 1;
    std::uint64_t copy_bytes_ = 0;
    std::uint64_t copy_elements_ = 0;
    std::vector<Page> pages_;  ///< copy by copy
    std::size_t copy_pages_ = 0;
    std::unique_ptr<std::byte[]> source_;
    std::unique_ptr<std::byte[]> destination_;
};

}  // namespace lynx::bench
