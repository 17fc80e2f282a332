#include "lynx/calibrate.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/try.h"
#include "calibrate/fit.h"
#include "codec/io/files.h"
#include "codec/profile.h"
#include "node/model.h"

namespace lynx {
namespace {

constexpr std::uint32_t kSinks = 4;             // first tokens of a window: outliers that the codec keeps exact
constexpr std::uint32_t kTokensPerChannel = 4;  // fewer give eigenvectors of noise
constexpr std::uint32_t kWholeBlockMax = 256;   // channels up to which one transform mixes all heads of a layer

// Steps are relative to a matrix's unit. Keys: an error of logits, the same in every layer. Values: a share of what the layer's heads
// put out, smaller in early layers, whose errors pass through all others. Found by trying (docs/lynxt.md).
constexpr double kKeyUnit = 0.54;
constexpr double kValueUnit = 0.52;
constexpr double kValueSlope = 1.6;

std::uint32_t block_of(std::uint32_t channels, std::uint32_t head) {
    return channels <= kWholeBlockMax ? channels : std::min(head, codec::kProfileBlockMax);
}

/// What an error of un-rotated keys costs in attention logits, or of values behind the output projection: [heads, dim, dim]. Rotation
/// turns a pair's error about, so both its channels weigh the mean of the two.
std::vector<double> metric_of(const engine::AttentionWeights& weights, const kv::LayerGeometry& g, bool keys) {
    if (!keys || weights.query_energy.empty()) {
        return keys ? std::vector<double>{} : weights.output_metric;
    }
    const std::uint32_t dim = g.key_dim;
    std::vector<double> metric(std::size_t{g.kv_heads} * dim * dim);
    const std::uint32_t pairs = g.rope.dims / 2;
    for (std::uint32_t h = 0; h < g.kv_heads; ++h) {
        const double* energy = weights.query_energy.data() + std::size_t{h} * dim;
        for (std::uint32_t c = 0; c < dim; ++c) {
            std::uint32_t partner = c;
            if (c < g.rope.dims) {
                partner = g.rope.interleaved ? c ^ 1U : (c < pairs ? c + pairs : c - pairs);
            }
            metric[(std::size_t{h} * dim + c) * dim + c] = (energy[c] + energy[partner]) / (2 * dim);
        }
    }
    return metric;
}

class Calibration {
public:
    Calibration(engine::Engine& engine, const CalibrateOptions& options) : engine_(engine), options_(options) {
        for (const kv::LayerGeometry& g : engine.info().geometry.layers) {
            statistics_.emplace_back(g.channels(kv::Kind::key));
            statistics_.emplace_back(g.channels(kv::Kind::value));
        }
    }

    Status add_text(const std::string& path, std::uint32_t tokens_wanted) {
        LYNX_ASSIGN(const base::Bytes bytes, codec::read_file(path));
        const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        // No token is longer than this many bytes on average; it keeps a huge file from being tokenized whole.
        constexpr std::size_t kBytesPerToken = 16;
        LYNX_ASSIGN(const std::vector<engine::Token> all,
                    engine_.tokenize(text.substr(0, kBytesPerToken * tokens_wanted), false));
        const std::uint32_t window = std::min(options_.window_tokens, engine_.info().context_tokens);
        if (all.size() < tokens_wanted || tokens_wanted < kSinks + 1) {
            return {ErrorCode::invalid_argument, path + ": too short to calibrate on: expected " +
                                                     std::to_string(tokens_wanted) + " tokens, actual " +
                                                     std::to_string(all.size())};
        }
        for (std::uint32_t first = 0; first + kSinks < tokens_wanted; first += window) {
            const std::uint32_t count = std::min(window, tokens_wanted - first);
            LYNX_TRY(add_window(std::span(all).subspan(first, count)));
        }
        return {};
    }

    [[nodiscard]] std::uint64_t tokens() const noexcept { return statistics_.front().tokens(); }

    [[nodiscard]] Result<codec::Profile> fit() const {
        const engine::ModelInfo& info = engine_.info();
        codec::Profile profile;
        profile.model = info.fingerprint;
        profile.calibration_tokens = static_cast<std::uint32_t>(tokens());
        profile.layers = info.geometry.layers;
        const std::vector<engine::AttentionWeights> weights = engine_.attention_weights();
        for (std::size_t i = 0; i < statistics_.size(); ++i) {
            const kv::LayerGeometry& g = profile.layers[i / 2];
            const std::uint32_t block = block_of(statistics_[i].channels(), i % 2 == 0 ? g.key_dim : g.value_dim);
            if (statistics_[i].channels() > codec::kProfileChannelsMax || statistics_[i].channels() % block != 0) {
                return Status{ErrorCode::invalid_argument, "layer " + std::to_string(i / 2) + ": " +
                                                               std::to_string(statistics_[i].channels()) +
                                                               " channels are more than a profile holds"};
            }
            if (tokens() < std::uint64_t{kTokensPerChannel} * block) {
                return Status{ErrorCode::invalid_argument, "too little text to calibrate on: expected " +
                                                               std::to_string(kTokensPerChannel * block) +
                                                               " tokens, actual " + std::to_string(tokens())};
            }
            const std::uint32_t head = i % 2 == 0 ? g.key_dim : g.value_dim;
            profile.matrices.push_back(calibrate::fit_matrix(
                statistics_[i],
                {.block = block,
                 .basis_bits = options_.basis_bits,
                 .head = head,
                 .metric = weights.empty() ? std::vector<double>{} : metric_of(weights[i / 2], g, i % 2 == 0)}));
            if (!weights.empty() && !weights[i / 2].query_energy.empty() && !weights[i / 2].output_metric.empty()) {
                const double depth = (static_cast<double>(i / 2) + 0.5) / static_cast<double>(profile.layers.size());
                float& unit = profile.matrices.back().unit;
                unit = static_cast<float>(
                    i % 2 == 0 ? kKeyUnit : kValueUnit * std::exp(kValueSlope * depth) * static_cast<double>(unit));
            }
        }
        return profile;
    }

private:
    Status add_window(std::span<const engine::Token> tokens) {
        const auto count = static_cast<std::uint32_t>(tokens.size());
        LYNX_TRY(engine_.clear(0));
        for (std::uint32_t done = 0; done < count;) {
            std::vector<engine::Row> rows;
            const std::uint32_t end = std::min(count, done + engine_.info().batch_tokens_max);
            for (; done < end; ++done) {
                rows.push_back({0, tokens[done], done, false});
            }
            LYNX_TRY(engine_.step(rows, nullptr));
        }
        const kv::Paging paging{count, count};
        for (std::uint32_t layer = 0; 2 * layer < statistics_.size(); ++layer) {
            for (const kv::Kind kind : {kv::Kind::key, kv::Kind::value}) {
                LYNX_ASSIGN(const kv::View view, engine_.kv_view(0, layer, kind));
                codec::PageContext context = codec::page_context(engine_.info().geometry, layer, kind, paging, 0);
                context.first_token = kSinks;
                if (count > kSinks) {
                    statistics_[2 * layer + (kind == kv::Kind::key ? 0 : 1)].add(
                        view.slice_tokens(kSinks, count - kSinks), context);
                }
            }
        }
        return {};
    }

    engine::Engine& engine_;
    const CalibrateOptions& options_;
    std::vector<calibrate::Statistics> statistics_;
};

}  // namespace

Result<CalibrateReport> calibrate_profile(const CalibrateOptions& options) {
    if (options.basis_bits < 3 || options.basis_bits > 8) {
        return Status{ErrorCode::invalid_argument,
                      "basis bits: expected 3..8, actual " + std::to_string(options.basis_bits)};
    }
    if (options.text_paths.empty() || options.window_tokens == 0) {
        return Status{ErrorCode::invalid_argument, "calibrate: no text, or windows of no tokens"};
    }
    // The exact mode, since its weights are not repacked and can be read.
    LYNX_ASSIGN(const std::unique_ptr<engine::Engine> engine, node::open_engine(options.model, true));
    engine->watch_attention();
    Calibration calibration(*engine, options);
    const auto texts = static_cast<std::uint32_t>(options.text_paths.size());
    for (const std::string& path : options.text_paths) {
        LYNX_TRY(calibration.add_text(path, options.tokens / texts));
    }
    LYNX_ASSIGN(const codec::Profile profile, calibration.fit());
    const base::Bytes bytes = codec::serialise_profile(profile);
    LYNX_ASSIGN(const codec::Profile written, codec::parse_profile(bytes));
    const std::array<base::ByteView, 1> parts{bytes};
    LYNX_TRY(codec::write_file(options.out_path, parts));
    return CalibrateReport{
        .profile = codec::profile_name(written.hash), .tokens = written.calibration_tokens, .file_bytes = bytes.size()};
}

}  // namespace lynx
