#include "node/kv_row.h"

#include <cstring>

#include "base/check.h"
#include "base/try.h"

namespace lynx::node {
namespace {

/// Calls use(address, width) for each element of the position.
template <class Use>
Status for_each_element(engine::Engine& engine, engine::SeqId seq, std::uint32_t position, Use use) {
    for (std::uint32_t layer = 0; layer < engine.info().geometry.layers.size(); ++layer) {
        for (const kv::Kind kind : {kv::Kind::key, kv::Kind::value}) {
            LYNX_ASSIGN(const kv::View view, engine.kv_view(seq, layer, kind));
            for (std::uint32_t channel = 0; channel < view.channels; ++channel) {
                use(view.at(position, channel), kv::dtype_bytes(view.dtype));
            }
        }
    }
    return {};
}

}  // namespace

Result<KvRow> KvRow::read(engine::Engine& engine, engine::SeqId seq, std::uint32_t position) {
    KvRow row;
    row.position_ = position;
    LYNX_TRY(for_each_element(engine, seq, position, [&](const std::byte* at, std::size_t width) {
        row.bytes_.insert(row.bytes_.end(), at, at + width);
    }));
    return row;
}

Status KvRow::write(engine::Engine& engine, engine::SeqId seq) const {
    std::size_t done = 0;
    LYNX_TRY(for_each_element(engine, seq, position_, [&](std::byte* at, std::size_t width) {
        LYNX_CHECK(done + width <= bytes_.size());
        std::memcpy(at, bytes_.data() + done, width);
        done += width;
    }));
    LYNX_CHECK(done == bytes_.size());
    return {};
}

}  // namespace lynx::node
