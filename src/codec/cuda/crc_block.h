// Checksums of payload bodies in thread blocks, and the headers that carry them.
//
// A body is cut into segments counted from its end (padded with zeros to whole rounds: dividing by x^(8 * padding) afterwards
// takes them off again; zeros in front are free). A block reads a segment in rounds of 16 bytes a thread, so that loads are
// coalesced. Each thread keeps four registers, one per word; between rounds it multiplies them by x^(8 * round) from a table of
// 8 x 16 words in shared memory, in which no two lanes ever meet in a bank with different words. At the end the registers of
// all threads are joined in a tree. About 7 instructions a byte: close to what memory delivers, and the bytes were written just
// before, so that part of them comes from the L2 cache.
#pragma once

#include "codec/cuda/block.h"
#include "codec/cuda/crc_math.h"
#include "codec/cuda/element.h"
#include "codec/format.h"

namespace lynx::codec::cuda {

inline constexpr std::uint32_t kCrcRoundBytes = kBlockThreads * 16;
inline constexpr std::uint32_t kCrcSegmentRounds = 16;
inline constexpr std::uint32_t kCrcSegmentBytes = kCrcRoundBytes * kCrcSegmentRounds;
inline constexpr std::uint32_t kCrcTreeLevels = 8;
static_assert(1U << kCrcTreeLevels == kBlockThreads);

/// Multiplications by the shifts a block needs, in device memory.
struct CrcTables {
    CrcTable word;                  ///< 4 bytes
    CrcTable round;                 ///< kCrcRoundBytes
    CrcTable tree[kCrcTreeLevels];  ///< 16 << level bytes
};

[[nodiscard]] constexpr CrcTables make_crc_tables() noexcept {
    CrcTables t{};
    t.word = CrcTable::of(crc_shift(4));
    t.round = CrcTable::of(crc_shift(kCrcRoundBytes));
    for (std::uint32_t level = 0; level < kCrcTreeLevels; ++level) {
        t.tree[level] = CrcTable::of(crc_shift(std::int64_t{16} << level));
    }
    return t;
}

/// One payload body. Precondition: `data` is a multiple of 16.
struct CrcJob {
    const std::byte* data = nullptr;
    std::uint32_t bytes = 0;
    std::uint32_t body_shift = 0;     ///< x^(8 * bytes)
    std::uint32_t padding_shift = 0;  ///< x^(-8 * padding)
};

[[nodiscard]] LYNX_HOST_DEVICE constexpr std::uint32_t crc_rounds(std::uint32_t bytes) noexcept {
    return (bytes + kCrcRoundBytes - 1) / kCrcRoundBytes;
}
[[nodiscard]] LYNX_HOST_DEVICE constexpr std::uint32_t crc_segments(std::uint32_t bytes) noexcept {
    return (crc_rounds(bytes) + kCrcSegmentRounds - 1) / kCrcSegmentRounds;
}
[[nodiscard]] constexpr CrcJob crc_job(const std::byte* data, std::uint32_t bytes) noexcept {
    const std::int64_t padding = std::int64_t{crc_rounds(bytes)} * kCrcRoundBytes - bytes;
    return {data, bytes, crc_shift(bytes), crc_shift(-padding)};
}

/// Remainder of a body out of those of its segments, [0] being the last one.
[[nodiscard]] LYNX_HOST_DEVICE constexpr std::uint32_t crc_of_segments(const CrcJob& job, const std::uint32_t* segments,
                                                                       std::uint32_t segment_shift) noexcept {
    std::uint32_t r = 0;
    for (std::uint32_t s = crc_segments(job.bytes); s > 0; --s) {
        r = crc_multiply(r, segment_shift) ^ segments[s - 1];
    }
    return crc_multiply(r, job.padding_shift);
}

struct CrcSegments {
    static constexpr unsigned kBlocksAtOnce = 5;
    const CrcJob* jobs = nullptr;  ///< [bodies]
    const CrcTables* tables = nullptr;
    std::uint32_t* remainders = nullptr;  ///< [bodies][segments_max]
    std::uint32_t segments_max = 0;

    [[nodiscard]] static constexpr std::size_t shared_bytes() noexcept {
        return sizeof(CrcTables) + kBlockThreads * sizeof(std::uint32_t);
    }

    template <class Block>
    LYNX_HOST_DEVICE void operator()(Block& block, std::uint32_t index) const noexcept {
        const CrcJob job = jobs[index / segments_max];
        const std::uint32_t segment = index % segments_max;
        if (segment >= crc_segments(job.bytes)) {
            return;
        }
        const std::uint32_t rounds_end = crc_rounds(job.bytes) - segment * kCrcSegmentRounds;
        const std::uint32_t rounds_first = rounds_end > kCrcSegmentRounds ? rounds_end - kCrcSegmentRounds : 0;
        auto& local = *reinterpret_cast<CrcTables*>(block.shared());
        auto* const registers = reinterpret_cast<std::uint32_t*>(block.shared() + sizeof(CrcTables));

        block.threads([&](std::uint32_t thread) {
            const auto* from = reinterpret_cast<const std::byte*>(tables);
            for (std::uint32_t i = thread * 16; i < sizeof(CrcTables); i += kBlockThreads * 16) {
                store16(block.shared() + i, load16(from + i));
            }
        });
        block.threads([&](std::uint32_t thread) {
            Words4 r{};
            LYNX_UNROLL_4
            for (std::uint32_t round = rounds_first; round < rounds_end; ++round) {
                const std::uint32_t at = round * kCrcRoundBytes + thread * 16;
                const Words4 v = load_padded(job, at);
                for (std::uint32_t i = 0; i < 4; ++i) {
                    r.w[i] = local.round.times(r.w[i]) ^ v.w[i];
                }
            }
            std::uint32_t joined = 0;
            for (std::uint32_t i = 0; i < 4; ++i) {
                joined = local.word.times(joined ^ r.w[i]);
            }
            registers[thread] = joined;
        });
        for (std::uint32_t level = 0; level < kCrcTreeLevels; ++level) {
            block.threads([&](std::uint32_t thread) {
                const std::uint32_t left = (2 * thread) << level;
                if (left < kBlockThreads) {
                    registers[left] = local.tree[level].times(registers[left]) ^ registers[left + (1U << level)];
                }
            });
        }
        block.threads([&](std::uint32_t thread) {
            if (thread == 0) {
                remainders[index] = registers[0];
            }
        });
    }

private:
    [[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE static Words4 load_padded(const CrcJob& job,
                                                                                std::uint32_t at) noexcept {
        if (at + 16 <= job.bytes) {
            return load16(job.data + at);
        }
        Words4 v{};
        for (std::uint32_t i = at; i < job.bytes; ++i) {
            v.w[(i - at) / 4] |= static_cast<std::uint32_t>(job.data[i]) << ((i - at) % 4 * 8);
        }
        return v;
    }
};

/// A page's payloads to be sealed: headers with anchor_crc and crc 0.
struct SealJob {
    std::byte header[2][kHeaderBytes];
    std::byte* payload[2];
};
inline constexpr std::size_t kAnchorCrcOffset = 40;

/// After CrcSegments: writes every header, tier 0's checksum into tier 1's, and each its own. A thread per page.
struct SealPayloads {
    static constexpr unsigned kBlocksAtOnce = 1;
    const SealJob* pages = nullptr;             ///< [count]
    const CrcJob* jobs = nullptr;               ///< [count][tiers]
    const std::uint32_t* remainders = nullptr;  ///< [count][tiers][segments_max]
    std::uint32_t segments_max = 0;
    std::uint32_t segment_shift = 0;  ///< x^(8 * kCrcSegmentBytes)
    std::uint32_t tiers = 0;
    std::uint32_t count = 0;

    template <class Block>
    LYNX_HOST_DEVICE void operator()(Block& block, std::uint32_t index) const noexcept {
        block.threads([&](std::uint32_t thread) {
            const std::uint32_t page = index * kBlockThreads + thread;
            if (page >= count) {
                return;
            }
            std::uint32_t anchor_crc = 0;
            for (std::uint32_t tier = 0; tier < tiers; ++tier) {
                const std::uint32_t body = page * tiers + tier;
                std::byte header[kHeaderBytes];
                __builtin_memcpy(header, pages[page].header[tier], kHeaderBytes);
                put_bytes(header + kAnchorCrcOffset, anchor_crc);
                const std::uint32_t rest =
                    crc_of_segments(jobs[body], remainders + std::size_t{body} * segments_max, segment_shift);
                const std::uint32_t crc =
                    crc_joined(crc_update(~0U, header, kHeaderBytes), jobs[body].body_shift, rest);
                put_bytes(header + kHeaderCrcOffset, crc);
                for (std::uint32_t i = 0; i < kHeaderBytes; i += 16) {
                    Words4 v;
                    __builtin_memcpy(&v, header + i, sizeof v);
                    store16(pages[page].payload[tier] + i, v);
                }
                anchor_crc = tier == 0 ? crc : anchor_crc;
            }
        });
    }
};

/// What a host needs to open a payload it cannot read.
struct OpenedPayload {
    std::byte header[kHeaderBytes];
    std::uint32_t remainder = 0;  ///< of the body
    std::uint32_t unused[3] = {};
};

/// After CrcSegments: gathers headers (in front of each body) and remainders. A thread per payload.
struct GatherHeaders {
    static constexpr unsigned kBlocksAtOnce = 1;
    const CrcJob* jobs = nullptr;  ///< [count]
    const std::uint32_t* remainders = nullptr;
    OpenedPayload* opened = nullptr;  ///< [count]
    std::uint32_t segments_max = 0;
    std::uint32_t segment_shift = 0;
    std::uint32_t count = 0;

    template <class Block>
    LYNX_HOST_DEVICE void operator()(Block& block, std::uint32_t index) const noexcept {
        block.threads([&](std::uint32_t thread) {
            const std::uint32_t i = index * kBlockThreads + thread;
            if (i >= count) {
                return;
            }
            for (std::uint32_t at = 0; at < kHeaderBytes; at += 16) {
                store16(opened[i].header + at, load16(jobs[i].data - kHeaderBytes + at));
            }
            opened[i].remainder = crc_of_segments(jobs[i], remainders + std::size_t{i} * segments_max, segment_shift);
        });
    }
};

}  // namespace lynx::codec::cuda
