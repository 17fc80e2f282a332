// lynxkv bench codec: every codec on every backend with every number of threads, over one working set of real KV.
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <optional>

#include "base/half.h"
#include "base/try.h"
#include "bench/machine.h"
#include "bench/prompt_kv.h"
#include "bench/statistics.h"
#include "bench/working_set.h"
#include "codec/options.h"
#include "node/model.h"

namespace lynx {

namespace bench {
namespace {

constexpr double kMib = 1024 * 1024;
constexpr std::uint32_t kThreadsMax = 1024;
constexpr std::uint32_t kSetsInMemory = 3;  // source, payloads, destination

/// Gives memory that earlier rows freed back, and starts the kernel's count of the most resident memory anew.
void reset_peak_memory() {
    ::malloc_trim(0);
    std::ofstream("/proc/self/clear_refs") << "5";
}

double peak_memory_mib() {
    std::ifstream in("/proc/self/status");
    std::string word;
    while (in >> word) {
        if (word == "VmHWM:") {
            double kib = 0;
            in >> kib;
            return kib / 1024;
        }
    }
    return 0;
}

std::uint64_t machine_memory_bytes() {
    return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

constexpr std::array<const char*, 3> kDTypeNames{"f16", "bf16", "f32"};

/// Rounds a float16 KV. invalid_argument: it has another dtype.
Status to_bf16(kv::Geometry& geometry, PromptKv& kv) {
    for (kv::LayerGeometry& layer : geometry.layers) {
        if (layer.dtype != kv::DType::f16) {
            return {ErrorCode::invalid_argument, "bf16: only float16 KV can be rounded to it"};
        }
        layer.dtype = kv::DType::bf16;
    }
    for (std::vector<std::byte>& plane : kv.planes) {
        for (std::size_t at = 0; at < plane.size(); at += sizeof(std::uint16_t)) {
            std::uint16_t half = 0;
            std::memcpy(&half, plane.data() + at, sizeof half);
            half = base::f32_to_bf16(base::f16_to_f32(half));
            std::memcpy(plane.data() + at, &half, sizeof half);
        }
    }
    return {};
}

class CodecBench {
public:
    CodecBench(const CodecBenchConfig& config, std::stop_token stop) : config_(config), stop_(std::move(stop)) {}

    Result<CodecBenchReport> run() {
        LYNX_TRY(plan());
        LYNX_TRY(prefill());
        for (const std::string& name : names_) {
            for (const std::string& backend : backends_) {
                LYNX_ASSIGN(const auto codec, codec::make_codec(name, params_, backend));
                for (const std::uint32_t threads : config_.threads) {
                    if (stop_.stop_requested()) {
                        return Status{ErrorCode::cancelled, "interrupted"};
                    }
                    std::string line(name);
                    line.append(", ").append(backend).append(", ").append(std::to_string(threads)).append(" threads");
                    progress(line);
                    LYNX_ASSIGN(CodecBenchRow row, measure(*codec, threads));
                    row.backend = backend;
                    report_.rows.push_back(std::move(row));
                }
            }
        }
        return std::move(report_);
    }

private:
    void progress(const std::string& line) const {
        if (config_.on_progress) {
            config_.on_progress(line);
        }
    }

    /// Everything that can be wrong with the configuration, before minutes of work.
    Status plan() {
        if (config_.repeats == 0 || config_.threads.empty()) {
            return {ErrorCode::invalid_argument,
                    "bench codec: at least one repeat and one number of threads are needed"};
        }
        for (const std::uint32_t threads : config_.threads) {
            if (threads == 0 || threads > kThreadsMax) {
                return {ErrorCode::invalid_argument,
                        "threads: expected 1.." + std::to_string(kThreadsMax) + ", actual " + std::to_string(threads)};
            }
        }
        if (const std::uint64_t memory = machine_memory_bytes(); config_.working_set_bytes > memory / kSetsInMemory) {
            return {ErrorCode::limit_exceeded, "working set: " + std::to_string(config_.working_set_bytes >> 20) +
                                                   " MiB three times do not fit the machine's " +
                                                   std::to_string(memory >> 20) + " MiB"};
        }
        names_ = config_.codecs;
        if (names_.empty()) {
            for (const codec::CodecInfo& info : codec::list_codecs()) {
                names_.push_back(info.name);
            }
        }
        backends_ = config_.backends;
        if (backends_.empty()) {
            for (const codec::BackendInfo& backend : codec::list_backends()) {
                if (backend.runnable) {
                    backends_.push_back(backend.name);
                }
            }
        }
        LYNX_ASSIGN(params_, codec::to_params(config_.codec));
        for (const std::string& name : names_) {
            for (const std::string& backend : backends_) {
                LYNX_TRY(codec::make_codec(name, params_, backend).status());
            }
        }
        return {};
    }

    Status prefill() {
        progress("prefill");
        LYNX_ASSIGN(const std::unique_ptr<engine::Engine> engine, node::open_engine(config_.model, false));
        LYNX_ASSIGN(const auto prompt, tokenize_text(*engine, config_.prompt, config_.prompt_tokens_max));
        LYNX_ASSIGN(PromptKv kv, prefill_prompt(*engine, prompt));
        kv::Geometry geometry = engine->info().geometry;
        if (config_.bf16) {
            LYNX_TRY(to_bf16(geometry, kv));
        }
        set_.emplace(kv, geometry, params_.page_tokens, config_.working_set_bytes);
        report_.dtype = kDTypeNames[static_cast<std::size_t>(geometry.layers.front().dtype)];
        report_.machine = machine_name();
        report_.model = engine->info().name;
        report_.prompt_tokens = static_cast<std::uint32_t>(prompt.size());
        report_.working_set_mib = static_cast<double>(set_->bytes()) / kMib;
        return {};
    }

    /// Median speed of a pass in GB of float16 input per second.
    template <class Pass>
    Result<double> speed(Pass pass) const {
        std::vector<double> seconds;
        for (std::uint32_t i = 0; i < config_.repeats; ++i) {
            LYNX_ASSIGN(const double s, pass());
            seconds.push_back(s);
        }
        return 2e-9 * static_cast<double>(set_->elements()) / median(std::move(seconds));
    }

    Result<CodecBenchRow> measure(const codec::Codec& codec, std::uint32_t threads) {
        set_->prepare(codec);
        reset_peak_memory();
        const auto last_tier = static_cast<std::uint8_t>(codec.info().tiers - 1);
        const std::uint8_t full = codec::full_tier(codec.info());
        CodecBenchRow row;
        row.codec = codec.info().name;
        row.threads = threads;
        LYNX_ASSIGN(row.memcpy_gbps, speed([&] { return Result<double>(set_->copy(threads)); }));
        LYNX_ASSIGN(row.encode_gbps, speed([&] { return set_->encode(codec, threads); }));
        LYNX_ASSIGN(row.decode_anchor_gbps, speed([&] { return set_->decode(codec, 0, threads); }));
        const DecodedError anchor = set_->error();
        LYNX_ASSIGN(row.decode_full_gbps, speed([&] { return set_->decode(codec, full, threads); }));
        const DecodedError last_lossy = set_->error();
        row.bits_anchor = set_->bits(0);
        row.bits_full = set_->bits(full);
        bool same_bits = last_lossy.same_bits;
        double exact_gbps = row.decode_full_gbps;
        if (full != last_tier) {
            LYNX_ASSIGN(exact_gbps, speed([&] { return set_->decode(codec, last_tier, threads); }));
            same_bits = set_->error().same_bits;
        }
        if (same_bits) {
            row.bits_exact = set_->bits(last_tier);
            row.decode_exact_gbps = exact_gbps;
        }
        row.nmse_anchor_k = anchor.key.nmse();
        row.nmse_anchor_v = anchor.value.nmse();
        row.nmse_full_k = last_lossy.key.nmse();
        row.nmse_full_v = last_lossy.value.nmse();
        row.peak_mib = peak_memory_mib();
        return row;
    }

    const CodecBenchConfig& config_;
    std::stop_token stop_;
    codec::CodecParams params_;
    std::vector<std::string> names_;
    std::vector<std::string> backends_;
    std::optional<WorkingSet> set_;
    CodecBenchReport report_;
};

}  // namespace
}  // namespace bench

Result<CodecBenchReport> run_codec_bench(const CodecBenchConfig& config, std::stop_token stop) {
    return bench::CodecBench(config, std::move(stop)).run();
}

}  // namespace lynx
