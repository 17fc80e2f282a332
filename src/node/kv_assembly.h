// One request's KV on the decode node, from payloads to engine memory.
//
// Tier 0 is decoded straight into the engine: nothing steps on the sequence before it is complete. Later tiers are decoded into a staging copy,
// layer by layer, and applied by the inference thread between steps or at a layer gate.
// accept() runs on one thread (receive); apply_layer() on another (inference) after layer_staged() said true.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "codec/codec.h"
#include "kv/geometry.h"
#include "kv/view.h"
#include "lynx/status.h"

namespace lynx::node {

/// The engine's memory for one layer, rows = positions.
struct LayerViews {
    kv::View key;
    kv::View value;
};

class KvAssembly {
public:
    /// `views[l]` has at least paging.tokens rows. The codec must outlive the assembly.
    KvAssembly(const codec::Codec& codec, const kv::Geometry& geometry, kv::Paging paging,
               std::vector<LayerViews> views);
    ~KvAssembly();
    KvAssembly(const KvAssembly&) = delete;
    KvAssembly& operator=(const KvAssembly&) = delete;

    /// Takes one page's payload of one tier, in any order. Any error means the request must fail. The key was admitted by the session.
    [[nodiscard]] Status accept(const kv::PageKey& key, base::Bytes payload);

    [[nodiscard]] std::uint8_t tiers() const noexcept { return tiers_; }
    [[nodiscard]] std::uint32_t pages_total() const noexcept { return pages_total_; }  ///< per tier
    [[nodiscard]] std::uint32_t pages_arrived(std::uint8_t tier) const noexcept { return arrived_[tier]; }
    [[nodiscard]] std::uint32_t pages_of_layer_missing(std::uint32_t layer) const noexcept {
        return layers_[layer].missing_full;
    }
    /// Tier 0 of every page is in the engine's memory. Receive thread.
    [[nodiscard]] bool anchor_complete() const noexcept { return decoded_anchor_ == pages_total_; }
    /// Every page of every tier was decoded. Receive thread.
    [[nodiscard]] bool full_complete() const noexcept { return decoded_full_ == pages_total_; }

    /// The best tier of every page of this layer waits in staging (always false for a codec of one tier). Any thread.
    [[nodiscard]] bool layer_staged(std::uint32_t layer) const noexcept;
    /// Copies the layer's staging into the engine. Inference thread, once per layer; precondition: layer_staged.
    void apply_layer(std::uint32_t layer);

private:
    struct PageState {
        std::vector<base::Bytes> payloads;  // by tier; kept until the last tier was decoded
        std::uint8_t present = 0;           // tiers 0..present-1 are there
    };
    struct LayerState {
        std::uint32_t missing_full = 0;     // pages (K and V) whose last tier is not decoded yet
        std::vector<std::byte> staging[2];  // K, V
        bool applied = false;
    };

    [[nodiscard]] kv::View staging_view(std::uint32_t layer, kv::Kind kind);
    [[nodiscard]] Status decode(const kv::PageKey& key, const PageState& page);

    const codec::Codec& codec_;
    kv::Geometry geometry_;
    kv::Paging paging_;
    std::vector<LayerViews> views_;
    std::uint8_t tiers_;
    std::uint32_t pages_total_;
    std::vector<PageState> pages_;  // [layer][kind][page]
    std::vector<LayerState> layers_;
    std::unique_ptr<std::atomic<bool>[]> staged_;
    std::vector<std::uint32_t> arrived_;
    std::uint32_t decoded_anchor_ = 0;
    std::uint32_t decoded_full_ = 0;
};

}  // namespace lynx::node
