#include "codec/ref/lynxt_stream.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>

#include "base/check.h"
#include "base/try.h"

namespace lynx::codec {
namespace {

constexpr std::size_t kHeadBytes = 8;            // step, exponent, flags, class base, centroids
constexpr std::size_t kRefinementHeadBytes = 1;  // centroids
constexpr std::uint8_t kFlagProfiled = 1;
constexpr std::uint32_t kClassBits = 6;        // of an escaped class
constexpr std::uint32_t kMeanBits = 8;         // of an escaped page mean
constexpr std::uint32_t kEscapeGroupBits = 3;  // value bits of a group; a fourth says whether another one follows
constexpr std::uint32_t kEscapeGroupsMax = 5;
constexpr std::uint8_t kCentroidMask = 0x3F;

Status corrupt(std::string_view what) { return {ErrorCode::corrupt, "lynxt: " + std::string(what)}; }

/// The class that is expected of coefficient j, given the one before.
std::int32_t predicted_class(const LynxtPage& page, std::span<const std::uint8_t> predicted, std::uint32_t j) noexcept {
    if (predicted.empty()) {
        return j == 0 ? page.class_base : page.classes[j - 1];
    }
    return std::clamp<std::int32_t>(std::int32_t{predicted[j]} - 128 + page.class_base, 0, kLynxtClasses - 1);
}

void put_escape(RansEncoder& out, std::uint32_t lane, std::int32_t value) {
    out.put_bits(lane, value < 0 ? 1U : 0U, 1);
    auto rest = static_cast<std::uint32_t>((value < 0 ? -value : value) - kLynxtSmall - 1);
    for (bool more = true; more;) {
        const std::uint32_t low = rest & ((1U << kEscapeGroupBits) - 1);
        rest >>= kEscapeGroupBits;
        more = rest != 0;
        out.put_bits(lane, low | (more ? 1U << kEscapeGroupBits : 0U), kEscapeGroupBits + 1);
    }
}

/// Empty: more groups than any level needs.
std::optional<std::int32_t> get_escape(RansDecoder& in, std::uint32_t lane) noexcept {
    const bool negative = in.get_bits(lane, 1) != 0;
    std::uint32_t value = 0;
    for (std::uint32_t group = 0; group < kEscapeGroupsMax; ++group) {
        const std::uint32_t bits = in.get_bits(lane, kEscapeGroupBits + 1);
        value |= (bits & ((1U << kEscapeGroupBits) - 1)) << (group * kEscapeGroupBits);
        if ((bits >> kEscapeGroupBits) == 0) {
            const auto magnitude = static_cast<std::int32_t>(value) + kLynxtSmall + 1;
            return negative ? -magnitude : magnitude;
        }
    }
    return std::nullopt;
}

/// A tier's signed cell of a signed finest index.
std::int32_t cell_of(const LynxtCuts& cuts, std::uint32_t tier, std::int32_t index) noexcept {
    return index < 0 ? -cuts.cell(tier, -index) : cuts.cell(tier, index);
}

/// What symbol 0 stands for in a tier, given the cell before: the lowest cell for zero, else the first magnitude.
std::int32_t first_refined(const LynxtCuts& cuts, std::uint32_t tier, std::int32_t before) noexcept {
    const std::int32_t magnitude = before < 0 ? -before : before;
    return before == 0 ? 1 - cuts.cell(tier, cuts.lower(tier - 1, 1))
                       : cuts.cell(tier, cuts.lower(tier - 1, magnitude));
}

/// Keeps where a stream's rANS part begins; cuts the body once it is written.
void finish(const RansEncoder& encoder, std::size_t head_bytes, std::span<std::byte>& body) {
    LYNX_CHECK(body.size() >= head_bytes + encoder.bytes_max());
    body = body.first(head_bytes + encoder.finish(body.subspan(head_bytes)));
}

}  // namespace

std::size_t LynxtStream::body_bytes_max(std::uint32_t tokens, std::uint32_t channels,
                                        std::uint8_t tier) const noexcept {
    const std::size_t elements = std::size_t{tokens} * channels;
    if (tier > 0) {
        return kRefinementHeadBytes + kRansStateBytes + elements * 2;
    }
    // Two bytes an operation: symbol, raw bits, escape's sign and groups; and per coefficient class, mean, their escapes and a flag.
    return kHeadBytes + kRansStateBytes + 2 * (elements * (3 + kEscapeGroupsMax) + std::size_t{channels} * 5);
}

void LynxtStream::write(const LynxtPage& page, std::span<const std::uint8_t> predicted,
                        std::span<std::span<std::byte>> bodies) const {
    const std::uint32_t n = page.channels;
    std::byte* head = bodies[0].data();
    const auto put = [&head](auto value) {
        std::memcpy(head, &value, sizeof value);
        head += sizeof value;
    };
    put(page.step);
    put(page.exponent);
    put(static_cast<std::uint8_t>(page.profiled ? kFlagProfiled : 0));
    put(page.class_base);
    put(page.centroid[0]);

    RansEncoder out;
    for_groups(n, [&](std::uint32_t first, std::uint32_t count) {
        std::array<std::uint32_t, kRansLanes> symbol{};
        for (std::uint32_t i = 0; i < count; ++i) {
            symbol[i] = small_symbol(page.classes[first + i] - predicted_class(page, predicted, first + i));
            out.put(i, model_.class_delta(), symbol[i]);
        }
        for (std::uint32_t i = 0; i < count; ++i) {
            if (symbol[i] == kLynxtEscape) {
                out.put_bits(i, page.classes[first + i], kClassBits);
            }
        }
    });
    for_groups(n, [&](std::uint32_t first, std::uint32_t count) {
        for (std::uint32_t i = 0; i < count; ++i) {
            out.put(i, model_.page_mean(), small_symbol(page.mean[first + i]));
        }
        for (std::uint32_t i = 0; i < count; ++i) {
            if (small_symbol(page.mean[first + i]) == kLynxtEscape) {
                out.put_bits(i, static_cast<std::uint8_t>(page.mean[first + i]), kMeanBits);
            }
        }
    });
    std::vector<std::uint8_t> zero(n);
    for_groups(n, [&](std::uint32_t first, std::uint32_t count) {
        for (std::uint32_t i = 0; i < count; ++i) {
            const std::uint32_t j = first + i;
            if (model_.has_zero_flag(page.classes[j])) {
                const std::int16_t* row = page.index.data() + std::size_t{j} * page.tokens;
                zero[j] = std::all_of(row, row + page.tokens, [&](std::int16_t q) { return cell_of(cuts_, 0, q) == 0; })
                              ? 1
                              : 0;
                out.put_bits(i, zero[j], 1);
            }
        }
    });
    for (std::uint32_t j = 0; j < n; ++j) {
        if (zero[j] != 0) {
            continue;
        }
        const RansTable& table = model_.anchor(page.classes[j]);
        const std::uint32_t raw = model_.anchor_raw_bits(page.classes[j]);
        for_groups(page.tokens, [&](std::uint32_t first, std::uint32_t count) {
            std::array<std::int32_t, kRansLanes> index{};
            for (std::uint32_t i = 0; i < count; ++i) {
                index[i] = cell_of(cuts_, 0, page.index[std::size_t{j} * page.tokens + first + i]);
                out.put(i, table, small_symbol(index[i] >> raw));
            }
            for (std::uint32_t i = 0; raw != 0 && i < count; ++i) {
                out.put_bits(i, static_cast<std::uint32_t>(index[i]) & ((1U << raw) - 1), raw);
            }
            for (std::uint32_t i = 0; i < count; ++i) {
                if (small_symbol(index[i] >> raw) == kLynxtEscape) {
                    put_escape(out, i, index[i] >> raw);
                }
            }
        });
    }
    finish(out, kHeadBytes, bodies[0]);

    for (std::uint32_t tier = 1; tier < kLynxtTiers; ++tier) {
        RansEncoder refine;
        for (std::uint32_t j = 0; j < n; ++j) {
            for (std::uint32_t t = 0; t < page.tokens; ++t) {
                const std::int32_t finest = page.index[std::size_t{j} * page.tokens + t];
                const std::int32_t before = cell_of(cuts_, tier - 1, finest);
                const std::int32_t cell = cell_of(cuts_, tier, finest);
                refine.put(
                    t % kRansLanes, model_.refinement(tier, page.classes[j], before),
                    static_cast<std::uint32_t>((before < 0 ? -cell : cell) - first_refined(cuts_, tier, before)));
            }
        }
        bodies[tier][0] = static_cast<std::byte>(page.centroid[tier]);
        finish(refine, kRefinementHeadBytes, bodies[tier]);
    }
}

Status LynxtStream::read_head(base::ByteView anchor, LynxtPage& page) const {
    base::Reader r(anchor);
    page.step = r.get<std::uint32_t>();
    page.exponent = r.get<std::int8_t>();
    const auto flags = r.get<std::uint8_t>();
    page.class_base = r.get<std::int8_t>();
    page.centroid[0] = r.get<std::uint8_t>();
    if (r.failed()) {
        return corrupt("an anchor shorter than its head");
    }
    if (page.step == 0 || page.step > kLynxtStepMax || page.exponent < kLynxtExponentMin ||
        page.exponent > kLynxtExponentMax || (flags & ~kFlagProfiled) != 0 || page.centroid[0] > kCentroidMask) {
        return corrupt("a field of the anchor's head is out of range");
    }
    page.profiled = flags != 0;
    return {};
}

Status LynxtStream::read(std::span<const base::ByteView> bodies, std::span<const std::uint8_t> predicted,
                         LynxtPage& page) const {
    LYNX_TRY(read_anchor(bodies[0].subspan(kHeadBytes), predicted, page));
    for (std::uint32_t tier = 1; tier < bodies.size(); ++tier) {
        LYNX_TRY(read_refinement(bodies[tier], tier, page));
    }
    return {};
}

Status LynxtStream::read_anchor(base::ByteView body, std::span<const std::uint8_t> predicted, LynxtPage& page) const {
    const std::uint32_t n = page.channels;
    page.classes.assign(n, 0);
    page.mean.assign(n, 0);
    page.index.assign(std::size_t{n} * page.tokens, 0);
    RansDecoder in(body);
    bool valid = true;
    for_groups(n, [&](std::uint32_t first, std::uint32_t count) {
        std::array<std::uint32_t, kRansLanes> symbol{};
        std::array<std::uint32_t, kRansLanes> escaped{};
        for (std::uint32_t i = 0; i < count; ++i) {
            symbol[i] = in.get(i, model_.class_delta());
        }
        for (std::uint32_t i = 0; i < count; ++i) {
            escaped[i] = symbol[i] == kLynxtEscape ? in.get_bits(i, kClassBits) : 0;
        }
        for (std::uint32_t i = 0; i < count; ++i) {
            const std::int32_t c = symbol[i] == kLynxtEscape
                                       ? static_cast<std::int32_t>(escaped[i])
                                       : predicted_class(page, predicted, first + i) + small_value(symbol[i]);
            valid = valid && c >= 0 && c < static_cast<std::int32_t>(kLynxtClasses);
            page.classes[first + i] = static_cast<std::uint8_t>(valid ? c : 0);
        }
    });
    if (!valid) {
        return corrupt("a coefficient's class is out of range");
    }
    for_groups(n, [&](std::uint32_t first, std::uint32_t count) {
        for (std::uint32_t i = 0; i < count; ++i) {
            page.mean[first + i] = static_cast<std::int16_t>(small_value(in.get(i, model_.page_mean())));
        }
        for (std::uint32_t i = 0; i < count; ++i) {
            if (page.mean[first + i] > kLynxtSmall) {
                page.mean[first + i] = static_cast<std::int8_t>(in.get_bits(i, kMeanBits));
            }
        }
    });
    std::vector<std::uint8_t> zero(n);
    for_groups(n, [&](std::uint32_t first, std::uint32_t count) {
        for (std::uint32_t i = 0; i < count; ++i) {
            zero[first + i] =
                static_cast<std::uint8_t>(model_.has_zero_flag(page.classes[first + i]) ? in.get_bits(i, 1) : 0);
        }
    });
    const std::int32_t level_max = cuts_.cell(0, kLynxtLevelMax);
    for (std::uint32_t j = 0; valid && j < n; ++j) {
        if (zero[j] != 0) {
            continue;
        }
        const RansTable& table = model_.anchor(page.classes[j]);
        const std::uint32_t raw = model_.anchor_raw_bits(page.classes[j]);
        std::int16_t* row = page.index.data() + std::size_t{j} * page.tokens;
        for_groups(page.tokens, [&](std::uint32_t first, std::uint32_t count) {
            std::array<std::uint32_t, kRansLanes> symbol{};
            std::array<std::uint32_t, kRansLanes> low{};
            for (std::uint32_t i = 0; i < count; ++i) {
                symbol[i] = in.get(i, table);
            }
            for (std::uint32_t i = 0; raw != 0 && i < count; ++i) {
                low[i] = in.get_bits(i, raw);
            }
            for (std::uint32_t i = 0; i < count; ++i) {
                std::int32_t high = small_value(symbol[i]);
                if (symbol[i] == kLynxtEscape) {
                    const std::optional<std::int32_t> escaped = get_escape(in, i);
                    valid = valid && escaped.has_value();
                    high = escaped.value_or(0);
                }
                const std::int32_t index = high * (1 << raw) + static_cast<std::int32_t>(low[i]);
                valid = valid && index >= -level_max && index <= level_max;
                row[first + i] = static_cast<std::int16_t>(index);
            }
        });
    }
    return valid && in.done() ? Status{}
                              : corrupt("the anchor's symbols: one is out of range, or their stream does not end");
}

Status LynxtStream::read_refinement(base::ByteView body, std::uint32_t tier, LynxtPage& page) const {
    if (body.empty() || static_cast<std::uint8_t>(body[0]) > kCentroidMask) {
        return corrupt("a refinement's head");
    }
    page.centroid[tier] = static_cast<std::uint8_t>(body[0]);
    RansDecoder in(body.subspan(kRefinementHeadBytes));
    for (std::uint32_t j = 0; j < page.channels; ++j) {
        std::int16_t* row = page.index.data() + std::size_t{j} * page.tokens;
        for (std::uint32_t t = 0; t < page.tokens; ++t) {
            const std::int32_t before = row[t];
            const auto symbol =
                static_cast<std::int32_t>(in.get(t % kRansLanes, model_.refinement(tier, page.classes[j], before)));
            const std::int32_t cell = first_refined(cuts_, tier, before) + symbol;
            row[t] = static_cast<std::int16_t>(before < 0 ? -cell : cell);
        }
    }
    return in.done() ? Status{} : corrupt("a refinement's symbols: their stream does not end");
}

}  // namespace lynx::codec
