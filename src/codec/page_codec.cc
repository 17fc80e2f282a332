#include "codec/page_codec.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "base/try.h"
#include "codec/tile.h"

namespace lynx::codec {
namespace {

/// How many of the page's first and last tokens its position makes exact (FORMAT, "Exact rows").
void set_exact_rows(PagePosition position, PayloadHeader& h) noexcept {
    const std::uint64_t first = position.first_token;
    const std::uint64_t end = first + h.tokens;
    const std::uint64_t sinks = h.params.sinks;
    const std::uint64_t sequence = position.sequence_tokens;
    if (sequence == 0) {
        return;
    }
    const std::uint64_t head = first < sinks ? std::min(end, sinks) - first : 0;
    const std::uint64_t recent_begin = sequence > h.params.recent ? sequence - h.params.recent : 0;
    const std::uint64_t tail_begin = std::max(first + head, recent_begin);
    h.exact_head = static_cast<std::uint16_t>(head);
    h.exact_tail = static_cast<std::uint16_t>(end > tail_begin ? end - tail_begin : 0);
}

CoreShape core_shape(const PayloadHeader& h) noexcept { return {h.tokens - h.exact_head - h.exact_tail, h.channels}; }

std::size_t exact_bytes(const PayloadHeader& h) noexcept {
    return (std::size_t{h.exact_head} + h.exact_tail) * h.channels * kv::dtype_bytes(h.dtype);
}

std::size_t head_bytes(const PayloadHeader& h) noexcept {
    return std::size_t{h.exact_head} * h.channels * kv::dtype_bytes(h.dtype);
}

std::string shape_text(std::uint32_t tokens, std::uint32_t channels) {
    std::string text("[");
    text.append(std::to_string(tokens)).append(", ").append(std::to_string(channels)).append("]");
    return text;
}

template <class Span>
using Bodies = std::array<Span, kTiersMax>;

}  // namespace

struct PageCodec::OpenedPage {
    PayloadHeader header;           ///< of tier 0
    base::ByteView exact;           ///< raw rows, head then tail
    Bodies<base::ByteView> bodies;  ///< of the tiers present
    std::size_t tiers = 0;          ///< how many of them
};

PageCodec::PageCodec(CodecInfo info, const CodecParams& params, std::unique_ptr<PageCoder> coder, bool mono)
    : info_(std::move(info)), params_(params), coder_(std::move(coder)), mono_(mono) {
    LYNX_CHECK(coder_->tiers() <= kTiersMax && info_.tiers == (mono ? 1 : coder_->tiers()));
}

std::size_t PageCodec::body_bytes(const PayloadHeader& h, std::uint8_t tier) const noexcept {
    const CoreShape core = core_shape(h);
    std::size_t n = tier == 0 ? exact_bytes(h) : 0;
    if (core.tokens == 0) {
        return n;
    }
    for (std::uint8_t t = 0; t < coder_->tiers(); ++t) {
        n += mono_ || t == tier ? coder_->body_bytes(core, t) : 0;
    }
    return n;
}

std::size_t PageCodec::encoded_bytes_max(std::uint32_t tokens, std::uint32_t channels, kv::DType dtype,
                                         std::uint8_t tier) const noexcept {
    PayloadHeader h{.dtype = dtype, .tokens = tokens, .channels = channels, .params = params_};
    const std::size_t all_core = body_bytes(h, tier);  // never shrinks as the core grows
    if (tier == 0 && coder_->keeps_exact_rows()) {
        const std::uint32_t exact = std::min<std::uint32_t>(tokens, std::uint32_t{params_.sinks} + params_.recent);
        h.exact_head = static_cast<std::uint16_t>(exact);
    }
    return kHeaderBytes + all_core + exact_bytes(h);
}

Result<PayloadHeader> PageCodec::plan(kv::ConstView page, PagePosition position, std::size_t outputs) const {
    if (page.data == nullptr || page.tokens == 0 || page.tokens > params_.page_tokens || page.channels == 0 ||
        page.channels > kv::kChannelsMax) {
        return Status{ErrorCode::invalid_argument,
                      std::string("encode: page shape: expected [1..") + std::to_string(params_.page_tokens) + ", 1.." +
                          std::to_string(kv::kChannelsMax) + "], actual " + shape_text(page.tokens, page.channels)};
    }
    if (outputs != info_.tiers) {
        return Status{ErrorCode::invalid_argument, "encode: outputs: expected " + std::to_string(info_.tiers) +
                                                       ", actual " + std::to_string(outputs)};
    }
    PayloadHeader h{.codec = coder_->id(),
                    .tiers = info_.tiers,
                    .mono = mono_,
                    .dtype = page.dtype,
                    .tokens = page.tokens,
                    .channels = page.channels,
                    .params = params_};
    if (coder_->keeps_exact_rows()) {
        set_exact_rows(position, h);
    }
    for (std::uint8_t t = 0; t < info_.tiers; ++t) {
        if (const std::size_t bytes = kHeaderBytes + body_bytes(h, t); bytes > kPayloadBytesMax) {
            return Status{ErrorCode::invalid_argument, "encode: page " + shape_text(page.tokens, page.channels) +
                                                           ": payload bytes: expected at most " +
                                                           std::to_string(kPayloadBytesMax) + ", actual " +
                                                           std::to_string(bytes)};
        }
    }
    if (const auto bad = find_non_finite(page)) {
        return Status{ErrorCode::invalid_argument,
                      "encode: element at token " + std::to_string(std::uint64_t{position.first_token} + bad->token) +
                          ", channel " + std::to_string(bad->channel) + " is NaN or infinite"};
    }
    return h;
}

Status PageCodec::encode(kv::ConstView page, PagePosition position, std::span<base::Bytes> out) const {
    LYNX_ASSIGN(PayloadHeader h, plan(page, position, out.size()));
    const CoreShape core = core_shape(h);
    Bodies<std::span<std::byte>> bodies;
    std::span<std::byte> rest;
    for (std::uint8_t t = 0; t < coder_->tiers(); ++t) {
        if (t == 0 || !mono_) {
            rest = start_payload(body_bytes(h, t), out[t]);
        }
        if (t == 0) {
            copy_rows_out(page.slice_tokens(0, h.exact_head), rest.data());
            copy_rows_out(page.slice_tokens(page.tokens - h.exact_tail, h.exact_tail), rest.data() + head_bytes(h));
            rest = rest.subspan(exact_bytes(h));
        }
        const std::size_t n = core.tokens == 0 ? 0 : coder_->body_bytes(core, t);
        bodies[t] = rest.first(n);
        rest = rest.subspan(n);
    }
    if (core.tokens > 0) {
        coder_->encode(page.slice_tokens(h.exact_head, core.tokens), std::span(bodies).first(coder_->tiers()));
    }
    for (std::uint8_t t = 0; t < info_.tiers; ++t) {
        h.tier = t;
        h.body_bytes = static_cast<std::uint32_t>(out[t].size() - kHeaderBytes);
        const std::uint32_t crc = seal_payload(h, out[t]);
        h.anchor_crc = t == 0 ? crc : h.anchor_crc;
    }
    return {};
}

Result<PageCodec::OpenedPage> PageCodec::open(std::span<const base::ByteView> payloads) const {
    if (payloads.empty() || payloads.size() > info_.tiers) {
        return Status{ErrorCode::invalid_argument, "decode: payloads: expected 1.." + std::to_string(info_.tiers) +
                                                       ", actual " + std::to_string(payloads.size())};
    }
    OpenedPage page;
    std::uint32_t anchor_crc = 0;
    for (std::size_t t = 0; t < payloads.size(); ++t) {
        Result<ParsedPayload> parsed = parse_payload(payloads[t]);
        if (!parsed.ok()) {
            return parsed.status().with_context("tier " + std::to_string(t));
        }
        PayloadHeader h = parsed.value().header;
        if (h.codec != coder_->id() || h.mono != mono_ || !(h.params == params_)) {
            return Status{ErrorCode::invalid_argument,
                          "decode: the payload was made by another codec or with other parameters than " + info_.name};
        }
        const std::size_t expected = body_bytes(h, h.tier);
        if (h.tiers != info_.tiers || h.tier != t || h.anchor_crc != anchor_crc || h.body_bytes != expected ||
            (!coder_->keeps_exact_rows() && h.exact_head + h.exact_tail != 0)) {
            return Status{ErrorCode::corrupt, "decode: tier " + std::to_string(t) + " of " +
                                                  std::to_string(info_.tiers) + ": header says tier " +
                                                  std::to_string(h.tier) + " of " + std::to_string(h.tiers) +
                                                  ", body " + std::to_string(h.body_bytes) + " bytes, expected " +
                                                  std::to_string(expected) + ", or it belongs to another anchor"};
        }
        base::ByteView body = parsed.value().body;
        if (t == 0) {
            page.header = h;
            page.exact = body.first(exact_bytes(h));
            body = body.subspan(exact_bytes(h));
            anchor_crc = parsed.value().crc;
        } else {
            PayloadHeader same = page.header;
            same.tier = h.tier;
            same.body_bytes = h.body_bytes;
            same.anchor_crc = h.anchor_crc;
            if (!(same == h)) {
                return Status{ErrorCode::corrupt,
                              "decode: tier " + std::to_string(t) + " has another shape than its anchor"};
            }
        }
        page.bodies[t] = body;
    }
    page.tiers = payloads.size();
    if (mono_) {
        base::ByteView rest = page.bodies[0];
        const CoreShape core = core_shape(page.header);
        for (std::uint8_t t = 0; t < coder_->tiers(); ++t) {
            const std::size_t n = core.tokens == 0 ? 0 : coder_->body_bytes(core, t);
            page.bodies[t] = rest.first(n);
            rest = rest.subspan(n);
        }
        page.tiers = coder_->tiers();
    }
    return page;
}

Status PageCodec::decode(std::span<const base::ByteView> payloads, kv::View dst) const {
    LYNX_ASSIGN(const OpenedPage page, open(payloads));
    const PayloadHeader& h = page.header;
    if (dst.data == nullptr || dst.tokens != h.tokens || dst.channels != h.channels || dst.dtype != h.dtype) {
        return {ErrorCode::invalid_argument, "decode: destination " + shape_text(dst.tokens, dst.channels) +
                                                 " does not match the payload's " + shape_text(h.tokens, h.channels) +
                                                 " or its dtype"};
    }
    copy_rows_in(page.exact.data(), dst.slice_tokens(0, h.exact_head));
    copy_rows_in(page.exact.data() + head_bytes(h), dst.slice_tokens(h.tokens - h.exact_tail, h.exact_tail));
    const CoreShape core = core_shape(h);
    if (core.tokens == 0) {
        return {};
    }
    return coder_->decode(std::span(page.bodies).first(page.tiers), dst.slice_tokens(h.exact_head, core.tokens));
}

Status PageCodec::inspect(std::span<const base::ByteView> payloads, PageSymbols& out) const {
    LYNX_ASSIGN(const OpenedPage page, open(payloads));
    const CoreShape core = core_shape(page.header);
    out = {};
    out.core_first = page.header.exact_head;
    return core.tokens == 0 ? Status{} : coder_->symbols(std::span(page.bodies).first(page.tiers), core, out);
}

}  // namespace lynx::codec
