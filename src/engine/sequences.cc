#include "engine/sequences.h"

#include <string>

#include "base/try.h"

namespace lynx::engine {

Status Sequences::check_sequence(SeqId seq) const {
    if (seq < 0 || static_cast<std::uint32_t>(seq) >= limits_.sequences) {
        return {ErrorCode::invalid_argument,
                "sequence: expected 0.." + std::to_string(limits_.sequences - 1) + ", actual " + std::to_string(seq)};
    }
    return {};
}

Status Sequences::check_reserve(SeqId seq, std::uint32_t tokens) const {
    LYNX_TRY(check_sequence(seq));
    if (length(seq) != 0) {
        return {ErrorCode::invalid_argument, "reserve: sequence " + std::to_string(seq) + " is not empty: it holds " +
                                                 std::to_string(length(seq)) + " tokens"};
    }
    if (tokens > limits_.context_tokens) {
        return {ErrorCode::limit_exceeded, "reserve: tokens: expected at most " +
                                               std::to_string(limits_.context_tokens) + ", actual " +
                                               std::to_string(tokens)};
    }
    return {};
}

Status Sequences::check_truncate(SeqId seq, std::uint32_t tokens) const {
    LYNX_TRY(check_sequence(seq));
    if (tokens > length(seq)) {
        return {ErrorCode::invalid_argument, "truncate: sequence " + std::to_string(seq) + ": expected at most " +
                                                 std::to_string(length(seq)) + " tokens, actual " +
                                                 std::to_string(tokens)};
    }
    return {};
}

Status Sequences::check_rows(std::span<const Row> rows) const {
    if (rows.empty()) {
        return {ErrorCode::invalid_argument, "step: no rows"};
    }
    if (rows.size() > limits_.batch_tokens) {
        return {ErrorCode::limit_exceeded, "step: rows: expected at most " + std::to_string(limits_.batch_tokens) +
                                               ", actual " + std::to_string(rows.size())};
    }
    std::vector<std::uint32_t> next = lengths_;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const Row& row = rows[i];
        const std::string where = "step: row " + std::to_string(i);
        if (const Status known = check_sequence(row.seq); !known.ok()) {
            return known.with_context(where);
        }
        if (row.token < 0 || static_cast<std::uint32_t>(row.token) >= limits_.vocabulary) {
            return {ErrorCode::invalid_argument, where + ": token: expected 0.." +
                                                     std::to_string(limits_.vocabulary - 1) + ", actual " +
                                                     std::to_string(row.token)};
        }
        std::uint32_t& expected = next[static_cast<std::size_t>(row.seq)];
        if (row.position != expected) {
            return {ErrorCode::invalid_argument, where + ": position: expected " + std::to_string(expected) +
                                                     ", actual " + std::to_string(row.position)};
        }
        if (row.position >= limits_.context_tokens) {
            return {ErrorCode::limit_exceeded,
                    where + ": the context of " + std::to_string(limits_.context_tokens) + " tokens is full"};
        }
        ++expected;
    }
    return {};
}

void Sequences::append(std::span<const Row> rows) noexcept {
    for (const Row& row : rows) {
        set_length(row.seq, row.position + 1);
    }
}

}  // namespace lynx::engine
