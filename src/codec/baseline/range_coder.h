// An adaptive binary range coder with bit-tree symbols, in 32-bit integers (FORMAT, "Range coder"). Every probability starts
// even and follows the bits it codes, so no table is sent.
#pragma once

#include <array>
#include <cstdint>

#include "base/bytes.h"

namespace lynx::codec {

/// The probability that the next bit is 1, in 2^-16; never 0 or 1.
class BitModel {
public:
    [[nodiscard]] std::uint32_t one() const noexcept { return one_; }
    void follow(bool bit) noexcept {
        one_ = static_cast<std::uint16_t>(bit ? one_ + ((0xFFFFU - one_) >> kRate) : one_ - (unsigned{one_} >> kRate));
    }

private:
    static constexpr unsigned kRate = 5;
    std::uint16_t one_ = 0x8000;
};

/// Symbols of up to 8 bits, coded from the highest bit down, each bit under the bits above it.
struct SymbolModel {
    std::array<BitModel, 256> node;
};

/// What encoder and decoder share: the interval [low, high], and where a model cuts it.
struct RangeInterval {
    std::uint32_t low = 0;
    std::uint32_t high = 0xFFFFFFFFU;

    [[nodiscard]] std::uint32_t cut(const BitModel& model) const noexcept {
        return low + static_cast<std::uint32_t>(std::uint64_t{high - low} * model.one() >> 16U);
    }
    void take(bool bit, std::uint32_t middle) noexcept {
        if (bit) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    [[nodiscard]] bool settled() const noexcept { return ((low ^ high) >> 24U) == 0; }
    void shift() noexcept {
        low <<= 8U;
        high = high << 8U | 0xFFU;
    }
};

class RangeEncoder {
public:
    explicit RangeEncoder(base::Bytes& out) noexcept : out_(out) {}

    void put(SymbolModel& model, unsigned bits, std::uint32_t symbol) {
        std::uint32_t node = 1;
        for (unsigned i = bits; i > 0; --i) {
            const bool bit = (symbol >> (i - 1) & 1U) != 0;
            put_bit(model.node[node], bit);
            node = node * 2 + (bit ? 1U : 0U);
        }
    }
    /// Writes the last four bytes; call once.
    void finish() {
        for (int i = 0; i < 4; ++i) {
            out_.push_back(static_cast<std::byte>(range_.low >> 24U));
            range_.low <<= 8U;
        }
    }

private:
    void put_bit(BitModel& model, bool bit) {
        range_.take(bit, range_.cut(model));
        model.follow(bit);
        while (range_.settled()) {
            out_.push_back(static_cast<std::byte>(range_.low >> 24U));
            range_.shift();
        }
    }

    base::Bytes& out_;
    RangeInterval range_;
};

/// Reads any bytes without harm; zeros follow the end. done() tells whether exactly all were used.
class RangeDecoder {
public:
    explicit RangeDecoder(base::ByteView in) noexcept : in_(in) {
        for (int i = 0; i < 4; ++i) {
            next_byte();
        }
    }

    [[nodiscard]] std::uint32_t get(SymbolModel& model, unsigned bits) noexcept {
        std::uint32_t node = 1;
        for (unsigned i = 0; i < bits; ++i) {
            node = node * 2 + (get_bit(model.node[node]) ? 1U : 0U);
        }
        return node - (1U << bits);
    }
    [[nodiscard]] bool done() const noexcept { return used_ == in_.size(); }

private:
    bool get_bit(BitModel& model) noexcept {
        const std::uint32_t middle = range_.cut(model);
        const bool bit = code_ <= middle;
        range_.take(bit, middle);
        model.follow(bit);
        while (range_.settled()) {
            range_.shift();
            next_byte();
        }
        return bit;
    }
    void next_byte() noexcept {
        code_ = code_ << 8U | (used_ < in_.size() ? std::to_integer<std::uint32_t>(in_[used_]) : 0U);
        ++used_;
    }

    base::ByteView in_;
    std::size_t used_ = 0;
    std::uint32_t code_ = 0;
    RangeInterval range_;
};

}  // namespace lynx::codec
