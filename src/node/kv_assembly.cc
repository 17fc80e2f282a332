#include "node/kv_assembly.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/check.h"
#include "base/try.h"

namespace lynx::node {

namespace {

std::size_t index_of(kv::Kind kind) { return kind == kv::Kind::key ? 0 : 1; }

/// Copies rows between two views of equal shape whose strides have the same orientation, in long runs.
void copy_view(kv::ConstView from, kv::View to) {
    const std::size_t width = kv::dtype_bytes(to.dtype);
    if (to.channel_stride == 1) {
        for (std::uint32_t t = 0; t < to.tokens; ++t) {
            std::memcpy(to.at(t, 0), from.at(t, 0), width * to.channels);
        }
    } else {
        for (std::uint32_t c = 0; c < to.channels; ++c) {
            std::memcpy(to.at(0, c), from.at(0, c), width * to.tokens);
        }
    }
}

}  // namespace

KvAssembly::KvAssembly(const codec::Codec& codec, const kv::Geometry& geometry, kv::Paging paging,
                       std::vector<LayerViews> views)
    : codec_(codec), geometry_(geometry), paging_(paging), views_(std::move(views)), tiers_(codec.info().tiers) {
    const auto layers = static_cast<std::uint32_t>(geometry_.layers.size());
    LYNX_CHECK(views_.size() == layers);
    for (const LayerViews& v : views_) {
        for (const kv::View& view : {v.key, v.value}) {
            LYNX_CHECK(view.tokens >= paging_.tokens && (view.channel_stride == 1 || view.token_stride == 1));
        }
    }
    pages_total_ = layers * 2 * paging_.pages();
    pages_.resize(pages_total_);
    layers_.resize(layers);
    staged_ = std::make_unique<std::atomic<bool>[]>(layers);
    for (LayerState& layer : layers_) {
        layer.missing_full = 2 * paging_.pages();
    }
    arrived_.assign(tiers_, 0);
}

KvAssembly::~KvAssembly() = default;

kv::View KvAssembly::staging_view(std::uint32_t layer, kv::Kind kind) {
    // The same orientation as the engine's memory, so that applying is a plain copy.
    const kv::View engine = kind == kv::Kind::key ? views_[layer].key : views_[layer].value;
    std::vector<std::byte>& memory = layers_[layer].staging[index_of(kind)];
    if (memory.empty()) {
        memory.resize(std::size_t{paging_.tokens} * engine.channels * kv::dtype_bytes(engine.dtype));
    }
    kv::View v = engine;
    v.data = memory.data();
    v.tokens = paging_.tokens;
    v.token_stride = engine.channel_stride == 1 ? static_cast<std::ptrdiff_t>(engine.channels) : 1;
    v.channel_stride = engine.channel_stride == 1 ? 1 : static_cast<std::ptrdiff_t>(paging_.tokens);
    return v;
}

Status KvAssembly::decode(const kv::PageKey& key, const PageState& page) {
    const std::uint8_t tier = page.present - 1;
    kv::View target = key.kind == kv::Kind::key ? views_[key.layer].key : views_[key.layer].value;
    if (tier > 0) {
        target = staging_view(key.layer, key.kind);
    }
    std::vector<base::ByteView> payloads(page.payloads.begin(), page.payloads.begin() + page.present);
    const Status status = codec_.decode(payloads, target.slice_tokens(key.first_token, paging_.tokens_in(key.page)));
    if (!status.ok()) {
        return status.with_context("page " + std::to_string(key.page) + " of layer " + std::to_string(key.layer) +
                                   (key.kind == kv::Kind::key ? " K" : " V") + ", tier " + std::to_string(tier));
    }
    return {};
}

Status KvAssembly::accept(const kv::PageKey& key, base::Bytes payload) {
    LYNX_CHECK(key.tier < tiers_ && key.layer < layers_.size() && key.page < paging_.pages() &&
               key.kind != kv::Kind::latent);
    PageState& page = pages_[(key.layer * 2 + index_of(key.kind)) * paging_.pages() + key.page];
    page.payloads.resize(tiers_);
    LYNX_CHECK(page.payloads[key.tier].empty());
    page.payloads[key.tier] = std::move(payload);
    ++arrived_[key.tier];

    // Tiers may arrive out of order on two lanes: decode at the highest tier that is complete from below.
    const std::uint8_t before = page.present;
    while (page.present < tiers_ && !page.payloads[page.present].empty()) {
        ++page.present;
    }
    if (page.present == before) {
        return {};
    }
    if (before == 0) {
        // The anchor goes into the engine even when a later tier came first, since drafting starts on it.
        const std::uint8_t reached = page.present;
        page.present = 1;
        LYNX_TRY(decode(key, page));
        page.present = reached;
        ++decoded_anchor_;
    }
    if (page.present == tiers_) {
        if (tiers_ > 1) {
            LYNX_TRY(decode(key, page));
        }
        page.payloads.clear();
        page.payloads.shrink_to_fit();
        ++decoded_full_;
        LayerState& layer = layers_[key.layer];
        if (--layer.missing_full == 0 && tiers_ > 1) {
            staged_[key.layer].store(true, std::memory_order_release);
        }
    }
    return {};
}

bool KvAssembly::layer_staged(std::uint32_t layer) const noexcept {
    return staged_[layer].load(std::memory_order_acquire);
}

void KvAssembly::apply_layer(std::uint32_t layer) {
    LayerState& state = layers_[layer];
    LYNX_CHECK(layer_staged(layer) && !state.applied);
    for (const kv::Kind kind : {kv::Kind::key, kv::Kind::value}) {
        const kv::View engine = kind == kv::Kind::key ? views_[layer].key : views_[layer].value;
        copy_view(staging_view(layer, kind), engine.slice_tokens(0, paging_.tokens));
        std::vector<std::byte>().swap(state.staging[index_of(kind)]);
    }
    state.applied = true;
}

}  // namespace lynx::node
