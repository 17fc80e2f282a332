// The KV of one position of one sequence, kept while a step computes it anew.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/engine.h"
#include "lynx/status.h"

namespace lynx::node {

/// Inference thread only, between steps.
class KvRow {
public:
    /// Copies position `position` out of the engine. Precondition: the sequence holds it.
    [[nodiscard]] static Result<KvRow> read(engine::Engine& engine, engine::SeqId seq, std::uint32_t position);
    /// Puts it back. Precondition: the sequence holds that position.
    [[nodiscard]] Status write(engine::Engine& engine, engine::SeqId seq) const;

private:
    std::uint32_t position_ = 0;
    std::vector<std::byte> bytes_;  // by layer, K then V, by channel
};

}  // namespace lynx::node
