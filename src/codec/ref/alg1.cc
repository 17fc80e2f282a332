#include "codec/ref/alg1.h"

#include <algorithm>
#include <cstring>

#include "codec/ref/alpha_coder.h"

namespace lynx::codec {
namespace {

constexpr std::uint64_t kRadix = 18;

class Alg1 final : public AlphaCoder {
public:
    explicit Alg1(const CodecParams& params) noexcept : AlphaCoder(params, kAlg1Levels) {}

    [[nodiscard]] CodecId id() const noexcept override { return CodecId::alg1; }

protected:
    [[nodiscard]] std::size_t anchor_row_bytes(std::uint32_t channels) const noexcept override {
        return std::size_t{(channels + kDigitsPerWord - 1) / kDigitsPerWord} * sizeof(std::uint64_t);
    }

    // A word is the sum of digit[i] * 18^i over 15 consecutive channels, or fewer at the end of the row.
    void pack_anchor_row(const std::uint8_t* digits, std::uint32_t channels, std::byte* row) const noexcept override {
        for (std::uint32_t first = 0; first < channels; first += kDigitsPerWord, row += sizeof(std::uint64_t)) {
            std::uint64_t word = 0;
            for (std::uint32_t i = std::min(channels - first, kDigitsPerWord); i > 0; --i) {
                word = word * kRadix + digits[first + i - 1];
            }
            std::memcpy(row, &word, sizeof word);
        }
    }

    [[nodiscard]] bool unpack_anchor_row(const std::byte* row, std::uint32_t channels,
                                         std::uint8_t* digits) const noexcept override {
        std::uint64_t excess = 0;
        for (std::uint32_t first = 0; first < channels; first += kDigitsPerWord, row += sizeof(std::uint64_t)) {
            std::uint64_t word = 0;
            std::memcpy(&word, row, sizeof word);
            const std::uint32_t n = std::min(channels - first, kDigitsPerWord);
            for (std::uint32_t i = 0; i < n; ++i) {
                digits[first + i] = static_cast<std::uint8_t>(word % kRadix);
                word /= kRadix;
            }
            excess |= word;
        }
        return excess == 0;
    }
};

}  // namespace

std::unique_ptr<PageCoder> make_alg1(const CodecParams& params) { return std::make_unique<Alg1>(params); }

}  // namespace lynx::codec
