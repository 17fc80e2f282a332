// DeviceCodec on any Device: plans pages on the host, launches the blocks of nested_block.h, lynx_block.h and crc_block.h, and
// turns what they report into Status.
//
// A Device has: `Status reserve(Memory&, bytes)`, `Status upload(to, from, bytes)`, `Status download(to, from, bytes)`,
// `Status fill(to, byte, bytes)`, `Status launch(body, blocks, shared_bytes)`, `Status synchronise()`,
// `Status mark(stage)` (0..2: begin, between, end), `double seconds(stage)` between a mark and the next one, and
// `std::size_t shared_bytes_max()`. Calls are in order; only download and synchronise wait.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <unordered_map>
#include <vector>

#include "base/try.h"
#include "codec/cuda/crc_block.h"
#include "codec/cuda/cuda_codec.h"
#include "codec/cuda/lynx_block.h"
#include "codec/cuda/nested_block.h"
#include "codec/page_codec.h"
#include "codec/ref/alpha_law.h"
#include "codec/ref/lynx44.h"

namespace lynx::codec::cuda {

/// A growing piece of device memory, freed by the Device that reserved it.
struct Memory {
    std::byte* data = nullptr;
    std::size_t bytes = 0;

    template <class T>
    [[nodiscard]] T* as() const noexcept {
        return reinterpret_cast<T*>(data);
    }
};

template <class Device>
class DeviceCodecOn final : public DeviceCodec {
public:
    DeviceCodecOn(std::unique_ptr<PageCodec> codec, Device device)
        : codec_(std::move(codec)), device_(std::move(device)) {}

    /// Once: uploads the tables.
    [[nodiscard]] Status prepare();

    [[nodiscard]] const Codec& host() const noexcept override { return *codec_; }
    [[nodiscard]] Status encode(std::span<EncodePage> pages) override;
    [[nodiscard]] Status decode(std::span<const DecodePage> pages) override;
    [[nodiscard]] StageTimes times() const noexcept override { return times_; }

private:
    static constexpr std::uint32_t kWidthLog2Min = 3;
    static constexpr std::uint32_t kWidthLog2Max = 6;
    static constexpr std::size_t kShapesMax = 1024;

    /// Shape of a batch, from its jobs.
    struct Shape {
        kv::DType dtype = kv::DType::f16;
        std::uint32_t channels = 0;
        std::uint32_t core_tokens_max = 0;
        bool direct = true;  ///< every page's rows are vectors
    };

    [[nodiscard]] bool lynx() const noexcept { return codec_->id() == CodecId::lynx44; }
    [[nodiscard]] Status add_job(const PayloadHeader& h, kv::View page, std::span<std::byte* const> payloads);
    [[nodiscard]] Status launch_crc(std::uint32_t& segments_max);
    [[nodiscard]] Status open(std::span<const DecodePage> pages);
    template <class E>
    [[nodiscard]] Status launch_encode(Batch batch);
    template <class E, bool kFull>
    [[nodiscard]] Status launch_decode(Batch batch);
    template <class F>
    [[nodiscard]] Status by_dtype(F&& f);
    [[nodiscard]] const CrcJob& crc_of_size(std::uint32_t bytes);
    template <class T>
    [[nodiscard]] Status upload(Memory& memory, const std::vector<T>& from);
    [[nodiscard]] Result<Batch> upload_batch(int flag_byte);

    static Status at_page(const Status& s, std::size_t page) { return s.with_context("page " + std::to_string(page)); }

    std::unique_ptr<PageCodec> codec_;
    Device device_;
    StageTimes times_;
    Shape shape_;
    std::vector<PageJob> jobs_;
    std::vector<CrcJob> crc_jobs_;
    std::vector<SealJob> seals_;
    std::vector<OpenedPayload> opened_;
    std::vector<std::uint32_t> flags_;
    std::unordered_map<std::uint32_t, CrcJob> crc_shapes_;
    Memory jobs_memory_, crc_jobs_memory_, seals_memory_, opened_memory_, flags_memory_, bins_memory_,
        remainders_memory_, law_memory_, tables_memory_;
};

template <class Device>
Status DeviceCodecOn<Device>::prepare() {
    if (!codec_->plain_bodies() || (codec_->id() != CodecId::nested44 && codec_->id() != CodecId::lynx44)) {
        return {ErrorCode::invalid_argument, "codec: " + codec_->info().name + " has no GPU code"};
    }
    const AlphaLaw law(codec_->params().alpha, kLynx44Levels);
    std::vector<LawTables> tables(1);
    LawTables& t = tables[0];
    std::copy(law.magnitudes().begin(), law.magnitudes().end(), t.magnitude);
    std::copy(law.thresholds().begin(), law.thresholds().end(), t.threshold);
    t.threshold[kThresholds - 1] = std::numeric_limits<float>::infinity();
    t.alpha = codec_->params().alpha;
    t.levels = law.levels();
    t.levels_per_log2 = static_cast<float>(t.levels) / std::log2(1.0F + t.alpha);
    LYNX_TRY(upload(law_memory_, tables));
    return upload(tables_memory_, std::vector<CrcTables>{make_crc_tables()});
}

template <class Device>
template <class T>
Status DeviceCodecOn<Device>::upload(Memory& memory, const std::vector<T>& from) {
    const std::size_t bytes = from.size() * sizeof(T);
    LYNX_TRY(device_.reserve(memory, bytes));
    return device_.upload(memory.data, from.data(), bytes);
}

template <class Device>
const CrcJob& DeviceCodecOn<Device>::crc_of_size(std::uint32_t bytes) {
    if (crc_shapes_.size() > kShapesMax) {
        crc_shapes_.clear();
    }
    const auto [it, added] = crc_shapes_.try_emplace(bytes);
    if (added) {
        it->second = crc_job(nullptr, bytes);
    }
    return it->second;
}

template <class Device>
Status DeviceCodecOn<Device>::add_job(const PayloadHeader& h, kv::View page, std::span<std::byte* const> payloads) {
    if (jobs_.empty()) {
        shape_ = {.dtype = h.dtype, .channels = h.channels};
    }
    if (h.dtype != shape_.dtype || h.channels != shape_.channels) {
        return {ErrorCode::invalid_argument, "pages of one call must have the same dtype and number of channels"};
    }
    PageJob job;
    job.page = {page.data, page.token_stride, page.channel_stride};
    job.rows = {h.tokens, h.exact_head, h.exact_tail};
    job.exact = payloads[0] + kHeaderBytes;
    const auto body = [&](std::uint8_t tier) -> std::byte* {
        const PageCodec::BodyRange r = codec_->body_range(h, tier);
        return r.payload < payloads.size() ? payloads[r.payload] + kHeaderBytes + r.first : nullptr;
    };
    job.anchor = body(0);
    job.residual = body(1);
    jobs_.push_back(job);
    const auto per_vector = static_cast<std::ptrdiff_t>(16 / kv::dtype_bytes(h.dtype));
    shape_.core_tokens_max = std::max(shape_.core_tokens_max, job.rows.core());
    shape_.direct = shape_.direct && page.channel_stride == 1 && page.token_stride % per_vector == 0 &&
                    h.channels % kVectorElements == 0 && is_aligned(page.at(h.exact_head, 0), 16);
    return {};
}

template <class Device>
Result<Batch> DeviceCodecOn<Device>::upload_batch(int flag_byte) {
    flags_.resize(jobs_.size());
    LYNX_TRY(upload(jobs_memory_, jobs_));
    LYNX_TRY(device_.reserve(flags_memory_, flags_.size() * sizeof(std::uint32_t)));
    LYNX_TRY(device_.fill(flags_memory_.data, flag_byte, flags_.size() * sizeof(std::uint32_t)));
    return Batch{.jobs = jobs_memory_.as<PageJob>(),
                 .flags = flags_memory_.as<std::uint32_t>(),
                 .channels = shape_.channels,
                 .chunk_tokens = codec_->params().chunk_tokens};
}

template <class Device>
template <class F>
Status DeviceCodecOn<Device>::by_dtype(F&& f) {
    switch (shape_.dtype) {
        case kv::DType::f16: return f(F16{});
        case kv::DType::bf16: return f(BF16{});
        case kv::DType::f32: return f(F32{});
    }
    return {ErrorCode::invalid_argument, "dtype " + std::to_string(static_cast<int>(shape_.dtype))};
}

/// The widest tile, up to `width_log2`, for which `shared_bytes(width)` fit a block.
template <class F>
[[nodiscard]] Result<std::uint32_t> fitting_width(std::uint32_t width_log2, std::uint32_t min_log2,
                                                  std::size_t bytes_max, F&& shared_bytes) {
    while (width_log2 > min_log2 && shared_bytes(width_log2) > bytes_max) {
        --width_log2;
    }
    if (const std::size_t bytes = shared_bytes(width_log2); bytes > bytes_max) {
        return Status{ErrorCode::limit_exceeded, "a page needs " + std::to_string(bytes) +
                                                     " bytes of shared memory, the device has " +
                                                     std::to_string(bytes_max)};
    }
    return width_log2;
}

[[nodiscard]] constexpr std::uint32_t tiles_of(std::uint32_t channels, std::uint32_t width_log2) noexcept {
    return (channels + (1U << width_log2) - 1) >> width_log2;
}

template <class Device>
template <class E>
Status DeviceCodecOn<Device>::launch_encode(Batch batch) {
    const auto run = [&](auto body) -> Status {
        using Body = decltype(body);
        const auto shared = [&](std::uint32_t w) { return Body::shared_bytes(shape_.core_tokens_max, w); };
        LYNX_ASSIGN(batch.width_log2, fitting_width(kWidthLog2Max, kWidthLog2Min, device_.shared_bytes_max(), shared));
        batch.tiles = tiles_of(batch.channels, batch.width_log2);
        body.batch = batch;
        return device_.launch(body, jobs_.size() * batch.tiles, shared(batch.width_log2));
    };
    if (!lynx()) {
        return run(EncodeNested<E>{});
    }
    const std::size_t bytes = jobs_.size() * sizeof(PageBins);
    LYNX_TRY(device_.reserve(bins_memory_, bytes));
    LYNX_TRY(device_.fill(bins_memory_.data, 0, bytes));
    const auto* law = law_memory_.as<LawTables>();
    LYNX_TRY(run(EncodeLynx<E>{
        .batch = batch, .law = law, .bins = bins_memory_.as<PageBins>(), .format = codec_->params().meta}));
    const FinishLynx finish{batch, law, bins_memory_.as<PageBins>(), static_cast<std::uint32_t>(jobs_.size())};
    constexpr std::size_t kPages = FinishLynx::kPagesPerBlock;
    return device_.launch(finish, (jobs_.size() + kPages - 1) / kPages, 0);
}

template <class Device>
template <class E, bool kFull>
Status DeviceCodecOn<Device>::launch_decode(Batch batch) {
    const std::uint32_t rows =
        shape_.direct ? 0 : std::min<std::uint32_t>(shape_.core_tokens_max, kWarps * batch.chunk_tokens);
    std::uint32_t widest = shape_.direct ? kDecodeWidthLog2Max : kWidthLog2Max;
    while (widest > kWidthLog2Min && tiles_of(batch.channels, widest - 1) == 1) {
        --widest;
    }
    const auto run = [&](auto body) -> Status {
        using Body = decltype(body);
        const auto shared = [&](std::uint32_t w) { return Body::shared_bytes(rows, w); };
        LYNX_ASSIGN(batch.width_log2, fitting_width(widest, kWidthLog2Min, device_.shared_bytes_max(), shared));
        batch.tiles = tiles_of(batch.channels, batch.width_log2);
        body.batch = batch;
        return device_.launch(body, jobs_.size() * batch.tiles, shared(batch.width_log2));
    };
    if (!lynx()) {
        return run(DecodeNested<E, kFull>{});
    }
    return run(
        DecodeLynx<E, kFull>{.batch = batch, .law = law_memory_.as<LawTables>(), .format = codec_->params().meta});
}

template <class Device>
Status DeviceCodecOn<Device>::launch_crc(std::uint32_t& segments_max) {
    segments_max = 1;
    for (const CrcJob& job : crc_jobs_) {
        segments_max = std::max(segments_max, crc_segments(job.bytes));
    }
    LYNX_TRY(upload(crc_jobs_memory_, crc_jobs_));
    const std::size_t blocks = crc_jobs_.size() * segments_max;
    LYNX_TRY(device_.reserve(remainders_memory_, blocks * sizeof(std::uint32_t)));
    const CrcSegments segments{crc_jobs_memory_.as<CrcJob>(), tables_memory_.as<CrcTables>(),
                               remainders_memory_.as<std::uint32_t>(), segments_max};
    return device_.launch(segments, blocks, CrcSegments::shared_bytes());
}

template <class Device>
Status DeviceCodecOn<Device>::encode(std::span<EncodePage> pages) {
    times_ = {};
    jobs_.clear();
    crc_jobs_.clear();
    seals_.clear();
    if (pages.empty()) {
        return {};
    }
    const std::uint8_t tiers = codec_->info().tiers;
    for (std::size_t i = 0; i < pages.size(); ++i) {
        EncodePage& p = pages[i];
        Result<PayloadHeader> planned = codec_->plan(p.page, p.context, tiers);
        if (!planned.ok()) {
            return at_page(planned.status(), i);
        }
        PayloadHeader h = planned.value();
        SealJob seal{};
        std::array<std::byte*, kTiersMax> payloads{};
        for (std::uint8_t t = 0; t < tiers; ++t) {
            h.tier = t;
            h.body_bytes = static_cast<std::uint32_t>(codec_->body_bytes_max(h, t));
            DevicePayload& out = p.payloads[t];
            if (out.data == nullptr || !is_aligned(out.data, 16) || out.bytes < kHeaderBytes + h.body_bytes) {
                return at_page({ErrorCode::invalid_argument,
                                "payload memory of tier " + std::to_string(t) + ": expected " +
                                    std::to_string(kHeaderBytes + h.body_bytes) +
                                    " bytes at a multiple of 16, actual " + std::to_string(out.bytes)},
                               i);
            }
            out.bytes = kHeaderBytes + h.body_bytes;
            payloads[t] = out.data;
            const auto header = serialise_header(h);
            std::memcpy(seal.header[t], header.data(), kHeaderBytes);
            seal.payload[t] = out.data;
            CrcJob crc = crc_of_size(h.body_bytes);
            crc.data = out.data + kHeaderBytes;
            crc_jobs_.push_back(crc);
        }
        seals_.push_back(seal);
        const kv::View view{const_cast<std::byte*>(p.page.data),
                            p.page.dtype,
                            p.page.tokens,
                            p.page.channels,
                            p.page.token_stride,
                            p.page.channel_stride};
        if (const Status s = add_job(h, view, std::span(payloads).first(tiers)); !s.ok()) {
            return at_page(s, i);
        }
    }
    LYNX_ASSIGN(const Batch batch, upload_batch(0xFF));
    LYNX_TRY(upload(seals_memory_, seals_));
    LYNX_TRY(device_.mark(0));
    LYNX_TRY(by_dtype([&](auto e) { return launch_encode<decltype(e)>(batch); }));
    LYNX_TRY(device_.mark(1));
    SealPayloads seal{.pages = seals_memory_.as<SealJob>(),
                      .segment_shift = crc_shift(kCrcSegmentBytes),
                      .tiers = tiers,
                      .count = static_cast<std::uint32_t>(pages.size())};
    LYNX_TRY(launch_crc(seal.segments_max));
    seal.jobs = crc_jobs_memory_.as<CrcJob>();
    seal.remainders = remainders_memory_.as<std::uint32_t>();
    LYNX_TRY(device_.launch(seal, (pages.size() + kBlockThreads - 1) / kBlockThreads, 0));
    LYNX_TRY(device_.mark(2));
    LYNX_TRY(device_.download(flags_.data(), flags_memory_.data, flags_.size() * sizeof(std::uint32_t)));
    times_ = {.code_s = device_.seconds(0), .checksum_s = device_.seconds(1)};
    for (std::size_t i = 0; i < pages.size(); ++i) {
        if (flags_[i] != kAllFinite) {
            return at_page(
                PageCodec::non_finite(pages[i].context, flags_[i] / shape_.channels, flags_[i] % shape_.channels), i);
        }
    }
    return {};
}

/// Fetches all headers and checksums, and checks them as Codec::decode does; fills jobs_.
template <class Device>
Status DeviceCodecOn<Device>::open(std::span<const DecodePage> pages) {
    for (std::size_t i = 0; i < pages.size(); ++i) {
        const DecodePage& p = pages[i];
        if (p.tiers == 0 || p.tiers > codec_->info().tiers || p.tiers != pages[0].tiers) {
            return at_page({ErrorCode::invalid_argument, "decode: payloads: expected as many as of page 0, 1.." +
                                                             std::to_string(codec_->info().tiers) + ", actual " +
                                                             std::to_string(p.tiers)},
                           i);
        }
        for (std::size_t t = 0; t < p.tiers; ++t) {
            const base::ByteView bytes = p.payloads[t];
            if (!is_aligned(bytes.data(), 16)) {
                return at_page({ErrorCode::invalid_argument, "payload memory: expected a multiple of 16"}, i);
            }
            if (bytes.size() < kHeaderBytes) {
                return at_page(payload_bytes(bytes).status().with_context("tier " + std::to_string(t)), i);
            }
            // Of a payload larger than any may be, the header alone is looked at: its length is wrong.
            const std::size_t body = bytes.size() > kPayloadBytesMax ? 0 : bytes.size() - kHeaderBytes;
            CrcJob crc = crc_of_size(static_cast<std::uint32_t>(body));
            crc.data = bytes.data() + kHeaderBytes;
            crc_jobs_.push_back(crc);
        }
    }
    opened_.resize(crc_jobs_.size());
    LYNX_TRY(device_.reserve(opened_memory_, opened_.size() * sizeof(OpenedPayload)));
    LYNX_TRY(device_.mark(0));
    GatherHeaders gather{.opened = opened_memory_.as<OpenedPayload>(),
                         .segment_shift = crc_shift(kCrcSegmentBytes),
                         .count = static_cast<std::uint32_t>(crc_jobs_.size())};
    LYNX_TRY(launch_crc(gather.segments_max));
    gather.jobs = crc_jobs_memory_.as<CrcJob>();
    gather.remainders = remainders_memory_.as<std::uint32_t>();
    LYNX_TRY(device_.launch(gather, (crc_jobs_.size() + kBlockThreads - 1) / kBlockThreads, 0));
    LYNX_TRY(device_.mark(1));
    LYNX_TRY(device_.download(opened_.data(), opened_memory_.data, opened_.size() * sizeof(OpenedPayload)));
    times_.checksum_s = device_.seconds(0);

    std::size_t next = 0;
    for (std::size_t i = 0; i < pages.size(); ++i) {
        const DecodePage& p = pages[i];
        ParsedHeader anchor;
        std::array<std::byte*, kTiersMax> payloads{};
        for (std::size_t t = 0; t < p.tiers; ++t, ++next) {
            const OpenedPayload& o = opened_[next];
            const auto checksum = [&](std::uint32_t head) {
                return crc_joined(~head, crc_jobs_[next].body_shift, o.remainder);
            };
            Result<ParsedHeader> parsed = parse_header(base::ByteView(o.header), p.payloads[t].size(), checksum);
            if (!parsed.ok()) {
                return at_page(parsed.status().with_context("tier " + std::to_string(t)), i);
            }
            if (const Status s = codec_->check_header(parsed.value().header, t, anchor); !s.ok()) {
                return at_page(s, i);
            }
            anchor = t == 0 ? parsed.value() : anchor;
            payloads[t] = const_cast<std::byte*>(p.payloads[t].data());
        }
        if (const Status s = PageCodec::check_destination(anchor.header, p.dst); !s.ok()) {
            return at_page(s, i);
        }
        if (const Status s = add_job(anchor.header, p.dst, std::span(payloads).first(p.tiers)); !s.ok()) {
            return at_page(s, i);
        }
    }
    return {};
}

template <class Device>
Status DeviceCodecOn<Device>::decode(std::span<const DecodePage> pages) {
    times_ = {};
    jobs_.clear();
    crc_jobs_.clear();
    if (pages.empty()) {
        return {};
    }
    LYNX_TRY(open(pages));
    LYNX_ASSIGN(const Batch batch, upload_batch(0));
    const bool full = codec_->mono() || pages[0].tiers == codec_->coder_tiers();
    LYNX_TRY(device_.mark(0));
    LYNX_TRY(by_dtype([&](auto e) {
        return full ? launch_decode<decltype(e), true>(batch) : launch_decode<decltype(e), false>(batch);
    }));
    LYNX_TRY(device_.mark(1));
    LYNX_TRY(device_.download(flags_.data(), flags_memory_.data, flags_.size() * sizeof(std::uint32_t)));
    times_.code_s = device_.seconds(0);
    for (std::size_t i = 0; i < pages.size(); ++i) {
        if (flags_[i] != 0) {
            return at_page({ErrorCode::corrupt, codec_->info().name + ": metadata or symbols that no encoder writes"},
                           i);
        }
    }
    return {};
}

/// Makes the codec and its tables on `device`.
template <class Device>
[[nodiscard]] Result<std::unique_ptr<DeviceCodec>> make_device_codec(std::string_view name, const CodecParams& params,
                                                                     Device device) {
    LYNX_ASSIGN(std::unique_ptr<PageCodec> codec, make_page_codec(name, params));
    auto made = std::make_unique<DeviceCodecOn<Device>>(std::move(codec), std::move(device));
    LYNX_TRY(made->prepare());
    return std::unique_ptr<DeviceCodec>(std::move(made));
}

}  // namespace lynx::codec::cuda
