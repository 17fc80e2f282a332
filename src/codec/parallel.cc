#include "codec/parallel.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

namespace lynx::codec {
namespace {

constexpr unsigned kThreadsMax = 1024;

/// Calls work(i) for every i below `count` that does not lie behind a failed one.
template <class Work>
Status for_all_pages(std::size_t count, unsigned threads, const Work& work) {
    if (threads == 0 || threads > kThreadsMax) {
        return {ErrorCode::invalid_argument,
                "threads: expected 1.." + std::to_string(kThreadsMax) + ", actual " + std::to_string(threads)};
    }
    std::atomic<std::size_t> next{0};
    std::atomic<std::size_t> failed{count};  // the first page known to have failed
    std::mutex mutex;
    Status status;
    const auto run = [&] {
        for (std::size_t i = next++; i < failed; i = next++) {
            Status s = work(i);
            if (s.ok()) {
                continue;
            }
            const std::lock_guard lock(mutex);
            if (i < failed) {
                failed = i;
                status = std::move(s).with_context("page " + std::to_string(i));
            }
        }
    };
    {
        std::vector<std::jthread> others;
        for (std::size_t t = 1; t < std::min<std::size_t>(threads, count); ++t) {
            others.emplace_back(run);
        }
        run();
    }
    return status;
}

}  // namespace

Status encode_pages(const Codec& codec, std::span<const PageToEncode> pages, unsigned threads,
                    std::span<base::Bytes> out) {
    const std::size_t tiers = codec.info().tiers;
    if (out.size() != pages.size() * tiers) {
        return {ErrorCode::invalid_argument, "encode_pages: outputs: expected " + std::to_string(pages.size() * tiers) +
                                                 ", actual " + std::to_string(out.size())};
    }
    return for_all_pages(pages.size(), threads, [&](std::size_t i) {
        return codec.encode(pages[i].page, pages[i].context, out.subspan(i * tiers, tiers));
    });
}

Status decode_pages(const Codec& codec, std::span<const PageToDecode> pages, unsigned threads) {
    return for_all_pages(pages.size(), threads,
                         [&](std::size_t i) { return codec.decode(pages[i].payloads, pages[i].dst); });
}

}  // namespace lynx::codec
