// AlphaCoder: Algorithm 1 of arXiv:2607.01831 and its relatives. They share normalisation, levels and layout, and differ in
// what AlphaSpec says (FORMAT, "Alpha-law codecs"): splits of the bits, centroid anchors, and variants that leave one part of
// the algorithm out, to show what that part is worth.
#pragma once

#include <array>

#include "codec/coder.h"
#include "codec/ref/alpha_law.h"
#include "codec/ref/alpha_meta.h"

namespace lynx::codec {

/// How a level I and its sign become an anchor and a residual symbol (FORMAT, "Cuts").
enum class AlphaCut : std::uint8_t {
    rounded,          ///< the algorithm's: V = (I + bias) >> r, sign map V or -V - 1
    truncated,        ///< V = I >> r: no bias
    zero_merged,      ///< anchor V or -V: no sign map, so the sign of V = 0 is lost
    clipped,          ///< V at most 7: 16 anchor symbols for 127 levels
    twos_complement,  ///< the appendix's Q >> 4 and Q & 15 of a signed level Q
};

struct AlphaSpec {
    CodecId id = CodecId::alg1;
    int levels = kAlg1Levels;
    std::uint8_t residual_bits = 4;
    std::uint8_t anchor_bits = 0;  ///< per symbol in rows of bits; 0: words of kAlphaDigitsPerWord digits
    AlphaCut cut = AlphaCut::rounded;
    AlphaCurve curve = AlphaCurve::alpha;
    bool centroids = false;          ///< anchor values are the means of the page's magnitudes
    bool anchor_only = false;        ///< one tier, no residual
    bool page_gamma = true;          ///< normalise the page before the chunk
    std::uint16_t alpha = 0;         ///< 0: the parameter
    std::uint16_t chunk_tokens = 0;  ///< 0: the parameter; kv::kPageTokensMax: no chunks
};

inline constexpr std::uint32_t kAlphaDigitsMax = 64;
inline constexpr std::size_t kAlphaPairsMax = 18 * 16;

/// Sum and number of the magnitudes that fell into each anchor magnitude V: integers, so the order of adding is free.
struct AnchorBins {
    std::array<std::uint64_t, kAlphaDigitsMax> sum{};  ///< of a, in 2^-24
    std::array<std::uint64_t, kAlphaDigitsMax> count{};
};

/// An anchor *digit* is Q_anc - q_min, 0..digits - 1; a *pair* is digit << residual_bits | residual bits.
class AlphaCoder final : public PageCoder {
public:
    AlphaCoder(const AlphaSpec& spec, const CodecParams& params) noexcept;

    [[nodiscard]] CodecId id() const noexcept override { return spec_.id; }
    [[nodiscard]] std::uint8_t tiers() const noexcept override { return spec_.anchor_only ? 1 : 2; }
    [[nodiscard]] std::size_t body_bytes_max(CoreShape s, std::uint8_t tier) const noexcept override;
    void encode(kv::ConstView core, const PageContext& context, std::span<std::span<std::byte>> bodies) const override;
    [[nodiscard]] Status decode(std::span<const base::ByteView> bodies, const PageContext& context,
                                kv::View dst) const override;
    [[nodiscard]] Status symbols(std::span<const base::ByteView> bodies, CoreShape s, PageSymbols& out) const override;

private:
    struct Rows;

    void add_pair(int level, bool negative) noexcept;
    [[nodiscard]] std::size_t table_bytes() const noexcept;
    [[nodiscard]] std::size_t anchor_row_bytes(std::uint32_t channels) const noexcept;
    void write_table(const AnchorBins& bins, std::byte* table) const noexcept;
    [[nodiscard]] std::array<float, kAlphaDigitsMax> anchor_values(const std::byte* table) const noexcept;
    void pack_anchor_row(const std::uint8_t* digits, std::uint32_t channels, std::byte* row) const noexcept;
    /// False when the row is not what pack_anchor_row can have written.
    [[nodiscard]] bool unpack_anchor_row(const std::byte* row, std::uint32_t channels,
                                         std::uint8_t* digits) const noexcept;
    /// Unpacks `count` tokens' digits [count][stride] and, if the residual is there, pairs.
    [[nodiscard]] Status read_rows(std::span<const base::ByteView> bodies, CoreShape s, std::uint32_t first,
                                   Rows& rows) const;

    AlphaSpec spec_;
    AlphaLaw law_;
    AlphaMeta meta_;
    std::uint32_t magnitudes_ = 0;                                             ///< values of V
    std::uint32_t digits_ = 0;                                                 ///< anchor symbols
    int q_min_ = 0;                                                            ///< Q_anc of digit 0
    std::array<std::array<std::uint16_t, kAlphaLevelsMax + 1>, 2> pair_of_{};  ///< [negative][level]
    std::array<std::int16_t, kAlphaPairsMax> level_of_{};                      ///< of a pair; -1: no level has it
    std::array<float, kAlphaPairsMax> pair_value_{};                           ///< signed a' of a pair
};

}  // namespace lynx::codec
