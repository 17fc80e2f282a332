#include "bench/working_set.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/clock.h"
#include "base/half.h"
#include "base/try.h"
#include "wire/frame.h"

namespace lynx::bench {
namespace {

double read_element(const std::byte* at, kv::DType dtype) noexcept {
    if (dtype == kv::DType::f32) {
        float x = 0;
        std::memcpy(&x, at, sizeof x);
        return static_cast<double>(x);
    }
    std::uint16_t bits = 0;
    std::memcpy(&bits, at, sizeof bits);
    return static_cast<double>(dtype == kv::DType::f16 ? base::f16_to_f32(bits) : base::bf16_to_f32(bits));
}

AlignedBytes allocate_aligned(std::size_t bytes) {
    return AlignedBytes(static_cast<std::byte*>(::operator new(bytes, AlignedDelete::kAlignment)));
}

}  // namespace

WorkingSet::WorkingSet(const PromptKv& kv, const kv::Geometry& geometry, std::uint32_t page_tokens,
                       std::uint64_t bytes_min) {
    const kv::Paging paging{static_cast<std::uint32_t>(kv.prompt.size()), page_tokens};
    copy_bytes_ = geometry.token_bytes() * paging.tokens;
    copy_elements_ = geometry.token_elements() * paging.tokens;
    copies_ = (bytes_min + copy_bytes_ - 1) / copy_bytes_;
    copies_ = copies_ == 0 ? 1 : copies_;
    source_ = allocate_aligned(bytes());
    destination_ = allocate_aligned(bytes());
    std::memset(destination_.get(), 0, bytes());  // so that no pass meets fresh memory
    std::byte* next = source_.get();
    for (std::uint64_t copy = 0; copy < copies_; ++copy) {
        for (std::uint32_t p = 0; p < kv.planes.size(); ++p) {
            const kv::LayerGeometry& layer = geometry.layers[p / 2];
            const kv::Kind kind = p % 2 == 0 ? kv::Kind::key : kv::Kind::value;
            const kv::ConstView plane =
                kv::token_major<const std::byte>(next, layer.dtype, paging.tokens, layer.channels(kind));
            next = std::copy(kv.planes[p].begin(), kv.planes[p].end(), next);
            for (std::uint32_t i = 0; i < paging.pages(); ++i) {
                pages_.push_back({plane.slice_tokens(paging.first_token(i), paging.tokens_in(i)),
                                  codec::page_context(geometry, p / 2, kind, paging, i)});
            }
        }
    }
}

kv::View WorkingSet::destination(std::size_t page) const noexcept {
    const kv::ConstView& source = pages_[page].page;
    return kv::token_major(destination_.get() + (source.data - source_.get()), source.dtype, source.tokens,
                           source.channels);
}

void WorkingSet::prepare(const codec::Codec& codec) {
    tiers_ = codec.info().tiers;
    payloads_.clear();
    for (const codec::PageToEncode& p : pages_) {
        for (std::size_t t = 0; t < tiers_; ++t) {
            payloads_.emplace_back(
                codec.encoded_bytes_max(p.page.tokens, p.page.channels, p.page.dtype, static_cast<std::uint8_t>(t)));
        }
    }
}

Result<double> WorkingSet::encode(const codec::Codec& codec, std::uint32_t threads) {
    const base::SteadyClock clock;
    const base::Nanos start = clock.now();
    LYNX_TRY(codec::encode_pages(codec, pages_, threads, payloads_));
    return base::to_seconds(clock.now() - start);
}

Result<double> WorkingSet::decode(const codec::Codec& codec, std::uint8_t tier, std::uint32_t threads) {
    const std::vector<base::ByteView> views(payloads_.begin(), payloads_.end());
    std::vector<codec::PageToDecode> pages;
    for (std::size_t i = 0; i < pages_.size(); ++i) {
        pages.push_back({std::span(views).subspan(i * tiers_, tier + std::size_t{1}), destination(i)});
    }
    const base::SteadyClock clock;
    const base::Nanos start = clock.now();
    LYNX_TRY(codec::decode_pages(codec, pages, threads));
    return base::to_seconds(clock.now() - start);
}

double WorkingSet::copy(std::uint32_t threads) {
    const auto share = [&](std::uint64_t t) { return bytes() * t / threads; };
    const auto copy_share = [&](std::uint64_t t) {
        std::memcpy(destination_.get() + share(t), source_.get() + share(t), share(t + 1) - share(t));
    };
    const base::SteadyClock clock;
    const base::Nanos start = clock.now();
    {
        std::vector<std::jthread> others;
        for (std::uint32_t t = 1; t < threads; ++t) {
            others.emplace_back(copy_share, t);
        }
        copy_share(0);
    }
    return base::to_seconds(clock.now() - start);
}

double WorkingSet::bits(std::uint8_t tier) const {
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < payloads_.size() / copies_; ++i) {
        bytes += i % tiers_ <= tier ? payloads_[i].size() + wire::kHeaderBytes : 0;
    }
    return 8 * static_cast<double>(bytes) / static_cast<double>(copy_elements_);
}

DecodedError WorkingSet::error() const {
    DecodedError all;
    for (std::size_t i = 0; i < pages_.size() / copies_; ++i) {
        const kv::ConstView& page = pages_[i].page;
        ErrorSums& sums = pages_[i].context.kind == kv::Kind::key ? all.key : all.value;
        const std::size_t width = kv::dtype_bytes(page.dtype);
        const std::size_t elements = std::size_t{page.tokens} * page.channels;
        const std::byte* x = page.data;
        const std::byte* y = destination(i).data;
        all.same_bits = all.same_bits && std::memcmp(x, y, elements * width) == 0;
        for (std::size_t e = 0; e < elements; ++e) {
            const double original = read_element(x + e * width, page.dtype);
            const double error = read_element(y + e * width, page.dtype) - original;
            sums.error += error * error;
            sums.square += original * original;
        }
    }
    return all;
}

}  // namespace lynx::bench
