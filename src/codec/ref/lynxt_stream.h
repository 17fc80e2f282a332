// A page's quantised coefficients as the bodies of lynxt's tiers, and back (FORMAT, "lynxt: bodies"). Knows nothing of what the
// coefficients mean.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codec/ref/lynxt_model.h"
#include "lynx/status.h"

namespace lynx::codec {

/// What the bodies of one page say.
struct LynxtPage {
    std::uint32_t tokens = 0;    ///< T, of the core
    std::uint32_t channels = 0;  ///< H, and as many coefficients
    std::uint32_t step = 1;      ///< the finest, in units of 2^exponent; 1..kLynxtStepMax
    std::int8_t exponent = 0;
    bool profiled = false;  ///< the profile's transform was used
    std::int8_t class_base =
        0;  ///< from a profile's sigma classes to the page's, or the first coefficient's prediction
    std::vector<std::uint8_t> classes{};  ///< [H]
    std::vector<std::int16_t> mean{};     ///< [H], in halves of the anchor's step, -128..127
    std::vector<std::int16_t> index{};    ///< [H][T], the cells of the tier that was read; finest indices when writing
    std::uint8_t centroid[kLynxtTiers] =
        {};  ///< where in its cell an index lies: magnitude 1 in bits 0-2, above in bits 3-5
};

inline constexpr std::uint32_t kLynxtStepMax = (1U << 23) - 1;
inline constexpr std::int32_t kLynxtExponentMin = -120;
inline constexpr std::int32_t kLynxtExponentMax = 110;

/// Both directions share one view of the codec's parameters. Thread-safe.
class LynxtStream {
public:
    explicit LynxtStream(LynxtCuts cuts) : cuts_(cuts), model_(cuts) {}

    [[nodiscard]] LynxtCuts cuts() const noexcept { return cuts_; }
    [[nodiscard]] std::size_t body_bytes_max(std::uint32_t tokens, std::uint32_t channels,
                                             std::uint8_t tier) const noexcept;

    /// Writes all tiers and cuts each body to what it took. `predicted`: the profile's sigma classes [H], or empty.
    void write(const LynxtPage& page, std::span<const std::uint8_t> predicted,
               std::span<std::span<std::byte>> bodies) const;

    /// Reads the head of an anchor: everything before its symbols. corrupt.
    [[nodiscard]] Status read_head(base::ByteView anchor, LynxtPage& page) const;
    /// Reads the symbols of tiers 0 .. bodies.size() - 1 into a page whose head, tokens and channels are set. corrupt.
    [[nodiscard]] Status read(std::span<const base::ByteView> bodies, std::span<const std::uint8_t> predicted,
                              LynxtPage& page) const;

private:
    [[nodiscard]] Status read_anchor(base::ByteView body, std::span<const std::uint8_t> predicted,
                                     LynxtPage& page) const;
    [[nodiscard]] Status read_refinement(base::ByteView body, std::uint32_t tier, LynxtPage& page) const;

    LynxtCuts cuts_;
    LynxtModel model_;
};

}  // namespace lynx::codec
