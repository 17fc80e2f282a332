#include "bench/working_set.h"

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
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

}  // namespace

WorkingSet::WorkingSet(const PromptKv& kv, const kv::Geometry& geometry, std::uint32_t page_tokens,
                       std::uint64_t bytes_min) {
    const kv::Paging paging{static_cast<std::uint32_t>(kv.prompt.size()), page_tokens};
    copy_bytes_ = geometry.token_bytes() * paging.tokens;
    copy_elements_ = geometry.token_elements() * paging.tokens;
    copies_ = (bytes_min + copy_bytes_ - 1) / copy_bytes_;
    copies_ = copies_ == 0 ? 1 : copies_;
    source_ = std::make_unique_for_overwrite<std::byte[]>(bytes());
    destination_ = std::make_unique_for_overwrite<std::byte[]>(bytes());
    std::size_t offset = 0;
    for (std::uint64_t copy = 0; copy < copies_; ++copy) {
        for (std::size_t p = 0; p < kv.planes.size(); ++p) {
            const kv::LayerGeometry& layer = geometry.layers[p / 2];
            const kv::Kind kind = p % 2 == 0 ? kv::Kind::key : kv::Kind::value;
            std::memcpy(source_.get() + offset, kv.planes[p].data(), kv.planes[p].size());
            for (std::uint32_t i = 0; i < paging.pages(); ++i) {
                Page page;
                page.offset = offset;
                page.dtype = layer.dtype;
                page.tokens = paging.tokens_in(i);
                page.channels = layer.channels(kind);
                page.context = codec::page_context(geometry, static_cast<std::uint32_t>(p / 2), kind, paging, i);
                offset += std::size_t{page.tokens} * page.channels * kv::dtype_bytes(page.dtype);
                pages_.push_back(std::move(page));
            }
        }
    }
    copy_pages_ = pages_.size() / copies_;
}

kv::ConstView WorkingSet::source(const Page& page) const noexcept {
    return kv::token_major<const std::byte>(source_.get() + page.offset, page.dtype, page.tokens, page.channels);
}

kv::View WorkingSet::destination(const Page& page) const noexcept {
    return kv::token_major(destination_.get() + page.offset, page.dtype, page.tokens, page.channels);
}

Result<double> WorkingSet::for_pages(std::uint32_t threads, const std::function<Status(Page&)>& work) {
    std::atomic<std::size_t> next{0};
    std::mutex mutex;
    Status failed;
    const auto loop = [&] {
        for (std::size_t i = next++; i < pages_.size(); i = next++) {
            if (Status s = work(pages_[i]); !s.ok()) {
                const std::lock_guard lock(mutex);
                failed = std::move(s);
                return;
            }
        }
    };
    const base::SteadyClock clock;
    const base::Nanos start = clock.now();
    {
        std::vector<std::jthread> others;
        for (std::uint32_t t = 1; t < threads; ++t) {
            others.emplace_back(loop);
        }
        loop();
    }
    const double seconds = base::to_seconds(clock.now() - start);
    LYNX_TRY(failed);
    return seconds;
}

void WorkingSet::prepare(const codec::Codec& codec) {
    for (Page& page : pages_) {
        page.payloads.resize(codec.info().tiers);
        for (std::uint8_t t = 0; t < codec.info().tiers; ++t) {
            page.payloads[t].clear();
            page.payloads[t].resize(codec.encoded_bytes_max(page.tokens, page.channels, page.dtype, t));
        }
    }
}

Result<double> WorkingSet::encode(const codec::Codec& codec, std::uint32_t threads) {
    return for_pages(threads, [&](Page& page) { return codec.encode(source(page), page.context, page.payloads); });
}

Result<double> WorkingSet::decode(const codec::Codec& codec, std::uint8_t tier, std::uint32_t threads) {
    return for_pages(threads, [&](Page& page) {
        std::array<base::ByteView, codec::kTiersMax> views;
        for (std::size_t t = 0; t <= tier; ++t) {
            views[t] = page.payloads[t];
        }
        return codec.decode(std::span(views).first(tier + 1U), destination(page));
    });
}

Result<double> WorkingSet::copy(std::uint32_t threads) {
    return for_pages(threads, [&](Page& page) {
        const std::size_t bytes = std::size_t{page.tokens} * page.channels * kv::dtype_bytes(page.dtype);
        std::memcpy(destination(page).data, source(page).data, bytes);
        return Status{};
    });
}

double WorkingSet::bits(std::uint8_t tier) const {
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < copy_pages_; ++i) {
        for (std::size_t t = 0; t <= tier; ++t) {
            bytes += pages_[i].payloads[t].size() + wire::kHeaderBytes;
        }
    }
    return 8 * static_cast<double>(bytes) / static_cast<double>(copy_elements_);
}

DecodedError WorkingSet::error() const {
    DecodedError all;
    for (std::size_t i = 0; i < copy_pages_; ++i) {
        const Page& page = pages_[i];
        ErrorSums& sums = page.context.kind == kv::Kind::key ? all.key : all.value;
        const std::size_t width = kv::dtype_bytes(page.dtype);
        const std::size_t elements = std::size_t{page.tokens} * page.channels;
        const std::byte* x = source(page).data;
        const std::byte* y = destination(page).data;
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
