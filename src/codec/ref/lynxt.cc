#include "codec/ref/lynxt.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "base/check.h"
#include "base/try.h"
#include "codec/profile.h"
#include "codec/ref/lynxt_stream.h"
#include "codec/ref/lynxt_transform.h"

namespace lynx::codec {
namespace {

/// The finest step over the profile's rms (or the page's own): NMSE of INT8 in groups of 32 (docs/lynxt.md).
constexpr float kDefaultStep = 0.018F;
constexpr double kRootOfTwo = 0x1.6a09e667f3bcdp0;
/// (sigma / step)^2 between classes 0 and 1: 2^(-3.5 / 2).
constexpr double kFirstClassBound = 0x1.306fe0a31b715p-2;

LynxtCuts cuts_of(std::uint8_t cuts) noexcept {
    LynxtCuts c;
    if (cuts != 0) {
        c.shift[0] = cuts & 15U;
        c.shift[1] = cuts >> 4U;
    }
    return c;
}

/// Inverses of a profile's matrices, made when a page first needs one. Thread-safe.
class Inverses {
public:
    explicit Inverses(std::size_t count) : slots_(count) {}
    const std::vector<float>& get(std::size_t i, const ProfileMatrix& matrix) const {
        Slot& slot = slots_[i];
        std::call_once(slot.once, [&] { slot.inverse = invert_basis(matrix); });
        return slot.inverse;
    }

private:
    struct Slot {
        std::once_flag once;
        std::vector<float> inverse;
    };
    mutable std::vector<Slot> slots_;
};

std::uint8_t class_of(double variance, double step) noexcept {
    const double ratio = variance / (step * step);
    std::uint8_t c = 0;
    for (double bound = kFirstClassBound; c + 1U < kLynxtClasses && ratio > bound; bound *= kRootOfTwo) {
        ++c;
    }
    return c;
}

class Lynxt final : public PageCoder {
public:
    explicit Lynxt(const CodecParams& params)
        : step_(params.step == 0 ? kDefaultStep : params.step),
          stream_(cuts_of(params.cuts)),
          profile_(params.profile == 0 ? nullptr : find_profile(params.profile)),
          inverses_(profile_ == nullptr ? 0 : profile_->matrices.size()) {
        LYNX_CHECK(params.profile == 0 || profile_ != nullptr);
    }

    [[nodiscard]] CodecId id() const noexcept override { return CodecId::lynxt; }
    [[nodiscard]] std::uint8_t tiers() const noexcept override { return kLynxtTiers; }
    [[nodiscard]] bool keeps_exact_rows() const noexcept override { return true; }
    [[nodiscard]] bool carries_context() const noexcept override { return true; }
    [[nodiscard]] bool fixed_size() const noexcept override { return false; }
    [[nodiscard]] std::size_t body_bytes_max(CoreShape s, std::uint8_t tier) const noexcept override {
        return stream_.body_bytes_max(s.tokens, s.channels, tier);
    }

    void encode(kv::ConstView core, const PageContext& context, std::span<std::span<std::byte>> bodies) const override {
        const LynxtRotation rotation(context, core.tokens);
        static const std::vector<float> kNone;
        const ProfileMatrix* matrix = matrix_of(context, core.channels);
        const std::vector<float>* inverse = matrix == nullptr ? &kNone : &inverses_.get(slot_of(context), *matrix);
        matrix = inverse->empty() ? nullptr : matrix;
        LynxtCoefficients coefficients = lynxt_forward(core, rotation, matrix, *inverse);
        LynxtPage page{.tokens = core.tokens, .channels = core.channels, .profiled = matrix != nullptr};
        page.exponent = static_cast<std::int8_t>(coefficients.exponent);
        quantise(coefficients, matrix, page);
        set_classes(coefficients, matrix, page);
        set_centroids(coefficients, page);
        stream_.write(page, predicted_of(matrix), bodies);
    }

    [[nodiscard]] Status decode(std::span<const base::ByteView> bodies, const PageContext& context,
                                kv::View dst) const override {
        LynxtPage page{.tokens = dst.tokens, .channels = dst.channels};
        const ProfileMatrix* matrix = nullptr;
        LYNX_TRY(read_page(bodies, context, page, matrix));
        lynxt_restore(page, static_cast<std::uint32_t>(bodies.size()) - 1, stream_.cuts(),
                      LynxtRotation(context, dst.tokens), matrix, dst);
        return {};
    }

    [[nodiscard]] Status symbols(std::span<const base::ByteView> /*bodies*/, CoreShape /*shape*/,
                                 PageSymbols& /*out*/) const override {
        return {};  // none of the kinds that inspect shows
    }

private:
    [[nodiscard]] static std::size_t slot_of(const PageContext& context) noexcept {
        return 2U * context.layer + (context.kind == kv::Kind::key ? 0U : 1U);
    }
    [[nodiscard]] const ProfileMatrix* matrix_of(const PageContext& context, std::uint32_t channels) const noexcept {
        return profile_ == nullptr ? nullptr : profile_->find(context.layer, context.kind, channels);
    }
    [[nodiscard]] static std::span<const std::uint8_t> predicted_of(const ProfileMatrix* matrix) noexcept {
        return matrix == nullptr ? std::span<const std::uint8_t>{} : std::span(matrix->sigma_class);
    }

    [[nodiscard]] Status read_page(std::span<const base::ByteView> bodies, const PageContext& context, LynxtPage& page,
                                   const ProfileMatrix*& matrix) const {
        LYNX_TRY(stream_.read_head(bodies[0], page));
        matrix = page.profiled ? matrix_of(context, page.channels) : nullptr;
        if (page.profiled && matrix == nullptr) {
            return {ErrorCode::corrupt, "lynxt: the payload's profile has no such layer, kind and width"};
        }
        return stream_.read(bodies, predicted_of(matrix), page);
    }

    /// Chooses step and page mean, takes the mean off `c`, and fills the finest indices.
    void quantise(LynxtCoefficients& c, const ProfileMatrix* matrix, LynxtPage& page) const;
    static void set_classes(const LynxtCoefficients& c, const ProfileMatrix* matrix, LynxtPage& page);
    void set_centroids(const LynxtCoefficients& c, LynxtPage& page) const;

    float step_;
    LynxtStream stream_;
    std::shared_ptr<const Profile> profile_;
    Inverses inverses_;
};

void Lynxt::quantise(LynxtCoefficients& c, const ProfileMatrix* matrix, LynxtPage& page) const {
    const std::uint32_t channels = page.channels;
    const double tokens = page.tokens;
    std::vector<double> mean(channels);
    for (std::uint32_t t = 0; t < page.tokens; ++t) {
        for (std::uint32_t j = 0; j < channels; ++j) {
            mean[j] += static_cast<double>(c.y[std::size_t{t} * channels + j]);
        }
    }
    double squares = 0;
    for (std::uint32_t t = 0; t < page.tokens; ++t) {
        for (std::uint32_t j = 0; j < channels; ++j) {
            const double y = static_cast<double>(c.y[std::size_t{t} * channels + j]) - mean[j] / tokens;
            squares += y * y;
        }
    }
    const double rms = matrix == nullptr ? std::sqrt(squares / (tokens * channels))
                                         : std::ldexp(static_cast<double>(matrix->unit), -c.exponent);
    double step = std::clamp(std::floor(static_cast<double>(step_) * rms + 0.5), 1.0, double{kLynxtStepMax});
    // Indices must fit: a page with elements far beyond its rms gets a coarser step.
    page.mean.resize(channels);
    while (true) {
        const double half = 0.5 * step * (1U << stream_.cuts().shift[0]);
        double largest = 0;
        for (std::uint32_t j = 0; j < channels; ++j) {
            const double m = std::clamp(std::floor(mean[j] / tokens / half + 0.5), -128.0, 127.0);
            page.mean[j] = static_cast<std::int16_t>(m);
            for (std::uint32_t t = 0; t < page.tokens; ++t) {
                largest =
                    std::max(largest, std::abs(static_cast<double>(c.y[std::size_t{t} * channels + j]) - m * half));
            }
        }
        if (largest < step * (kLynxtLevelMax + 1) || step == double{kLynxtStepMax}) {
            break;
        }
        step = std::min(std::max(std::ceil(largest / kLynxtLevelMax), step + 1), double{kLynxtStepMax});
    }
    page.step = static_cast<std::uint32_t>(step);
    const double half = 0.5 * step * (1U << stream_.cuts().shift[0]);
    page.index.resize(c.y.size());
    for (std::uint32_t t = 0; t < page.tokens; ++t) {
        for (std::uint32_t j = 0; j < channels; ++j) {
            float& y = c.y[std::size_t{t} * channels + j];
            y = static_cast<float>(static_cast<double>(y) - page.mean[j] * half);
            const double magnitude = std::min(std::abs(static_cast<double>(y)) / step, double{kLynxtLevelMax});
            const auto index = static_cast<std::int16_t>(magnitude);
            page.index[std::size_t{j} * page.tokens + t] = static_cast<std::int16_t>(y < 0 ? -index : index);
        }
    }
}

void Lynxt::set_classes(const LynxtCoefficients& c, const ProfileMatrix* matrix, LynxtPage& page) {
    const std::uint32_t channels = page.channels;
    std::vector<double> squares(channels);
    for (std::uint32_t t = 0; t < page.tokens; ++t) {
        for (std::uint32_t j = 0; j < channels; ++j) {
            const auto y = static_cast<double>(c.y[std::size_t{t} * channels + j]);
            squares[j] += y * y;
        }
    }
    page.classes.resize(channels);
    std::int32_t difference = 0;
    for (std::uint32_t j = 0; j < channels; ++j) {
        page.classes[j] = class_of(squares[j] / page.tokens, page.step);
        difference += page.classes[j] - (matrix == nullptr ? 0 : std::int32_t{matrix->sigma_class[j]} - 128);
    }
    const std::int32_t base = matrix == nullptr ? page.classes[0] : difference / static_cast<std::int32_t>(channels);
    page.class_base = static_cast<std::int8_t>(std::clamp(base, -128, 127));
}

void Lynxt::set_centroids(const LynxtCoefficients& c, LynxtPage& page) const {
    for (std::uint32_t tier = 0; tier < kLynxtTiers; ++tier) {
        const LynxtCuts cuts = stream_.cuts();
        double sum[2] = {};
        double count[2] = {};
        for (std::uint32_t t = 0; t < page.tokens; ++t) {
            for (std::uint32_t j = 0; j < page.channels; ++j) {
                const std::int32_t cell = cuts.cell(tier, std::abs(page.index[std::size_t{j} * page.tokens + t]));
                if (cell != 0) {
                    const std::size_t kind = cell == 1 ? 0 : 1;
                    const std::int32_t low = cuts.lower(tier, cell);
                    const std::int32_t width = cuts.lower(tier, cell + 1) - low;
                    const double magnitude =
                        std::abs(static_cast<double>(c.y[std::size_t{t} * page.channels + j])) / page.step;
                    sum[kind] += (magnitude - low) / width;
                    count[kind] += 1;
                }
            }
        }
        std::uint8_t packed = 0;
        for (std::size_t kind = 0; kind < 2; ++kind) {
            const double inside = count[kind] == 0 ? 0.5 : sum[kind] / count[kind];
            const double eighths = std::clamp(std::floor(8 * inside + 0.5), 0.0, 7.0);
            packed = static_cast<std::uint8_t>(packed | static_cast<unsigned>(eighths) << (3 * kind));
        }
        page.centroid[tier] = packed;
    }
}

}  // namespace

bool lynxt_cuts_valid(std::uint8_t cuts) noexcept { return cuts_of(cuts).valid(); }

std::unique_ptr<PageCoder> make_lynxt(const CodecParams& params) { return std::make_unique<Lynxt>(params); }

}  // namespace lynx::codec
