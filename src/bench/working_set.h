// The memory that the codec benchmark works on: a prompt's KV, copied until it is larger than any cache, cut into pages, with
// room for their payloads and for what is decoded from them. Every copy is one sequence.
#pragma once

#include <memory>
#include <new>

#include "bench/reference.h"
#include "codec/parallel.h"

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

/// Memory that lies as an engine's KV does: a row that is a multiple of a cache line begins at one.
struct AlignedDelete {
    void operator()(std::byte* bytes) const noexcept { ::operator delete(bytes, kAlignment); }
    static constexpr std::align_val_t kAlignment{64};
};
using AlignedBytes = std::unique_ptr<std::byte, AlignedDelete>;

class WorkingSet {
public:
    /// Copies of `kv` until they have `bytes_min`. Peak memory: three times what bytes() says, when the payloads are as large.
    WorkingSet(const PromptKv& kv, const kv::Geometry& geometry, std::uint32_t page_tokens, std::uint64_t bytes_min);

    [[nodiscard]] std::uint64_t bytes() const noexcept { return copies_ * copy_bytes_; }
    [[nodiscard]] std::uint64_t elements() const noexcept { return copies_ * copy_elements_; }

    /// Gives the payloads their memory, so that no pass waits for pages of it.
    void prepare(const codec::Codec& codec);

    /// Each goes over the whole set with that many threads and returns the seconds it took. Errors as encode_pages and decode_pages.
    /// encode: after prepare() for that codec. decode: tiers 0..tier of what was encoded last.
    [[nodiscard]] Result<double> encode(const codec::Codec& codec, std::uint32_t threads);
    [[nodiscard]] Result<double> decode(const codec::Codec& codec, std::uint8_t tier, std::uint32_t threads);
    [[nodiscard]] double copy(std::uint32_t threads);

    /// All-in bits per element through tier `tier` of what was encoded last.
    [[nodiscard]] double bits(std::uint8_t tier) const;
    /// Of what was decoded last, over one copy; the others hold the same.
    [[nodiscard]] DecodedError error() const;

private:
    [[nodiscard]] kv::View destination(std::size_t page) const noexcept;

    std::uint64_t copies_ = 1;
    std::uint64_t copy_bytes_ = 0;
    std::uint64_t copy_elements_ = 0;
    AlignedBytes source_;
    AlignedBytes destination_;
    std::vector<codec::PageToEncode> pages_;  ///< copy by copy, back to back in source_
    std::vector<base::Bytes> payloads_;       ///< [page][tier]
    std::size_t tiers_ = 0;
};

}  // namespace lynx::bench
