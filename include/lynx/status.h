// Status and Result: how every fallible call of the library reports failure.
//
// Errors caused by bytes, files, peers and limits travel as values; a broken invariant aborts through LYNX_CHECK
// (src/base/check.h). "Not ready yet" is never an error: it is an empty optional.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace lynx {

/// The only error codes of the library. Their numbers appear on the wire (docs/format/WIRE.md) and never change.
enum class ErrorCode : std::uint8_t {
    ok = 0,
    truncated = 1,            ///< the bytes end before the structure does
    corrupt = 2,              ///< a checksum, field or relation between fields is wrong
    unsupported_version = 3,  ///< written by a version or codec this build does not know
    invalid_argument = 4,     ///< the caller (user, peer, configuration) asked for something impossible
    limit_exceeded = 5,       ///< a named maximum would be passed
    io = 6,                   ///< the operating system refused
    peer_lost = 7,            ///< the other node closed, died or fell silent
    timeout = 8,              ///< a stated deadline passed
    cancelled = 9,            ///< the request was aborted on purpose
    unauthenticated = 10,     ///< the peer did not prove who it is
};

/// The snake_case name of a code, as logs and JSON show it.
[[nodiscard]] std::string_view to_string(ErrorCode code) noexcept;

/// Success, or a code with a one-line message that carries offset, expected and actual where they exist.
class [[nodiscard]] Status {
public:
    Status() noexcept = default;
    Status(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

    [[nodiscard]] bool ok() const noexcept { return code_ == ErrorCode::ok; }
    [[nodiscard]] ErrorCode code() const noexcept { return code_; }
    [[nodiscard]] const std::string& message() const noexcept { return message_; }

    /// "corrupt: payload checksum at offset 12: expected 0x1, actual 0x2", or "ok".
    [[nodiscard]] std::string to_string() const;

    /// The same code with `context` and ": " put before the message; ok stays ok.
    [[nodiscard]] Status with_context(std::string_view context) const;

private:
    ErrorCode code_ = ErrorCode::ok;
    std::string message_;
};

/// A T, or the Status that says why there is none.
template <class T>
class [[nodiscard]] Result {
public:
    Result(T value) : value_(std::move(value)) {}          // NOLINT(google-explicit-constructor)
    Result(Status status) : status_(std::move(status)) {}  // NOLINT(google-explicit-constructor)

    [[nodiscard]] bool ok() const noexcept { return value_.has_value(); }
    [[nodiscard]] const Status& status() const noexcept { return status_; }

    /// Precondition: ok().
    [[nodiscard]] T& value() & { return *value_; }
    [[nodiscard]] const T& value() const& { return *value_; }
    [[nodiscard]] T&& value() && { return *std::move(value_); }

private:
    std::optional<T> value_;
    Status status_;
};

}  // namespace lynx
