#include "codec/page_codec.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "base/try.h"
#include "codec/context.h"
#include "codec/tile.h"

namespace lynx::codec {
namespace {

/// How many of the page's first and last tokens its context makes exact (FORMAT, "Exact rows").
void set_exact_rows(const PageContext& context, ExactTokens exact, PayloadHeader& h) noexcept {
    const std::uint64_t first = context.first_token;
    const std::uint64_t end = first + h.tokens;
    const std::uint64_t sinks = exact.sinks;
    const std::uint64_t sequence = context.sequence_tokens;
    if (sequence == 0) {
        return;
    }
    const std::uint64_t head = first < sinks ? std::min(end, sinks) - first : 0;
    const std::uint64_t recent_begin = sequence > exact.recent ? sequence - exact.recent : 0;
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

constexpr std::size_t kLengthBytes = 4;  // of a tier's body inside a mono payload

std::string shape_text(std::uint32_t tokens, std::uint32_t channels) {
    std::string text("[");
    text.append(std::to_string(tokens)).append(", ").append(std::to_string(channels)).append("]");
    return text;
}

/// Precondition: there is one.
Status name_non_finite(kv::ConstView page, const PageContext& context) {
    const std::optional<ElementIndex> bad = find_non_finite(page);
    LYNX_CHECK(bad.has_value());
    return PageCodec::non_finite(context, bad->token, bad->channel);
}

/// parse_payload that takes the checksum at its word.
Result<ParsedPayload> parse_unverified(base::ByteView bytes) {
    const auto claimed = [&bytes](std::uint32_t /*of_header*/) {
        std::uint32_t crc = 0;
        std::memcpy(&crc, bytes.data() + kHeaderCrcOffset, sizeof crc);
        return crc;
    };
    LYNX_ASSIGN(const ParsedHeader p, parse_header(bytes, bytes.size(), claimed));
    return ParsedPayload{p.header, p.crc, bytes.subspan(kHeaderBytes)};
}

template <class Span>
using Bodies = std::array<Span, kTiersMax>;

}  // namespace

bool PageCoder::encode_checked(kv::ConstView core, const PageContext& context,
                               std::span<std::span<std::byte>> bodies) const {
    if (find_non_finite(core)) {
        return false;
    }
    encode(core, context, bodies);
    return true;
}

struct PageCodec::OpenedPage {
    PayloadHeader header;           ///< of tier 0
    PageContext context;            ///< of the core, where the coder carries one
    base::ByteView exact;           ///< raw rows, head then tail
    Bodies<base::ByteView> bodies;  ///< of the tiers present
    std::size_t tiers = 0;          ///< how many of them
};

PageCodec::PageCodec(CodecInfo info, const CodecParams& params, std::unique_ptr<PageCoder> coder, bool mono)
    : info_(std::move(info)), params_(params), coder_(std::move(coder)), mono_(mono) {
    LYNX_CHECK(coder_->tiers() <= kTiersMax && info_.tiers == (mono ? 1 : coder_->tiers()));
}

std::size_t PageCodec::lengths_bytes(const PayloadHeader& h) const noexcept {
    const bool needed = mono_ && !coder_->fixed_size() && core_shape(h).tokens > 0;
    return needed ? (coder_->tiers() - std::size_t{1}) * kLengthBytes : 0;
}

std::size_t PageCodec::prefix_bytes(const PayloadHeader& h) const noexcept {
    return (coder_->carries_context() ? kContextBytes : 0) + exact_bytes(h) + lengths_bytes(h);
}

std::size_t PageCodec::body_bytes_max(const PayloadHeader& h, std::uint8_t tier) const noexcept {
    const CoreShape core = core_shape(h);
    std::size_t n = tier == 0 ? prefix_bytes(h) : 0;
    if (core.tokens == 0) {
        return n;
    }
    for (std::uint8_t t = 0; t < coder_->tiers(); ++t) {
        n += mono_ || t == tier ? coder_->body_bytes_max(core, t) : 0;
    }
    return n;
}

bool PageCodec::body_bytes_valid(const PayloadHeader& h) const noexcept {
    const std::size_t max = body_bytes_max(h, h.tier);
    const bool fixed = coder_->fixed_size() || core_shape(h).tokens == 0;
    const std::size_t min = fixed ? max : (h.tier == 0 ? prefix_bytes(h) : 0);
    return h.body_bytes >= min && h.body_bytes <= max;
}

std::size_t PageCodec::encoded_bytes_max(std::uint32_t tokens, std::uint32_t channels, kv::DType dtype,
                                         std::uint8_t tier) const noexcept {
    PayloadHeader h{.dtype = dtype, .tokens = tokens, .channels = channels, .params = params_};
    const std::size_t all_core = body_bytes_max(h, tier);  // never shrinks as the core grows
    if (tier == 0 && coder_->keeps_exact_rows()) {
        const ExactTokens exact = coder_->exact_tokens(params_, {});
        const std::uint32_t rows = std::min<std::uint32_t>(tokens, std::uint32_t{exact.sinks} + exact.recent);
        h.exact_head = static_cast<std::uint16_t>(rows);
    }
    return kHeaderBytes + all_core + exact_bytes(h);
}

Result<PayloadHeader> PageCodec::plan(kv::ConstView page, const PageContext& context, std::size_t outputs) const {
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
        set_exact_rows(context, coder_->exact_tokens(params_, context), h);
    }
    if (const Status s = validate_context(context, page.channels); coder_->carries_context() && !s.ok()) {
        return Status{ErrorCode::invalid_argument, "encode: " + s.message()};
    }
    for (std::uint8_t t = 0; t < info_.tiers; ++t) {
        if (const std::size_t bytes = kHeaderBytes + body_bytes_max(h, t); bytes > kPayloadBytesMax) {
            return Status{ErrorCode::invalid_argument, "encode: page " + shape_text(page.tokens, page.channels) +
                                                           ": payload bytes: expected at most " +
                                                           std::to_string(kPayloadBytesMax) + ", actual " +
                                                           std::to_string(bytes)};
        }
    }
    return h;
}

Status PageCodec::non_finite(const PageContext& context, std::uint32_t token, std::uint32_t channel) {
    return {ErrorCode::invalid_argument, "encode: element at token " +
                                             std::to_string(std::uint64_t{context.first_token} + token) + ", channel " +
                                             std::to_string(channel) + " is NaN or infinite"};
}

Status PageCodec::encode(kv::ConstView page, const PageContext& context, std::span<base::Bytes> out) const {
    LYNX_ASSIGN(PayloadHeader h, plan(page, context, out.size()));
    const CoreShape core = core_shape(h);
    Bodies<std::span<std::byte>> bodies;
    std::span<std::byte> rest;
    for (std::uint8_t t = 0; t < coder_->tiers(); ++t) {
        if (t == 0 || !mono_) {
            rest = start_payload(body_bytes_max(h, t), out[t]);
        }
        if (t == 0) {
            std::byte* exact = rest.data();
            if (coder_->carries_context()) {
                write_context(context, std::span<std::byte, kContextBytes>(exact, kContextBytes));
                exact += kContextBytes;
            }
            const kv::ConstView head = page.slice_tokens(0, h.exact_head);
            const kv::ConstView tail = page.slice_tokens(page.tokens - h.exact_tail, h.exact_tail);
            if (!coder_->exact() && (find_non_finite(head) || find_non_finite(tail))) {
                return name_non_finite(page, context);
            }
            copy_rows_out(head, exact);
            copy_rows_out(tail, exact + head_bytes(h));
            rest = rest.subspan(prefix_bytes(h));
        }
        const std::size_t n = core.tokens == 0 ? 0 : coder_->body_bytes_max(core, t);
        bodies[t] = rest.first(n);
        rest = rest.subspan(n);
    }
    if (core.tokens > 0) {
        PageContext of_core = context;
        of_core.first_token += h.exact_head;
        const std::span used = std::span(bodies).first(coder_->tiers());
        if (!coder_->encode_checked(page.slice_tokens(h.exact_head, core.tokens), of_core, used)) {
            return name_non_finite(page, context);
        }
        if (!coder_->fixed_size()) {
            trim(h, used, out);
        }
    }
    for (std::uint8_t t = 0; t < info_.tiers; ++t) {
        h.tier = t;
        h.body_bytes = static_cast<std::uint32_t>(out[t].size() - kHeaderBytes);
        const std::uint32_t crc = seal_payload(h, out[t]);
        h.anchor_crc = t == 0 ? crc : h.anchor_crc;
    }
    return {};
}

void PageCodec::trim(const PayloadHeader& h, std::span<const std::span<std::byte>> bodies,
                     std::span<base::Bytes> out) const {
    std::byte* end = bodies[0].data();
    std::byte* length = end - lengths_bytes(h);
    for (std::uint8_t t = 0; t < coder_->tiers(); ++t) {
        if (!mono_) {
            end = bodies[t].data();
        }
        std::memmove(end, bodies[t].data(), bodies[t].size());
        end += bodies[t].size();
        if (mono_ && t + 1 < coder_->tiers()) {
            const auto bytes = static_cast<std::uint32_t>(bodies[t].size());
            std::memcpy(length, &bytes, sizeof bytes);
            length += sizeof bytes;
        }
        base::Bytes& payload = out[mono_ ? 0 : t];
        if (!mono_ || t + 1 == coder_->tiers()) {
            payload.resize(static_cast<std::size_t>(end - payload.data()));
        }
    }
}

Status PageCodec::check_header(const PayloadHeader& h, std::size_t tier, const ParsedHeader& anchor) const {
    if (h.codec != coder_->id() || h.mono != mono_ || !(h.params == params_)) {
        return {ErrorCode::invalid_argument,
                "decode: the payload was made by another codec or with other parameters than " + info_.name};
    }
    if (h.tiers != info_.tiers || h.tier != tier || h.anchor_crc != anchor.crc || !body_bytes_valid(h) ||
        (!coder_->keeps_exact_rows() && h.exact_head + h.exact_tail != 0)) {
        return {ErrorCode::corrupt, "decode: tier " + std::to_string(tier) + " of " + std::to_string(info_.tiers) +
                                        ": header says tier " + std::to_string(h.tier) + " of " +
                                        std::to_string(h.tiers) + ", body " + std::to_string(h.body_bytes) +
                                        " bytes, expected " + std::to_string(body_bytes_max(h, h.tier)) +
                                        ", or it belongs to another anchor"};
    }
    PayloadHeader same = anchor.header;
    same.tier = h.tier;
    same.body_bytes = h.body_bytes;
    same.anchor_crc = h.anchor_crc;
    if (tier > 0 && !(same == h)) {
        return {ErrorCode::corrupt, "decode: tier " + std::to_string(tier) + " has another shape than its anchor"};
    }
    return {};
}

Status PageCodec::check_destination(const PayloadHeader& h, kv::View dst) {
    if (dst.data == nullptr || dst.tokens != h.tokens || dst.channels != h.channels || dst.dtype != h.dtype) {
        return {ErrorCode::invalid_argument, "decode: destination " + shape_text(dst.tokens, dst.channels) +
                                                 " does not match the payload's " + shape_text(h.tokens, h.channels) +
                                                 " or its dtype"};
    }
    return {};
}

PageCodec::BodyRange PageCodec::body_range(const PayloadHeader& h, std::uint8_t tier) const noexcept {
    const CoreShape core = core_shape(h);
    BodyRange r{.payload = mono_ ? std::size_t{0} : tier, .first = mono_ || tier == 0 ? prefix_bytes(h) : 0};
    for (std::uint8_t t = 0; core.tokens > 0 && t <= tier; ++t) {
        r.first += mono_ && t < tier ? coder_->body_bytes_max(core, t) : 0;
        r.bytes = coder_->body_bytes_max(core, t);
    }
    return r;
}

Result<PageCodec::OpenedPage> PageCodec::open(std::span<const base::ByteView> payloads, Checksum checksum) const {
    if (payloads.empty() || payloads.size() > info_.tiers) {
        return Status{ErrorCode::invalid_argument, "decode: payloads: expected 1.." + std::to_string(info_.tiers) +
                                                       ", actual " + std::to_string(payloads.size())};
    }
    OpenedPage page;
    ParsedHeader anchor;
    for (std::size_t t = 0; t < payloads.size(); ++t) {
        Result<ParsedPayload> parsed =
            checksum == Checksum::verify ? parse_payload(payloads[t]) : parse_unverified(payloads[t]);
        if (!parsed.ok()) {
            return parsed.status().with_context("tier " + std::to_string(t));
        }
        const PayloadHeader& h = parsed.value().header;
        LYNX_TRY(check_header(h, t, anchor));
        base::ByteView body = parsed.value().body;
        if (t == 0) {
            page.header = h;
            if (coder_->carries_context()) {
                LYNX_ASSIGN(page.context, read_context(body.first<kContextBytes>(), h.channels));
                page.context.first_token += h.exact_head;
                body = body.subspan(kContextBytes);
            }
            page.exact = body.first(exact_bytes(h));
            body = body.subspan(exact_bytes(h));
            anchor = {h, parsed.value().crc};
        }
        page.bodies[t] = body;
    }
    page.tiers = payloads.size();
    if (mono_) {
        LYNX_TRY(cut_mono(page));
    }
    return page;
}

Status PageCodec::cut_mono(OpenedPage& page) const {
    const CoreShape core = core_shape(page.header);
    base::Reader lengths(page.bodies[0].first(lengths_bytes(page.header)));
    base::ByteView rest = page.bodies[0].subspan(lengths_bytes(page.header));
    page.tiers = coder_->tiers();
    for (std::uint8_t t = 0; t < coder_->tiers(); ++t) {
        std::size_t n = core.tokens == 0 ? 0 : coder_->body_bytes_max(core, t);
        if (!coder_->fixed_size()) {
            n = t + 1U < coder_->tiers() ? lengths.get<std::uint32_t>() : rest.size();
        }
        if (n > rest.size()) {
            return {ErrorCode::corrupt, "decode: tier " + std::to_string(t) + " of a mono payload: length " +
                                            std::to_string(n) + ", actual at most " + std::to_string(rest.size())};
        }
        page.bodies[t] = rest.first(n);
        rest = rest.subspan(n);
    }
    return {};
}

// The checksum comes after decoding: reading the payloads from memory then overlaps with writing the elements, and the
// checksum finds them in the cache. Decoding is safe on any bytes, and what it left in `dst` is not used.
Status PageCodec::decode(std::span<const base::ByteView> payloads, kv::View dst) const {
    if (Status decoded = decode_unverified(payloads, dst); !decoded.ok()) {
        LYNX_TRY(open(payloads, Checksum::verify).status());  // a damaged payload is called that, whatever it led to
        return decoded;
    }
    for (std::size_t t = 0; t < payloads.size(); ++t) {
        if (const Result<ParsedPayload> parsed = parse_payload(payloads[t]); !parsed.ok()) {
            return parsed.status().with_context("tier " + std::to_string(t));
        }
    }
    return {};
}

Status PageCodec::decode_unverified(std::span<const base::ByteView> payloads, kv::View dst) const {
    LYNX_ASSIGN(const OpenedPage page, open(payloads, Checksum::skip));
    const PayloadHeader& h = page.header;
    LYNX_TRY(check_destination(h, dst));
    copy_rows_in(page.exact.data(), dst.slice_tokens(0, h.exact_head));
    copy_rows_in(page.exact.data() + head_bytes(h), dst.slice_tokens(h.tokens - h.exact_tail, h.exact_tail));
    const CoreShape core = core_shape(h);
    if (core.tokens == 0) {
        return {};
    }
    return coder_->decode(std::span(page.bodies).first(page.tiers), page.context,
                          dst.slice_tokens(h.exact_head, core.tokens));
}

Status PageCodec::inspect(std::span<const base::ByteView> payloads, PageSymbols& out) const {
    LYNX_ASSIGN(const OpenedPage page, open(payloads, Checksum::verify));
    const CoreShape core = core_shape(page.header);
    out = {};
    out.core_first = page.header.exact_head;
    const auto bodies = std::span(page.bodies).first(page.tiers);
    if (core.tokens == 0) {
        return {};
    }
    if (coder_->carries_context() || coder_->exact()) {
        // Whether its symbols are sound, such a coder can tell only with context and dtype: decode them, and throw the values away.
        base::Bytes rows(std::size_t{core.tokens} * core.channels * kv::dtype_bytes(page.header.dtype));
        LYNX_TRY(coder_->decode(bodies, page.context,
                                kv::token_major(rows.data(), page.header.dtype, core.tokens, core.channels)));
    }
    return coder_->carries_context() ? Status{} : coder_->symbols(bodies, core, out);
}

}  // namespace lynx::codec
