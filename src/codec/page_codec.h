// PageCodec: the public Codec around one PageCoder. It owns what all codecs share: argument checks, headers and checksums,
// the context where a coder carries it, exact rows, and the "mono" form that puts the bodies of all tiers into one payload.
#pragma once

#include <memory>
#include <string>

#include "codec/coder.h"
#include "codec/payload.h"

namespace lynx::codec {

class PageCodec final : public Codec {
public:
    PageCodec(CodecInfo info, const CodecParams& params, std::unique_ptr<PageCoder> coder, bool mono);

    [[nodiscard]] const CodecInfo& info() const noexcept override { return info_; }
    [[nodiscard]] const CodecParams& params() const noexcept override { return params_; }
    [[nodiscard]] std::size_t encoded_bytes_max(std::uint32_t tokens, std::uint32_t channels, kv::DType dtype,
                                                std::uint8_t tier) const noexcept override;
    [[nodiscard]] Status encode(kv::ConstView page, const PageContext& context,
                                std::span<base::Bytes> out) const override;
    [[nodiscard]] Status decode(std::span<const base::ByteView> payloads, kv::View dst) const override;

    [[nodiscard]] CodecId id() const noexcept { return coder_->id(); }
    [[nodiscard]] bool mono() const noexcept { return mono_; }

    /// The symbols of a page's core for `inspect`; the header says which rows the core is. Errors as decode.
    [[nodiscard]] Status inspect(std::span<const base::ByteView> payloads, PageSymbols& out) const;

private:
    struct OpenedPage;

    /// Bytes in front of tier 0's body: context, exact rows, and the lengths that a mono payload of an entropy coder needs.
    [[nodiscard]] std::size_t prefix_bytes(const PayloadHeader& h) const noexcept;
    [[nodiscard]] std::size_t lengths_bytes(const PayloadHeader& h) const noexcept;
    /// Of a payload's body: the most bytes, and whether a body of `bytes` may be one.
    [[nodiscard]] std::size_t body_bytes_max(const PayloadHeader& h, std::uint8_t tier) const noexcept;
    [[nodiscard]] bool body_bytes_valid(const PayloadHeader& h) const noexcept;
    /// Brings payloads to the sizes that their bodies turned out to have.
    void trim(const PayloadHeader& h, std::span<const std::span<std::byte>> bodies, std::span<base::Bytes> out) const;
    /// Finds the tiers' bodies inside bodies[0] of a mono payload.
    [[nodiscard]] Status cut_mono(OpenedPage& page) const;
    /// Checks encode's arguments and the page's elements; the header that all tiers will share.
    [[nodiscard]] Result<PayloadHeader> plan(kv::ConstView page, const PageContext& context, std::size_t outputs) const;
    /// Parses the payloads, checks that they belong together, and finds the coders' bodies in them.
    [[nodiscard]] Result<OpenedPage> open(std::span<const base::ByteView> payloads) const;

    CodecInfo info_;
    CodecParams params_;
    std::unique_ptr<PageCoder> coder_;
    bool mono_;
};

/// make_codec with the concrete type, for code inside the codec module.
[[nodiscard]] Result<std::unique_ptr<PageCodec>> make_page_codec(std::string_view name, const CodecParams& params);

/// The registry name behind an id. unsupported_version: a mono flag on a codec that has no such form.
[[nodiscard]] Result<std::string_view> codec_name(CodecId id, bool mono);

}  // namespace lynx::codec
