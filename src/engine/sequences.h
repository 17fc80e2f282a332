// What every engine must know about its sequences: how long each one is, and whether the rows of a step fit. No KV,
// no model. Not thread-safe; belongs to the inference thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/engine.h"

namespace lynx::engine {

/// Lengths of all sequences, and the rules of the contract that do not depend on a model.
class Sequences {
public:
    struct Limits {
        std::uint32_t sequences = 0;
        std::uint32_t context_tokens = 0;
        std::uint32_t batch_tokens = 0;
        std::uint32_t vocabulary = 0;
    };

    explicit Sequences(const Limits& limits) : limits_(limits), lengths_(limits.sequences, 0) {}

    /// Precondition: check_sequence(seq) is ok.
    [[nodiscard]] std::uint32_t length(SeqId seq) const noexcept { return lengths_[static_cast<std::size_t>(seq)]; }
    void set_length(SeqId seq, std::uint32_t tokens) noexcept { lengths_[static_cast<std::size_t>(seq)] = tokens; }

    /// invalid_argument when there is no such sequence.
    [[nodiscard]] Status check_sequence(SeqId seq) const;
    /// invalid_argument: unknown or not empty; limit_exceeded: longer than the context.
    [[nodiscard]] Status check_reserve(SeqId seq, std::uint32_t tokens) const;
    /// invalid_argument: unknown, or longer than the sequence is.
    [[nodiscard]] Status check_truncate(SeqId seq, std::uint32_t tokens) const;
    /// limit_exceeded: too many rows, or a position past the context; invalid_argument: no rows, unknown sequence or
    /// token, or a position that does not continue its sequence.
    [[nodiscard]] Status check_rows(std::span<const Row> rows) const;

    /// Counts the rows of a step that succeeded. Precondition: check_rows(rows) was ok.
    void append(std::span<const Row> rows) noexcept;

private:
    Limits limits_;
    std::vector<std::uint32_t> lengths_;
};

}  // namespace lynx::engine
