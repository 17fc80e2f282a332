#include "bench/coded_kv.h"

#include <array>

#include "base/try.h"
#include "bench/reference.h"
#include "wire/frame.h"

namespace lynx::bench {

namespace {
constexpr std::array kKinds{kv::Kind::key, kv::Kind::value};
}  // namespace

Result<CodedKv> CodedKv::encode(const codec::Codec& codec, const PromptKv& kv, const kv::Geometry& geometry) {
    CodedKv coded(codec);
    coded.paging_ = {static_cast<std::uint32_t>(kv.prompt.size()), codec.params().page_tokens};
    coded.size_.tier_bytes.assign(codec.info().tiers, 0);
    for (std::uint32_t layer = 0; layer < geometry.layers.size(); ++layer) {
        for (std::size_t k = 0; k < kKinds.size(); ++k) {
            const kv::LayerGeometry& shape = geometry.layers[layer];
            const kv::ConstView source = kv::token_major(kv.planes[2 * layer + k].data(), shape.dtype,
                                                         coded.paging_.tokens, shape.channels(kKinds[k]));
            for (std::uint32_t page = 0; page < coded.paging_.pages(); ++page) {
                const std::uint32_t first = coded.paging_.first_token(page);
                const std::uint32_t count = coded.paging_.tokens_in(page);
                std::vector<base::Bytes>& payloads = coded.pages_.emplace_back(codec.info().tiers);
                const codec::PageContext context = codec::page_context(geometry, layer, kKinds[k], coded.paging_, page);
                LYNX_TRY(codec.encode(source.slice_tokens(first, count), context, payloads));
                for (std::size_t t = 0; t < payloads.size(); ++t) {
                    coded.size_.tier_bytes[t] += payloads[t].size() + wire::kHeaderBytes;
                }
                ++coded.size_.frames_per_tier;
                coded.size_.elements += std::uint64_t{count} * source.channels;
            }
        }
    }
    return coded;
}

Status CodedKv::load(engine::Engine& engine, std::uint8_t tier) const {
    LYNX_TRY(engine.clear(0));
    LYNX_TRY(engine.reserve(0, paging_.tokens));
    auto payloads = pages_.begin();
    for (std::uint32_t layer = 0; layer < engine.info().geometry.layers.size(); ++layer) {
        for (const kv::Kind kind : kKinds) {
            LYNX_ASSIGN(const kv::View target, engine.kv_view(0, layer, kind));
            for (std::uint32_t page = 0; page < paging_.pages(); ++page) {
                const std::vector<base::ByteView> views(payloads->begin(), payloads->begin() + tier + 1);
                ++payloads;
                LYNX_TRY(
                    codec_->decode(views, target.slice_tokens(paging_.first_token(page), paging_.tokens_in(page))));
            }
        }
    }
    return {};
}

}  // namespace lynx::bench
