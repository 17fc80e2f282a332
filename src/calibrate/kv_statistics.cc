#include "calibrate/kv_statistics.h"

#include <algorithm>

#include "codec/ref/lynxt_rotation.h"
#include "codec/tile.h"

namespace lynx::calibrate {

void Statistics::add(kv::ConstView view, const codec::PageContext& context) {
    const codec::LynxtRotation rotation(context, view.tokens);
    std::vector<float> x(std::size_t{view.tokens} * channels_);
    const auto tile = codec::make_tile(view.tokens);
    for (std::uint32_t k = 0; k < codec::tile_count(channels_); ++k) {
        const codec::ChannelSpan span = codec::tile_span(channels_, k);
        codec::load_tile(view, span, tile.get());
        for (std::uint32_t t = 0; t < view.tokens; ++t) {
            std::copy_n(tile.get() + std::size_t{t} * codec::kTileChannels, span.count,
                        x.begin() + static_cast<std::ptrdiff_t>(std::size_t{t} * channels_ + span.first));
        }
    }
    std::vector<double> row(channels_);
    for (std::uint32_t t = 0; t < view.tokens; ++t) {
        const std::span<float> values = std::span(x).subspan(std::size_t{t} * channels_, channels_);
        rotation.remove(t, values);
        std::copy(values.begin(), values.end(), row.begin());
        for (std::uint32_t a = 0; a < channels_; ++a) {
            sums_[a] += row[a];
            double* products = products_.data() + std::size_t{a} * channels_;
            for (std::uint32_t b = a; b < channels_; ++b) {
                products[b] += row[a] * row[b];
            }
        }
    }
    tokens_ += view.tokens;
}

}  // namespace lynx::calibrate
