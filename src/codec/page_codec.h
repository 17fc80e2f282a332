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

    /// Whether other backends can make this codec's payloads: bodies of fixed size, nothing but exact rows in front of them.
    [[nodiscard]] bool plain_bodies() const noexcept { return coder_->fixed_size() && !coder_->carries_context(); }
    [[nodiscard]] std::uint8_t coder_tiers() const noexcept { return coder_->tiers(); }

    /// Checks encode's arguments except the page's elements; the header that all tiers will share.
    [[nodiscard]] Result<PayloadHeader> plan(kv::ConstView page, const PageContext& context, std::size_t outputs) const;
    /// What encode says about a page with a NaN or infinity.
    [[nodiscard]] static Status non_finite(const PageContext& context, std::uint32_t token, std::uint32_t channel);
    /// Checks the header of the payload given as tier `tier`; `anchor` is tier 0's, which is there when tier > 0.
    [[nodiscard]] Status check_header(const PayloadHeader& h, std::size_t tier, const ParsedHeader& anchor) const;
    /// Checks that a page of this header fits `dst`.
    [[nodiscard]] static Status check_destination(const PayloadHeader& h, kv::View dst);

    struct BodyRange {
        std::size_t payload = 0;  ///< tier of the payload it is in
        std::size_t first = 0;    ///< offset from the end of the payload's header
        std::size_t bytes = 0;
    };
    /// Where coder tier `tier`'s body lies. Precondition: plain_bodies(), so that the exact rows lie at offset 0 of tier 0.
    [[nodiscard]] BodyRange body_range(const PayloadHeader& h, std::uint8_t tier) const noexcept;
    /// Most bytes of a payload's body; with plain_bodies() exactly as many.
    [[nodiscard]] std::size_t body_bytes_max(const PayloadHeader& h, std::uint8_t tier) const noexcept;

    /// The symbols of a page's core for `inspect`; the header says which rows the core is. Errors as decode.
    [[nodiscard]] Status inspect(std::span<const base::ByteView> payloads, PageSymbols& out) const;

private:
    struct OpenedPage;

    /// Bytes in front of tier 0's body: context, exact rows, and the lengths that a mono payload of an entropy coder needs.
    [[nodiscard]] std::size_t prefix_bytes(const PayloadHeader& h) const noexcept;
    [[nodiscard]] std::size_t lengths_bytes(const PayloadHeader& h) const noexcept;
    [[nodiscard]] bool body_bytes_valid(const PayloadHeader& h) const noexcept;
    /// Brings payloads to the sizes that their bodies turned out to have.
    void trim(const PayloadHeader& h, std::span<const std::span<std::byte>> bodies, std::span<base::Bytes> out) const;
    /// Finds the tiers' bodies inside bodies[0] of a mono payload.
    [[nodiscard]] Status cut_mono(OpenedPage& page) const;
    /// Parses the payloads, checks that they belong together, and finds the coders' bodies in them.
    [[nodiscard]] Result<OpenedPage> open(std::span<const base::ByteView> payloads) const;

    CodecInfo info_;
    CodecParams params_;
    std::unique_ptr<PageCoder> coder_;
    bool mono_;
};

/// make_codec with the concrete type, for code inside the codec module.
[[nodiscard]] Result<std::unique_ptr<PageCodec>> make_page_codec(std::string_view name, const CodecParams& params,
                                                                 std::string_view backend = {});

/// The registry name behind an id. unsupported_version: a mono flag on a codec that has no such form.
[[nodiscard]] Result<std::string_view> codec_name(CodecId id, bool mono);

}  // namespace lynx::codec
