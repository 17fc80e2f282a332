// AlphaCoder: what alg1 and lynx44 share. They differ in the number of levels, in how anchor symbols are packed, and in the
// value an anchor symbol alone stands for (FORMAT, "alg1" and "lynx44").
#pragma once

#include <array>

#include "codec/coder.h"
#include "codec/ref/alpha_law.h"
#include "codec/ref/alpha_meta.h"

namespace lynx::codec {

inline constexpr std::uint32_t kAnchorDigitsMax = 18;
inline constexpr std::uint32_t kAnchorMagnitudesMax = kAnchorDigitsMax / 2;

/// Sum and number of the magnitudes that fell into each anchor magnitude V: integers, so the order of adding is free.
struct AnchorBins {
    std::array<std::uint64_t, kAnchorMagnitudesMax> sum{};  ///< of a, in 2^-24
    std::array<std::uint64_t, kAnchorMagnitudesMax> count{};
};

/// An anchor *digit* is Q_anc - q_min: 0..2 * magnitudes - 1.
class AlphaCoder : public PageCoder {
public:
    [[nodiscard]] std::uint8_t tiers() const noexcept override { return 2; }
    [[nodiscard]] std::size_t body_bytes_max(CoreShape s, std::uint8_t tier) const noexcept override;
    void encode(kv::ConstView core, const PageContext& context, std::span<std::span<std::byte>> bodies) const override;
    [[nodiscard]] Status decode(std::span<const base::ByteView> bodies, const PageContext& context,
                                kv::View dst) const override;
    [[nodiscard]] Status symbols(std::span<const base::ByteView> bodies, CoreShape s, PageSymbols& out) const override;

protected:
    AlphaCoder(const CodecParams& params, int levels) noexcept;

    /// Bytes of a token's packed anchor digits.
    [[nodiscard]] virtual std::size_t anchor_row_bytes(std::uint32_t channels) const noexcept = 0;
    virtual void pack_anchor_row(const std::uint8_t* digits, std::uint32_t channels, std::byte* row) const noexcept = 0;
    /// False when the row is not what pack_anchor_row can have written.
    [[nodiscard]] virtual bool unpack_anchor_row(const std::byte* row, std::uint32_t channels,
                                                 std::uint8_t* digits) const noexcept = 0;
    /// Anchor magnitudes table in front of the metadata; the default has none and reconstructs at level 16V.
    [[nodiscard]] virtual std::size_t table_bytes() const noexcept { return 0; }
    virtual void write_table(const AnchorBins& /*bins*/, std::byte* /*table*/) const noexcept {}
    [[nodiscard]] virtual float anchor_magnitude(const std::byte* table, std::uint32_t v) const noexcept;

    [[nodiscard]] const AlphaLaw& law() const noexcept { return law_; }
    [[nodiscard]] std::uint32_t magnitudes() const noexcept { return magnitudes_; }

private:
    struct Rows;

    /// Unpacks `count` tokens' digits [count][stride] and, if the residual is there, pair indices 16*digit + residual nibble.
    [[nodiscard]] Status read_rows(std::span<const base::ByteView> bodies, CoreShape s, std::uint32_t first,
                                   Rows& rows) const;
    [[nodiscard]] int q_min() const noexcept { return -static_cast<int>(magnitudes_); }

    AlphaLaw law_;
    AlphaMeta meta_;
    std::uint32_t magnitudes_;
    std::array<float, std::size_t{kAnchorDigitsMax} * 16> pair_value_{};  ///< signed a' of a (digit, residual) pair
    std::array<std::uint8_t, std::size_t{kAnchorDigitsMax} * 16> pair_bad_{};  ///< 1: no level splits into that pair
};

}  // namespace lynx::codec
