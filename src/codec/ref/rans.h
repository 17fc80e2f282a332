// Range asymmetric numeral systems (arXiv:1311.2540) over kRansLanes interleaved states with 16-bit renormalisation and
// probabilities of 12 bits (FORMAT, "Interleaved rANS"). Which symbol belongs to which lane is the caller's business.
// Non-goals: models, adaptivity.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/bytes.h"

namespace lynx::codec {

inline constexpr std::uint32_t kRansLanes = 16;
inline constexpr std::uint32_t kRansBits = 12;
inline constexpr std::uint32_t kRansTotal = 1U << kRansBits;
inline constexpr std::uint32_t kRansLow = 1U << 16U;  ///< a state's least value, and the encoder's first one
inline constexpr std::size_t kRansStateBytes = kRansLanes * 4;
inline constexpr std::uint32_t kRansSymbolsMax = 32;

/// The frequencies of an alphabet; they add up to kRansTotal, and every symbol has at least 1.
struct RansTable {
    std::uint32_t symbols = 0;
    std::array<std::uint16_t, kRansSymbolsMax> frequency{};
    std::array<std::uint16_t, kRansSymbolsMax> first{};  ///< sum of the frequencies before it
    std::array<std::uint8_t, kRansTotal> symbol_of{};    ///< by slot

    /// Scales weights to frequencies (FORMAT, "From weights to frequencies"). Precondition: 1..kRansSymbolsMax weights, each
    /// below 2^32.
    static RansTable from_weights(std::span<const std::uint64_t> weights);
};

/// Group order (FORMAT, "Interleaved rANS"): calls use(first, count) for every run of at most kRansLanes of `total`.
template <class Use>
void for_groups(std::uint32_t total, Use use) {
    for (std::uint32_t first = 0; first < total; first += kRansLanes) {
        use(first, total - first < kRansLanes ? total - first : kRansLanes);
    }
}

/// Collects operations in decoding order and writes them backwards.
class RansEncoder {
public:
    void put(std::uint32_t lane, const RansTable& table, std::uint32_t symbol) {
        push(lane, table.first[symbol], table.frequency[symbol]);
    }
    /// `count` plain bits, 1..kRansBits.
    void put_bits(std::uint32_t lane, std::uint32_t value, std::uint32_t count) {
        const std::uint32_t width = kRansBits - count;
        push(lane, value << width, 1U << width);
    }
    /// Writes states and words to the front of `out`, which must have room for bytes_max(); returns the bytes written.
    std::size_t finish(std::span<std::byte> out) const;
    [[nodiscard]] std::size_t bytes_max() const noexcept { return kRansStateBytes + operations_.size() * 2; }

private:
    struct Operation {
        std::uint16_t first;
        std::uint16_t frequency_minus_1;
        std::uint8_t lane;
    };
    void push(std::uint32_t lane, std::uint32_t first, std::uint32_t frequency) {
        operations_.push_back({static_cast<std::uint16_t>(first), static_cast<std::uint16_t>(frequency - 1),
                               static_cast<std::uint8_t>(lane)});
    }
    std::vector<Operation> operations_;
};

/// Any bytes may be given: a short stream reads as zeros and fails in done().
class RansDecoder {
public:
    explicit RansDecoder(base::ByteView bytes) noexcept : bytes_(bytes), at_(kRansStateBytes) {
        if (bytes.size() >= kRansStateBytes) {
            std::memcpy(states_.data(), bytes.data(), kRansStateBytes);
        }
    }
    [[nodiscard]] std::uint32_t get(std::uint32_t lane, const RansTable& table) noexcept {
        std::uint32_t& x = states_[lane];
        const std::uint32_t slot = x & (kRansTotal - 1);
        const std::uint32_t symbol = table.symbol_of[slot];
        x = table.frequency[symbol] * (x >> kRansBits) + slot - table.first[symbol];
        refill(x);
        return symbol;
    }
    [[nodiscard]] std::uint32_t get_bits(std::uint32_t lane, std::uint32_t count) noexcept {
        std::uint32_t& x = states_[lane];
        const std::uint32_t width = kRansBits - count;
        const std::uint32_t slot = x & (kRansTotal - 1);
        const std::uint32_t value = slot >> width;
        x = ((x >> kRansBits) << width) + slot - (value << width);
        refill(x);
        return value;
    }
    /// Whether the stream ended exactly here: no byte left or missing, every state back at kRansLow.
    [[nodiscard]] bool done() const noexcept {
        for (const std::uint32_t x : states_) {
            if (x != kRansLow) {
                return false;
            }
        }
        return at_ == bytes_.size();
    }

private:
    void refill(std::uint32_t& x) noexcept {
        if (x < kRansLow) {
            std::uint16_t word = 0;
            if (at_ + 2 <= bytes_.size()) {
                std::memcpy(&word, bytes_.data() + at_, sizeof word);
            }
            at_ += 2;
            x = x << 16U | word;
        }
    }
    base::ByteView bytes_;
    std::size_t at_;
    std::array<std::uint32_t, kRansLanes> states_{};
};

}  // namespace lynx::codec
