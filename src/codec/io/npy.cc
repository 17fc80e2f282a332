#include "codec/io/npy.h"

#include <charconv>
#include <optional>

#include "base/try.h"

namespace lynx::codec {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr std::size_t kHeaderTextMax = 4096;
constexpr std::size_t kDimensionsMax = 8;

Status bad(const std::string& what) { return {ErrorCode::invalid_argument, "npy: " + what}; }

/// A parser of the one Python dict literal that numpy writes: {'descr': '<f2', 'fortran_order': False, 'shape': (3, 4), }
class HeaderParser {
public:
    explicit HeaderParser(std::string_view text) noexcept : text_(text) {}

    Status parse() {
        if (!accept('{')) {
            return bad("header is not a dictionary");
        }
        while (!accept('}')) {
            std::string key;
            if (!string(key) || !accept(':')) {
                return bad("header has no key at character " + std::to_string(at_));
            }
            if (!value(key)) {
                return bad("header value of \"" + key + "\" is malformed");
            }
            if (!accept(',') && !peek('}')) {
                return bad("header lacks a comma at character " + std::to_string(at_));
            }
        }
        skip_space();
        if (at_ != text_.size() || !descr || !fortran_order || !shape) {
            return bad("header must hold exactly descr, fortran_order and shape");
        }
        return {};
    }

    std::optional<std::string> descr;
    std::optional<bool> fortran_order;
    std::optional<std::vector<std::uint64_t>> shape;

private:
    void skip_space() noexcept {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) {
            ++at_;
        }
    }
    bool peek(char c) noexcept {
        skip_space();
        return at_ < text_.size() && text_[at_] == c;
    }
    bool accept(char c) noexcept {
        const bool found = peek(c);
        at_ += found ? 1 : 0;
        return found;
    }
    bool word(std::string_view w) noexcept {
        skip_space();
        const bool found = text_.substr(at_).starts_with(w);
        at_ += found ? w.size() : 0;
        return found;
    }
    bool string(std::string& out) {
        if (!accept('\'')) {
            return false;
        }
        const std::size_t end = text_.find('\'', at_);
        if (end == std::string_view::npos) {
            return false;
        }
        out = text_.substr(at_, end - at_);
        at_ = end + 1;
        return true;
    }
    bool value(const std::string& key) {
        if (key == "descr" && !descr) {
            return string(descr.emplace());
        }
        if (key == "fortran_order" && !fortran_order) {
            const bool yes = word("True");
            fortran_order = yes;
            return yes || word("False");
        }
        return key == "shape" && !shape && tuple(shape.emplace());
    }
    bool tuple(std::vector<std::uint64_t>& out) {
        if (!accept('(')) {
            return false;
        }
        while (!accept(')')) {
            skip_space();
            std::uint64_t n = 0;
            const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), n);
            if (error != std::errc{} || out.size() == kDimensionsMax) {
                return false;
            }
            at_ = static_cast<std::size_t>(end - text_.data());
            out.push_back(n);
            if (!accept(',') && !peek(')')) {
                return false;
            }
        }
        return true;
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

std::string shape_text(const std::vector<std::uint64_t>& shape) {
    std::string text("(");
    for (const std::uint64_t n : shape) {
        text.append(text.size() > 1 ? ", " : "").append(std::to_string(n));
    }
    return text.append(")");
}

Result<kv::DType> dtype_of(const std::string& descr) {
    for (const kv::DType dtype : {kv::DType::f16, kv::DType::bf16, kv::DType::f32}) {
        if (descr == npy_descr(dtype) || (dtype == kv::DType::bf16 && descr == "|V2")) {
            return dtype;
        }
    }
    return bad("dtype '" + descr + "': expected float16 '<f2', float32 '<f4' or bfloat16 '<V2'");
}

}  // namespace

std::string_view npy_descr(kv::DType dtype) noexcept {
    switch (dtype) {
        case kv::DType::f16: return "<f2";
        case kv::DType::bf16: return "<V2";
        case kv::DType::f32: break;
    }
    return "<f4";
}

kv::ConstView NpyMatrix::view() const noexcept {
    kv::ConstView v = kv::token_major(data.data(), dtype, tokens, channels);
    if (fortran_order) {
        v.token_stride = 1;
        v.channel_stride = tokens;
    }
    return v;
}

Result<NpyMatrix> parse_npy_matrix(base::ByteView bytes) {
    base::Reader r(bytes);
    const base::ByteView magic = r.take(kMagic.size());
    const auto major = r.get<std::uint8_t>();
    const auto minor = r.get<std::uint8_t>();
    if (r.failed() || std::string_view(reinterpret_cast<const char*>(magic.data()), magic.size()) != kMagic) {
        return bad("not an .npy file");
    }
    if (major < 1 || major > 3 || minor != 0) {
        return bad("version " + std::to_string(major) + "." + std::to_string(minor) + ": expected 1.0 to 3.0");
    }
    const std::size_t length = major == 1 ? r.get<std::uint16_t>() : r.get<std::uint32_t>();
    if (length > kHeaderTextMax) {
        return bad("header of " + std::to_string(length) + " bytes: expected at most " +
                   std::to_string(kHeaderTextMax));
    }
    const base::ByteView text = r.take(length);
    LYNX_TRY(r.status("npy: header"));
    HeaderParser header({reinterpret_cast<const char*>(text.data()), text.size()});
    LYNX_TRY(header.parse());

    NpyMatrix m;
    LYNX_ASSIGN(m.dtype, dtype_of(*header.descr));
    const std::vector<std::uint64_t>& shape = *header.shape;
    if (shape.size() != 2) {
        return bad("shape " + shape_text(shape) + ": expected [tokens, channels]");
    }
    if (shape[0] == 0 || shape[0] > kv::kContextTokensMax || shape[1] == 0 || shape[1] > kv::kChannelsMax) {
        return bad("shape " + shape_text(shape) + ": expected 1.." + std::to_string(kv::kContextTokensMax) +
                   " tokens and 1.." + std::to_string(kv::kChannelsMax) + " channels");
    }
    m.tokens = static_cast<std::uint32_t>(shape[0]);
    m.channels = static_cast<std::uint32_t>(shape[1]);
    m.fortran_order = *header.fortran_order;
    const std::size_t expected = std::size_t{m.tokens} * m.channels * kv::dtype_bytes(m.dtype);
    if (r.remaining() != expected) {
        return Status{r.remaining() < expected ? ErrorCode::truncated : ErrorCode::invalid_argument,
                      "npy: data of shape " + shape_text(shape) + ": expected " + std::to_string(expected) +
                          " bytes, actual " + std::to_string(r.remaining())};
    }
    m.data = r.take(expected);
    return m;
}

std::string npy_header(std::string_view descr, std::span<const std::size_t> shape) {
    constexpr std::size_t kPrefixBytes = 10;
    constexpr std::size_t kAlignment = 64;
    std::string text("{'descr': '");
    text.append(descr).append("', 'fortran_order': False, 'shape': (");
    for (const std::size_t n : shape) {
        text.append(std::to_string(n)).append(shape.size() == 1 ? "," : (&n == &shape.back() ? "" : ", "));
    }
    text.append("), }");
    text.append(kAlignment - (kPrefixBytes + text.size() + 1) % kAlignment, ' ').append("\n");
    std::string out(kMagic);
    out.append({'\x01', '\x00', static_cast<char>(text.size() & 0xFF), static_cast<char>(text.size() >> 8U)});
    return out.append(text);
}

}  // namespace lynx::codec
