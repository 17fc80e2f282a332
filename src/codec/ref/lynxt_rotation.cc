#include "codec/ref/lynxt_rotation.h"

namespace lynx::codec {
namespace {

/// round(16384 * cos(2 pi i / 1024)), a quarter of a turn.
constexpr std::int16_t kQuarterCosine[] = {
    16384, 16384, 16383, 16381, 16379, 16376, 16373, 16369, 16364, 16359, 16353, 16347, 16340, 16332, 16324, 16315,
    16305, 16295, 16284, 16273, 16261, 16248, 16235, 16221, 16207, 16192, 16176, 16160, 16143, 16125, 16107, 16088,
    16069, 16049, 16029, 16008, 15986, 15964, 15941, 15917, 15893, 15868, 15843, 15817, 15791, 15763, 15736, 15707,
    15679, 15649, 15619, 15588, 15557, 15525, 15493, 15460, 15426, 15392, 15357, 15322, 15286, 15250, 15213, 15175,
    15137, 15098, 15059, 15019, 14978, 14937, 14896, 14854, 14811, 14768, 14724, 14680, 14635, 14589, 14543, 14497,
    14449, 14402, 14354, 14305, 14256, 14206, 14155, 14104, 14053, 14001, 13949, 13896, 13842, 13788, 13733, 13678,
    13623, 13567, 13510, 13453, 13395, 13337, 13279, 13219, 13160, 13100, 13039, 12978, 12916, 12854, 12792, 12729,
    12665, 12601, 12537, 12472, 12406, 12340, 12274, 12207, 12140, 12072, 12004, 11935, 11866, 11797, 11727, 11656,
    11585, 11514, 11442, 11370, 11297, 11224, 11151, 11077, 11003, 10928, 10853, 10778, 10702, 10625, 10549, 10471,
    10394, 10316, 10238, 10159, 10080, 10001, 9921,  9841,  9760,  9679,  9598,  9516,  9434,  9352,  9269,  9186,
    9102,  9019,  8935,  8850,  8765,  8680,  8595,  8509,  8423,  8337,  8250,  8163,  8076,  7988,  7900,  7812,
    7723,  7635,  7545,  7456,  7366,  7276,  7186,  7096,  7005,  6914,  6823,  6731,  6639,  6547,  6455,  6363,
    6270,  6177,  6084,  5990,  5897,  5803,  5708,  5614,  5520,  5425,  5330,  5235,  5139,  5044,  4948,  4852,
    4756,  4660,  4563,  4467,  4370,  4273,  4176,  4078,  3981,  3883,  3786,  3688,  3590,  3492,  3393,  3295,
    3196,  3098,  2999,  2900,  2801,  2702,  2603,  2503,  2404,  2305,  2205,  2105,  2006,  1906,  1806,  1706,
    1606,  1506,  1406,  1306,  1205,  1105,  1005,  904,   804,   704,   603,   503,   402,   302,   201,   101,
    0,
};
constexpr std::uint32_t kTurn = 1024;

std::int16_t cosine_of(std::uint32_t angle) noexcept {
    angle %= kTurn;
    const std::uint32_t half = angle <= kTurn / 2 ? angle : kTurn - angle;
    return half <= kTurn / 4 ? kQuarterCosine[half] : static_cast<std::int16_t>(-kQuarterCosine[kTurn / 2 - half]);
}

constexpr int kRootRounds = 100;
constexpr double kInverseTwoPi = 0x1.45f306dc9c883p-3;

/// x in (0, 1) with x^n = 1 / base, by bisection with products alone: the same on every machine.
double inverse_root(double base, std::uint32_t n) noexcept {
    double low = 0;
    double high = 1;
    for (int round = 0; round < kRootRounds; ++round) {
        const double middle = 0.5 * (low + high);
        double power = base;
        for (std::uint32_t i = 0; i < n; ++i) {
            power = power * middle;
        }
        (power > 1 ? high : low) = middle;
    }
    return low;
}

}  // namespace

LynxtRotation::LynxtRotation(const PageContext& context, std::uint32_t tokens)
    : head_channels_(context.head_channels),
      pairs_(context.rope.dims / 2),
      step_(context.rope.interleaved ? 2 : 1),
      partner_(context.rope.interleaved ? 1 : pairs_) {
    if (pairs_ == 0) {
        return;
    }
    const double ratio = inverse_root(static_cast<double>(context.rope.base), pairs_);
    std::vector<std::uint32_t> turn(pairs_);  // of one position, times 2^32
    double turns = static_cast<double>(context.rope.scale) * kInverseTwoPi;
    for (std::uint32_t& t : turn) {
        t = static_cast<std::uint32_t>(static_cast<std::uint64_t>(turns * 0x1p32 + 0.5));
        turns = turns * ratio;
    }
    cosine_.resize(std::size_t{tokens} * pairs_);
    sine_.resize(cosine_.size());
    for (std::uint32_t t = 0; t < tokens; ++t) {
        for (std::uint32_t i = 0; i < pairs_; ++i) {
            const std::uint32_t phase = (context.first_token + t) * turn[i];  // modulo a turn
            const std::uint32_t angle = (phase + (1U << 21U)) >> 22U;
            cosine_[std::size_t{t} * pairs_ + i] = cosine_of(angle);
            sine_[std::size_t{t} * pairs_ + i] = cosine_of(angle + 3 * kTurn / 4);
        }
    }
}

void LynxtRotation::remove(std::uint32_t token, std::span<float> row) const noexcept {
    for (std::size_t head = 0; pairs_ != 0 && head < row.size(); head += head_channels_) {
        for (std::uint32_t i = 0; i < pairs_; ++i) {
            const auto c = static_cast<float>(cosine_[std::size_t{token} * pairs_ + i]);
            const auto s = static_cast<float>(sine_[std::size_t{token} * pairs_ + i]);
            const float unit = 16384.0F / (c * c + s * s);
            float& a = row[head + std::size_t{i} * step_];
            float& b = row[head + std::size_t{i} * step_ + partner_];
            const float first = (a * c + b * s) * unit;
            const float second = (b * c - a * s) * unit;
            a = first;
            b = second;
        }
    }
}

void LynxtRotation::apply(std::uint32_t token, std::span<std::int32_t> row) const noexcept {
    constexpr std::int64_t kHalf = 1 << 13;
    for (std::size_t head = 0; pairs_ != 0 && head < row.size(); head += head_channels_) {
        for (std::uint32_t i = 0; i < pairs_; ++i) {
            const std::int64_t c = cosine_[std::size_t{token} * pairs_ + i];
            const std::int64_t s = sine_[std::size_t{token} * pairs_ + i];
            std::int32_t& a = row[head + std::size_t{i} * step_];
            std::int32_t& b = row[head + std::size_t{i} * step_ + partner_];
            const std::int32_t first = lynxt_saturate((a * c - b * s + kHalf) >> 14);
            const std::int32_t second = lynxt_saturate((a * s + b * c + kHalf) >> 14);
            a = first;
            b = second;
        }
    }
}

}  // namespace lynx::codec
