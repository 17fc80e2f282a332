#include "codec/ref/lynxt_transform.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "codec/math/scalar_math.h"
#include "codec/tile.h"

namespace lynx::codec {
namespace {

constexpr std::uint32_t kCellBits = 3;       // fractional bits of a coefficient
constexpr std::int32_t kFixedBits = 23;      // of the largest element
constexpr std::uint32_t kScaleDropBits = 8;  // of step * row scale, so that sums stay within 63 bits

/// x / 2^bits, rounded half up. Precondition: bits < 62.
std::int64_t shift_right(std::int64_t x, std::uint32_t bits) noexcept {
    return bits == 0 ? x : (x + (std::int64_t{1} << (bits - 1))) >> bits;
}

/// The profile's mean of a channel in units of 2^exponent.
std::int32_t fixed_mean(const ProfileMatrix& m, std::uint32_t channel, std::int32_t exponent) noexcept {
    constexpr std::int32_t kShiftMax = 38;
    const std::int32_t shift = std::clamp(exponent - m.mean_exponent, -kShiftMax, kShiftMax);
    const std::int64_t mean = m.mean[channel];
    return lynxt_saturate(shift >= 0 ? shift_right(mean, static_cast<std::uint32_t>(shift))
                                     : mean * (std::int64_t{1} << -shift));
}

/// The product of one row of the basis and coefficients in eighths of a step with `shift` bits missing, in units of 2^exponent.
class RowScale {
public:
    RowScale(const ProfileMatrix& m, std::uint32_t channel, std::uint32_t step) noexcept
        : factor_(static_cast<std::int64_t>((std::uint64_t{m.row_scale[channel]} * step) >> kScaleDropBits)),
          bits_(static_cast<std::uint32_t>(-m.scale_exponent) - (kScaleDropBits - kCellBits)) {}
    [[nodiscard]] std::int64_t apply(std::int32_t sum, std::uint32_t shift) const noexcept {
        return shift_right(sum * factor_, bits_ - shift);
    }

private:
    std::int64_t factor_;
    std::uint32_t bits_;
};

/// Coefficients in eighths of the finest step: where in its cell a value is taken to lie.
class CellValues {
public:
    CellValues(const LynxtPage& page, std::uint32_t tier, LynxtCuts cuts) noexcept
        : cuts_(cuts), tier_(tier), centroid_(page.centroid[tier]) {
        for (std::int32_t m = 0; m < kCached; ++m) {
            cached_[m] = compute(m);
        }
    }
    [[nodiscard]] std::int16_t of(std::int32_t cell) const noexcept {
        const std::int32_t magnitude = cell < 0 ? -cell : cell;
        const std::int32_t value = magnitude < kCached ? cached_[magnitude] : compute(magnitude);
        return static_cast<std::int16_t>(cell < 0 ? -value : value);
    }

private:
    static constexpr std::int32_t kCached = 32;
    static constexpr std::int32_t kValueMax = 32767;

    [[nodiscard]] std::int32_t compute(std::int32_t magnitude) const noexcept {
        if (magnitude == 0) {
            return 0;
        }
        const std::int32_t low = cuts_.lower(tier_, magnitude);
        const std::int32_t width = cuts_.lower(tier_, magnitude + 1) - low;
        const std::int32_t inside = (magnitude == 1 ? centroid_ : centroid_ >> kCellBits) & ((1 << kCellBits) - 1);
        return std::min((low << kCellBits) + inside * width, kValueMax);
    }

    LynxtCuts cuts_;
    std::uint32_t tier_;
    std::uint8_t centroid_;
    std::int32_t cached_[kCached];
};

/// The coefficients of one block that are not zero everywhere, packed: rows of `width` for every token and for every channel.
struct PackedBlock {
    std::uint32_t width = 0;           // rounded up to kPad
    std::vector<std::int16_t> values;  // [T][width]
    std::vector<std::int16_t> basis;   // [block][width]
};
constexpr std::uint32_t kPad = 16;

PackedBlock pack_block(const LynxtPage& page, const CellValues& values, const ProfileMatrix& m, std::uint32_t first) {
    const std::uint32_t tokens = page.tokens;
    std::vector<std::uint32_t> active;
    for (std::uint32_t j = first; j < first + m.block; ++j) {
        const std::int16_t* row = page.index.data() + std::size_t{j} * tokens;
        if (std::any_of(row, row + tokens, [](std::int16_t q) { return q != 0; })) {
            active.push_back(j);
        }
    }
    PackedBlock packed;
    packed.width = (static_cast<std::uint32_t>(active.size()) + kPad - 1) / kPad * kPad;
    packed.values.assign(std::size_t{tokens} * packed.width, 0);
    packed.basis.assign(std::size_t{m.block} * packed.width, 0);
    for (std::size_t a = 0; a < active.size(); ++a) {
        const std::int16_t* row = page.index.data() + std::size_t{active[a]} * tokens;
        for (std::uint32_t t = 0; t < tokens; ++t) {
            packed.values[std::size_t{t} * packed.width + a] = values.of(row[t]);
        }
        for (std::uint32_t c = 0; c < m.block; ++c) {
            packed.basis[std::size_t{c} * packed.width + a] =
                m.basis[std::size_t{first + c} * m.block + (active[a] - first)];
        }
    }
    return packed;
}

std::int32_t dot(const std::int16_t* __restrict a, const std::int16_t* __restrict b, std::uint32_t n) noexcept {
    std::int32_t sum = 0;
    for (std::uint32_t i = 0; i < n; ++i) {
        sum += std::int32_t{a[i]} * b[i];
    }
    return sum;
}

/// Where every channel of the page is centred: the profile's mean and the page's own.
std::vector<std::int32_t> page_centers(const LynxtPage& page, LynxtCuts cuts, const ProfileMatrix* m) {
    std::vector<std::int32_t> center(page.channels);
    for (std::uint32_t c = 0; c < page.channels; ++c) {
        // Halves of the anchor's step are four eighths.
        if (m == nullptr) {
            center[c] =
                lynxt_saturate(shift_right((std::int64_t{4} * page.mean[c] * page.step) << cuts.shift[0], kCellBits));
            continue;
        }
        const std::uint32_t first = c / m->block * m->block;
        std::int32_t sum = 0;
        for (std::uint32_t j = 0; j < m->block; ++j) {
            sum += m->basis[std::size_t{c} * m->block + j] * 4 * page.mean[first + j];
        }
        center[c] =
            lynxt_saturate(fixed_mean(*m, c, page.exponent) + RowScale(*m, c, page.step).apply(sum, cuts.shift[0]));
    }
    return center;
}

}  // namespace

std::vector<float> invert_basis(const ProfileMatrix& matrix) {
    const std::uint32_t n = matrix.block;
    std::vector<float> inverse(std::size_t{matrix.channels} * n);
    std::vector<double> work(std::size_t{n} * n * 2);
    for (std::uint32_t first = 0; first < matrix.channels; first += n) {
        for (std::uint32_t c = 0; c < n; ++c) {
            double* row = work.data() + std::size_t{c} * 2 * n;
            std::fill(row, row + 2 * n, 0.0);
            for (std::uint32_t j = 0; j < n; ++j) {
                row[j] = std::ldexp(double{static_cast<double>(matrix.row_scale[first + c])} *
                                        matrix.basis[std::size_t{first + c} * n + j],
                                    matrix.scale_exponent);
            }
            row[n + c] = 1;
        }
        for (std::uint32_t k = 0; k < n; ++k) {
            std::uint32_t pivot = k;
            for (std::uint32_t r = k + 1; r < n; ++r) {
                pivot = std::abs(work[std::size_t{r} * 2 * n + k]) > std::abs(work[std::size_t{pivot} * 2 * n + k])
                            ? r
                            : pivot;
            }
            double* top = work.data() + std::size_t{k} * 2 * n;
            if (pivot != k) {
                std::swap_ranges(top, top + 2 * n, work.data() + std::size_t{pivot} * 2 * n);
            }
            const double head = top[k];
            if (!(std::abs(head) > 0x1p-60)) {
                return {};
            }
            for (std::uint32_t i = k; i < 2 * n; ++i) {
                top[i] /= head;
            }
            for (std::uint32_t r = 0; r < n; ++r) {
                double* row = work.data() + std::size_t{r} * 2 * n;
                const double factor = row[k];
                if (r == k || factor == 0) {
                    continue;
                }
                for (std::uint32_t i = k; i < 2 * n; ++i) {
                    row[i] -= factor * top[i];
                }
            }
        }
        for (std::uint32_t j = 0; j < n; ++j) {
            for (std::uint32_t c = 0; c < n; ++c) {
                inverse[std::size_t{first + j} * n + c] = static_cast<float>(work[std::size_t{j} * 2 * n + n + c]);
            }
        }
    }
    return inverse;
}

LynxtCoefficients lynxt_forward(kv::ConstView core, const LynxtRotation& rotation, const ProfileMatrix* matrix,
                                const std::vector<float>& inverse) {
    const std::uint32_t channels = core.channels;
    LynxtCoefficients out;
    std::vector<float> x(std::size_t{core.tokens} * channels);
    const auto tile = make_tile(core.tokens);
    float max = 0;
    for (std::uint32_t k = 0; k < tile_count(channels); ++k) {
        const ChannelSpan span = tile_span(channels, k);
        load_tile(core, span, tile.get());
        for (std::uint32_t t = 0; t < core.tokens; ++t) {
            const float* row = tile.get() + std::size_t{t} * kTileChannels;
            for (std::uint32_t c = 0; c < span.count; ++c) {
                max = larger(max, magnitude(row[c]));
                x[std::size_t{t} * channels + span.first + c] = row[c];
            }
        }
    }
    int exponent = 0;
    static_cast<void>(std::frexp(max, &exponent));  // max < 2^exponent
    out.exponent = std::clamp(exponent - kFixedBits, kLynxtExponentMin, kLynxtExponentMax);
    const float unit = std::ldexp(1.0F, -out.exponent);
    for (float& value : x) {
        value *= unit;
    }
    for (std::uint32_t t = 0; t < core.tokens; ++t) {
        rotation.remove(t, std::span(x).subspan(std::size_t{t} * channels, channels));
    }
    if (matrix == nullptr) {
        out.y = std::move(x);
        return out;
    }
    // y = inverse * (x - mean), summed over channels in order; transposed so that the inner loop runs over coefficients.
    const std::uint32_t n = matrix->block;
    std::vector<float> turned(std::size_t{channels} * n);
    for (std::uint32_t j = 0; j < channels; ++j) {
        for (std::uint32_t c = 0; c < n; ++c) {
            turned[(std::size_t{j / n * n} + c) * n + j % n] = inverse[std::size_t{j} * n + c];
        }
    }
    std::vector<float> mean(channels);
    for (std::uint32_t c = 0; c < channels; ++c) {
        mean[c] = static_cast<float>(fixed_mean(*matrix, c, out.exponent));
    }
    out.y.assign(x.size(), 0.0F);
    for (std::uint32_t t = 0; t < core.tokens; ++t) {
        for (std::uint32_t c = 0; c < channels; ++c) {
            const float value = x[std::size_t{t} * channels + c] - mean[c];
            const float* column = turned.data() + std::size_t{c} * n;
            float* y = out.y.data() + std::size_t{t} * channels + c / n * n;
            for (std::uint32_t j = 0; j < n; ++j) {
                y[j] += value * column[j];
            }
        }
    }
    return out;
}

void lynxt_restore(const LynxtPage& page, std::uint32_t tier, LynxtCuts cuts, const LynxtRotation& rotation,
                   const ProfileMatrix* matrix, kv::View dst) {
    const std::uint32_t channels = page.channels;
    const CellValues values(page, tier, cuts);
    const std::vector<std::int32_t> center = page_centers(page, cuts, matrix);
    std::vector<PackedBlock> blocks;
    for (std::uint32_t first = 0; matrix != nullptr && first < channels; first += matrix->block) {
        blocks.push_back(pack_block(page, values, *matrix, first));
    }
    const float unit = power_of_two(page.exponent);
    std::vector<std::int32_t> fixed(std::size_t{kTileTokens} * channels);
    const auto tile = make_tile(kTileTokens);
    for (std::uint32_t first = 0; first < page.tokens; first += kTileTokens) {
        const std::uint32_t rows = std::min(kTileTokens, page.tokens - first);
        for (std::uint32_t c = 0; c < channels; ++c) {
            if (matrix == nullptr) {
                for (std::uint32_t t = 0; t < rows; ++t) {
                    const std::int64_t value = values.of(page.index[std::size_t{c} * page.tokens + first + t]);
                    fixed[std::size_t{t} * channels + c] =
                        lynxt_saturate(center[c] + shift_right(value * page.step, kCellBits));
                }
                continue;
            }
            const PackedBlock& block = blocks[c / matrix->block];
            const std::int16_t* basis = block.basis.data() + std::size_t{c % matrix->block} * block.width;
            const RowScale scale(*matrix, c, page.step);
            for (std::uint32_t t = 0; t < rows; ++t) {
                const std::int32_t sum =
                    dot(basis, block.values.data() + std::size_t{first + t} * block.width, block.width);
                fixed[std::size_t{t} * channels + c] = lynxt_saturate(center[c] + scale.apply(sum, 0));
            }
        }
        for (std::uint32_t t = 0; t < rows; ++t) {
            rotation.apply(first + t, std::span(fixed).subspan(std::size_t{t} * channels, channels));
        }
        for (std::uint32_t k = 0; k < tile_count(channels); ++k) {
            const ChannelSpan span = tile_span(channels, k);
            for (std::uint32_t t = 0; t < rows; ++t) {
                float* row = tile.get() + std::size_t{t} * kTileChannels;
                for (std::uint32_t c = 0; c < span.count; ++c) {
                    row[c] = static_cast<float>(fixed[std::size_t{t} * channels + span.first + c]) * unit;
                }
            }
            store_tile(tile.get(), rows, dst, first, span);
        }
    }
}

}  // namespace lynx::codec
