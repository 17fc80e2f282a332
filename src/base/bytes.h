// Little-endian reading and writing of untrusted bytes, and the one checksum the formats use (CRC-32, IEEE 802.3, as in
// zlib). A Reader never reads past its span: the first short read makes it fail, and everything after reads as zero.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lynx/status.h"

namespace lynx::base {

static_assert(std::endian::native == std::endian::little, "formats are little-endian and copied as they are");

using Bytes = std::vector<std::byte>;
using ByteView = std::span<const std::byte>;

/// CRC-32 (polynomial 0xEDB88320 reflected, initial and final xor 0xFFFFFFFF), continued from `crc` (0 to start).
[[nodiscard]] std::uint32_t crc32(ByteView bytes, std::uint32_t crc = 0) noexcept;

/// The bytes of a string, not copied.
[[nodiscard]] inline ByteView as_view(std::string_view s) noexcept {
    return std::as_bytes(std::span(s.data(), s.size()));
}

template <class T>
concept Scalar = std::is_arithmetic_v<T> || std::is_enum_v<T>;

/// Appends scalars and blobs to a byte vector.
class Writer {
public:
    explicit Writer(Bytes& out) noexcept : out_(out) {}

    template <Scalar T>
    void put(T value) {
        const std::size_t at = out_.size();
        out_.resize(at + sizeof(T));
        std::memcpy(out_.data() + at, &value, sizeof(T));
    }
    void put_bytes(ByteView bytes) { out_.insert(out_.end(), bytes.begin(), bytes.end()); }
    /// u32 length, then the bytes.
    void put_blob(ByteView bytes) {
        put(static_cast<std::uint32_t>(bytes.size()));
        put_bytes(bytes);
    }

private:
    Bytes& out_;
};

/// Consumes scalars and blobs from a span; check status() once at the end.
class Reader {
public:
    explicit Reader(ByteView in) noexcept : in_(in) {}

    template <Scalar T>
    [[nodiscard]] T get() noexcept {
        T value{};
        if (const ByteView b = take(sizeof(T)); b.size() == sizeof(T)) {
            std::memcpy(&value, b.data(), sizeof(T));
        }
        return value;
    }
    /// The next n bytes, or an empty span and failure.
    [[nodiscard]] ByteView take(std::size_t n) noexcept {
        if (failed_ || n > in_.size() - offset_) {
            failed_ = true;
            return {};
        }
        const ByteView b = in_.subspan(offset_, n);
        offset_ += n;
        return b;
    }
    /// u32 length that must not pass `bytes_max`, then the bytes.
    [[nodiscard]] ByteView get_blob(std::size_t bytes_max) noexcept {
        const auto n = get<std::uint32_t>();
        if (n > bytes_max) {
            failed_ = true;
            return {};
        }
        return take(n);
    }
    [[nodiscard]] std::size_t offset() const noexcept { return offset_; }
    [[nodiscard]] std::size_t remaining() const noexcept { return in_.size() - offset_; }
    [[nodiscard]] bool failed() const noexcept { return failed_; }
    /// ok; or `truncated` naming `what` when a read did not fit.
    [[nodiscard]] Status status(std::string_view what) const;

private:
    ByteView in_;
    std::size_t offset_ = 0;
    bool failed_ = false;
};

}  // namespace lynx::base
