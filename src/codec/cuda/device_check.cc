// lynx_device_check: the codecs on a GPU against the scalar reference, bit for bit, and how fast they are beside a plain copy.
//
// usage: lynx_device_check [--emulate] [--values N] [--out FOLDER]
// Prints a table and writes FOLDER/device_<gpu>.json. Exit status: 0 all well, 1 a difference or an error, 2 usage,
// 77 no usable GPU (or a build without CUDA). --emulate runs the same on this processor, where speed means nothing.
// Needs nothing but this library, so that it builds on a machine with a compiler, nvcc and no network.
#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string_view>

#include "base/try.h"
#include "codec/cuda/cuda_codec.h"
#include "codec/cuda/device_space.h"
#include "codec/test_pages.h"

namespace lynx::codec::cuda {
namespace {

using codec::testing::Page;
using codec::testing::random_page;

constexpr int kExitNoDevice = 77;
constexpr std::size_t kSlotAlignment = 256;
constexpr std::array kDTypes{kv::DType::f16, kv::DType::bf16, kv::DType::f32};
constexpr std::array<std::string_view, 3> kDTypeNames{"f16", "bf16", "f32"};
constexpr std::array<std::string_view, 3> kMetaNames{"f32", "f16", "q8"};

struct Options {
    bool emulate = false;
    std::uint64_t values = 0;  ///< to compare; 0: 10^8, or 10^6 when emulating
    std::string out = ".";
};

struct Gpu {
    std::unique_ptr<DeviceSpace> space;
    bool emulated = false;

    [[nodiscard]] Result<std::unique_ptr<DeviceCodec>> codec(std::string_view name, const CodecParams& params) const {
        constexpr std::size_t kSharedBytes = std::size_t{227} << 10;  // a block's on an H100 or H200
#ifdef LYNX_HAVE_CUDA
        if (!emulated) {
            return make_cuda_codec(name, params);
        }
#endif
        return make_emulated_codec(name, params, kSharedBytes);
    }
};

Result<Gpu> open_gpu(bool emulate) {
    Gpu gpu;
    gpu.emulated = emulate;
    if (emulate) {
        gpu.space = make_emulated_space();
        return gpu;
    }
#ifdef LYNX_HAVE_CUDA
    LYNX_ASSIGN(gpu.space, make_cuda_space());
    return gpu;
#else
    return Status{ErrorCode::io, "built without CUDA"};
#endif
}

std::size_t rounded(std::size_t bytes) { return (bytes + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment; }

/// Pages of one shape and layout in device memory, with room for their payloads.
struct DevicePages {
    std::vector<kv::View> pages;
    std::vector<std::vector<DevicePayload>> payloads;  ///< [page][tier], capacities
    std::size_t page_bytes = 0;
};

/// `like`: a page in host memory whose strides every page has; its memory is `bytes` long.
Result<DevicePages> allocate_pages(DeviceSpace& space, const Codec& codec, kv::View like, std::size_t bytes,
                                   std::size_t count) {
    DevicePages d;
    d.page_bytes = rounded(bytes);
    std::vector<std::size_t> slot;
    for (std::uint8_t t = 0; t < codec.info().tiers; ++t) {
        slot.push_back(rounded(codec.encoded_bytes_max(like.tokens, like.channels, like.dtype, t)));
    }
    LYNX_ASSIGN(std::byte * memory, space.allocate(d.page_bytes * count));
    for (std::size_t i = 0; i < count; ++i) {
        kv::View v = like;
        v.data = memory + i * d.page_bytes;
        d.pages.push_back(v);
    }
    d.payloads.resize(count);
    for (const std::size_t bytes_of_slot : slot) {
        LYNX_ASSIGN(std::byte * slots, space.allocate(bytes_of_slot * count));
        for (std::size_t i = 0; i < count; ++i) {
            d.payloads[i].push_back({slots + i * bytes_of_slot, bytes_of_slot});
        }
    }
    return d;
}

std::vector<EncodePage> encode_pages(const DevicePages& d, const std::vector<PageContext>& contexts) {
    std::vector<EncodePage> pages;
    for (std::size_t i = 0; i < d.pages.size(); ++i) {
        EncodePage p{d.pages[i], contexts[i % contexts.size()], {}};
        std::copy(d.payloads[i].begin(), d.payloads[i].end(), p.payloads.begin());
        pages.push_back(p);
    }
    return pages;
}

std::vector<DecodePage> decode_pages(const std::vector<EncodePage>& encoded, std::size_t tiers,
                                     const std::vector<kv::View>& dst) {
    std::vector<DecodePage> pages;
    for (std::size_t i = 0; i < encoded.size(); ++i) {
        DecodePage p{{}, tiers, dst[i]};
        for (std::size_t t = 0; t < tiers; ++t) {
            p.payloads[t] = {encoded[i].payloads[t].data, encoded[i].payloads[t].bytes};
        }
        pages.push_back(p);
    }
    return pages;
}

/// Any finite bits: what no well-behaved distribution reaches.
Page wild_page(kv::DType dtype, std::uint32_t tokens, std::uint32_t channels, std::uint64_t seed) {
    base::Rng rng(seed);
    Page page(dtype, tokens, channels);
    const unsigned low = dtype == kv::DType::f16 ? 10 : (dtype == kv::DType::bf16 ? 7 : 23);
    const unsigned exponent = dtype == kv::DType::f16 ? 0x1FU : 0xFFU;
    for (std::uint32_t t = 0; t < tokens; ++t) {
        for (std::uint32_t c = 0; c < channels; ++c) {
            auto bits = static_cast<std::uint32_t>(rng());
            bits &= dtype == kv::DType::f32 ? ~0U : 0xFFFFU;
            bits = (bits >> low & exponent) == exponent ? bits & ~(1U << low) : bits;
            std::memcpy(page.view().at(t, c), &bits, kv::dtype_bytes(dtype));
        }
    }
    return page;
}

struct Case {
    std::string codec;
    MetaFormat meta = MetaFormat::f32;
    float alpha = 255.0F;
    kv::DType dtype = kv::DType::f16;
    std::uint32_t tokens = 256;
    std::uint32_t channels = 128;
    bool channel_major = false;
    std::uint32_t gap = 0;

    [[nodiscard]] std::string text() const {
        return codec + " meta " + std::string(kMetaNames[static_cast<std::size_t>(meta)]) + " alpha " +
               std::to_string(alpha) + " " + std::string(kDTypeNames[static_cast<std::size_t>(dtype)]) + " [" +
               std::to_string(tokens) + ", " + std::to_string(channels) + "]" +
               (channel_major ? " channel-major" : "") + " gap " + std::to_string(gap);
    }
};

Status difference(const std::string& what, std::size_t page) {
    return {ErrorCode::corrupt, "page " + std::to_string(page) + ": " + what + " differ from the scalar reference"};
}

/// Encodes and decodes `host` (distinct pages) on the GPU and compares payloads and elements with the scalar codec's.
Status compare(Gpu& gpu, DeviceCodec& device, const std::vector<Page>& host) {
    const Codec& codec = device.host();
    const std::uint8_t tiers = codec.info().tiers;
    const std::uint32_t tokens = host[0].view().tokens;
    const std::vector<PageContext> contexts{{.first_token = 0, .sequence_tokens = 3 * tokens},
                                            {.first_token = tokens, .sequence_tokens = 3 * tokens},
                                            {.first_token = 2 * tokens, .sequence_tokens = 3 * tokens}};
    const std::size_t bytes = host[0].memory().size();
    LYNX_ASSIGN(const DevicePages d, allocate_pages(*gpu.space, codec, host[0].view(), bytes, host.size()));
    for (std::size_t i = 0; i < host.size(); ++i) {
        LYNX_TRY(gpu.space->upload(d.pages[i].data, host[i].memory()));
    }
    std::vector<EncodePage> pages = encode_pages(d, contexts);
    LYNX_TRY(device.encode(pages));
    std::vector<std::vector<base::Bytes>> expected(host.size());
    base::Bytes got;
    for (std::size_t i = 0; i < host.size(); ++i) {
        expected[i].resize(tiers);
        LYNX_TRY(codec.encode(host[i].view(), pages[i].context, expected[i]));
        for (std::uint8_t t = 0; t < tiers; ++t) {
            got.resize(pages[i].payloads[t].bytes);
            LYNX_TRY(gpu.space->download(got, pages[i].payloads[t].data));
            if (got != expected[i][t]) {
                return difference("payloads of tier " + std::to_string(t), i);
            }
        }
    }
    for (std::uint8_t t = 1; t <= tiers; ++t) {
        // Zeros where nothing is decoded, so that the gaps between rows are compared too.
        const base::Bytes zeros(bytes);
        for (const kv::View& v : d.pages) {
            LYNX_TRY(gpu.space->upload(v.data, zeros));
        }
        LYNX_TRY(device.decode(decode_pages(pages, t, d.pages)));
        for (std::size_t i = 0; i < host.size(); ++i) {
            const Page reference = host[i].same_layout();
            LYNX_TRY(codec.decode(codec::testing::views(expected[i], t), reference.view()));
            got.resize(bytes);
            LYNX_TRY(gpu.space->download(got, d.pages[i].data));
            if (got != reference.memory()) {
                return difference("elements of " + std::to_string(t) + " tiers", i);
            }
        }
    }
    gpu.space->clear();
    return {};
}

std::vector<Case> all_cases() {
    std::vector<Case> cases;
    const auto add_shapes = [&](const Case& base) {
        for (const kv::DType dtype : kDTypes) {
            for (const auto& [tokens, channels] : {std::pair{256U, 128U}, std::pair{256U, 1024U}, std::pair{251U, 77U},
                                                   std::pair{1U, 64U}, std::pair{33U, 264U}}) {
                for (const bool channel_major : {false, true}) {
                    for (const std::uint32_t gap : {0U, 8U, 3U}) {
                        Case c = base;
                        c.dtype = dtype;
                        c.tokens = tokens;
                        c.channels = channels;
                        c.channel_major = channel_major;
                        c.gap = gap;
                        cases.push_back(c);
                    }
                }
            }
        }
    };
    add_shapes({.codec = "nested44"});
    add_shapes({.codec = "nested44-mono"});
    for (const MetaFormat meta : {MetaFormat::f32, MetaFormat::f16, MetaFormat::q8}) {
        for (const float alpha : {255.0F, 5.0F, 0x1p-10F}) {
            add_shapes({.codec = "lynx44", .meta = meta, .alpha = alpha});
        }
    }
    return cases;
}

/// Compares at least `values` elements, and on a GPU every case at least once. Returns how many.
Result<std::uint64_t> check_conformance(Gpu& gpu, std::uint64_t values) {
    constexpr std::size_t kStride = 37;  // so that neighbours differ in everything
    const std::vector<Case> cases = all_cases();
    const std::size_t rounds_min = gpu.emulated ? 1 : cases.size();
    std::uint64_t done = 0;
    for (std::size_t i = 0; i < rounds_min || done < values; ++i) {
        const Case& c = cases[i * kStride % cases.size()];
        const CodecParams params{.alpha = c.alpha, .meta = c.meta};
        LYNX_ASSIGN(const auto device, gpu.codec(c.codec, params));
        std::vector<Page> host;
        for (const bool wild : {false, true}) {
            Page page(c.dtype, c.tokens, c.channels, c.channel_major, c.gap);
            page.copy_from(wild ? wild_page(c.dtype, c.tokens, c.channels, i)
                                : random_page(c.dtype, c.tokens, c.channels, i));
            host.push_back(std::move(page));
        }
        if (const Status s = compare(gpu, *device, host); !s.ok()) {
            return s.with_context(c.text());
        }
        done += std::uint64_t{c.tokens} * c.channels * host.size();
    }
    return done;
}

struct Rate {
    std::string codec;
    std::string call;
    double code_s = 0;      ///< elements only
    double checksum_s = 0;  ///< checksums and headers
    double call_s = 0;      ///< the whole call, with planning and copies of descriptors
};

template <class Call>
Status measure(Rate rate, DeviceCodec& device, int repeats, Call&& call, std::vector<Rate>& rates) {
    std::vector<Rate> all;
    for (int i = 0; i < repeats; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        LYNX_TRY(call());
        rate.call_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        rate.code_s = device.times().code_s;
        rate.checksum_s = device.times().checksum_s;
        all.push_back(rate);
    }
    std::sort(all.begin(), all.end(), [](const Rate& a, const Rate& b) { return a.code_s < b.code_s; });
    rates.push_back(all[all.size() / 2]);
    return {};
}

struct Throughput {
    std::size_t pages = 0;
    std::uint64_t page_bytes = 0;
    double copy_s = 0;  ///< a copy of as many bytes within the device
    std::vector<Rate> rates;
};

Result<Throughput> measure_throughput(Gpu& gpu) {
    constexpr std::uint32_t kTokens = 256;
    constexpr std::uint32_t kChannels = 1024;
    constexpr std::size_t kDistinct = 8;
    const int repeats = gpu.emulated ? 1 : 15;
    Throughput r;
    r.pages = gpu.emulated ? 2 : 2048;
    for (const char* name : {"nested44", "lynx44"}) {
        LYNX_ASSIGN(const auto device, gpu.codec(name, {}));
        std::vector<Page> host;
        for (std::size_t i = 0; i < std::min(kDistinct, r.pages); ++i) {
            host.push_back(random_page(kv::DType::f16, kTokens, kChannels, i + 1));
        }
        r.page_bytes = host[0].memory().size();
        LYNX_ASSIGN(const DevicePages d,
                    allocate_pages(*gpu.space, device->host(), host[0].view(), r.page_bytes, r.pages));
        for (std::size_t i = 0; i < r.pages; ++i) {
            LYNX_TRY(gpu.space->upload(d.pages[i].data, host[i % host.size()].memory()));
        }
        LYNX_ASSIGN(std::byte * other, gpu.space->allocate(d.page_bytes * r.pages));
        LYNX_ASSIGN(r.copy_s, gpu.space->copy_s(other, d.pages[0].data, d.page_bytes * r.pages, repeats));
        std::vector<EncodePage> pages = encode_pages(d, {PageContext{}});
        const auto encode = [&] { return device->encode(pages); };
        LYNX_TRY(encode());
        LYNX_TRY(measure({.codec = name, .call = "encode"}, *device, repeats, encode, r.rates));
        std::vector<kv::View> dst = d.pages;
        for (std::size_t i = 0; i < dst.size(); ++i) {
            dst[i].data = other + i * d.page_bytes;
        }
        for (const std::size_t tiers : {std::size_t{1}, std::size_t{2}}) {
            const std::vector<DecodePage> in = decode_pages(pages, tiers, dst);
            const auto decode = [&] { return device->decode(in); };
            LYNX_TRY(decode());
            LYNX_TRY(measure({.codec = name, .call = tiers == 1 ? "decode anchor" : "decode full"}, *device, repeats,
                             decode, r.rates));
        }
        gpu.space->clear();
    }
    return r;
}

/// Letters and digits of a device's name, for a file's.
std::string file_name_part(std::string_view name) {
    std::string part;
    for (const char c : name) {
        const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z');
        const bool upper = c >= 'A' && c <= 'Z';
        part += plain ? c : (upper ? static_cast<char>(c - 'A' + 'a') : '_');
    }
    return part;
}

std::string number(double x) {
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), "%.6g", x);
    return text.data();
}

std::string to_json(const Gpu& gpu, std::uint64_t values, const Throughput& t) {
    const double bytes = static_cast<double>(t.page_bytes * t.pages);
    std::string json = "{\n  \"device\": \"" + gpu.space->device_name() + "\",\n";
    json += "  \"conformance\": {\"values\": " + std::to_string(values) + ", \"differences\": 0},\n";
    json += "  \"pages\": " + std::to_string(t.pages) + ", \"page_bytes\": " + std::to_string(t.page_bytes) +
            ", \"dtype\": \"f16\",\n";
    json += "  \"copy_gb_s\": " + number(bytes / t.copy_s * 1e-9) + ",\n  \"rates\": [\n";
    for (std::size_t i = 0; i < t.rates.size(); ++i) {
        const Rate& r = t.rates[i];
        json += R"(    {"codec": ")" + r.codec + R"(", "call": ")" + r.call + R"(", "gb_s": )" +
                number(bytes / r.code_s * 1e-9) + R"(, "with_checksum_gb_s": )" +
                number(bytes / (r.code_s + r.checksum_s) * 1e-9) + R"(, "whole_call_gb_s": )" +
                number(bytes / r.call_s * 1e-9) + "}" + (i + 1 < t.rates.size() ? ",\n" : "\n");
    }
    return json + "  ]\n}\n";
}

void print(const Throughput& t) {
    const double gb = static_cast<double>(t.page_bytes * t.pages) * 1e-9;
    std::printf("GB/s of float16 page bytes; a copy within the device of as many: %.0f\n", gb / t.copy_s);
    std::printf("%-9s %-14s %12s %14s %11s\n", "codec", "call", "elements", "with checksum", "whole call");
    for (const Rate& r : t.rates) {
        std::printf("%-9s %-14s %12.2f %14.2f %11.2f\n", r.codec.c_str(), r.call.c_str(), gb / r.code_s,
                    gb / (r.code_s + r.checksum_s), gb / r.call_s);
    }
}

Result<Options> parse(std::span<const char* const> arguments) {
    Options o;
    for (std::size_t i = 1; i < arguments.size(); ++i) {
        const std::string_view a = arguments[i];
        const std::string_view value = i + 1 < arguments.size() ? arguments[i + 1] : "";
        if (a == "--emulate") {
            o.emulate = true;
        } else if (a == "--out" && !value.empty()) {
            o.out = value;
            ++i;
        } else if (a == "--values" && !value.empty()) {
            const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), o.values);
            if (error != std::errc{} || end != value.data() + value.size()) {
                return Status{ErrorCode::invalid_argument, "--values: not a number: " + std::string(value)};
            }
            ++i;
        } else {
            return Status{ErrorCode::invalid_argument,
                          "usage: lynx_device_check [--emulate] [--values N] [--out FOLDER]"};
        }
    }
    if (o.values == 0) {
        o.values = o.emulate ? 1'000'000 : 100'000'000;
    }
    return o;
}

Status run(Gpu& gpu, const Options& options) {
    std::printf("device: %s\n", gpu.space->device_name().c_str());
    LYNX_ASSIGN(const std::uint64_t values, check_conformance(gpu, options.values));
    std::printf("%llu values: payloads and decoded elements are the scalar reference's\n",
                static_cast<unsigned long long>(values));
    LYNX_ASSIGN(const Throughput t, measure_throughput(gpu));
    print(t);
    const std::string path = options.out + "/device_" + file_name_part(gpu.space->device_name()) + ".json";
    std::ofstream file(path);
    file << to_json(gpu, values, t);
    if (!file.flush()) {
        return {ErrorCode::io, path + ": cannot be written"};
    }
    std::printf("%s\n", path.c_str());
    return {};
}

int main_of(std::span<const char* const> arguments) {
    const Result<Options> options = parse(arguments);
    if (!options.ok()) {
        std::fprintf(stderr, "%s\n", options.status().message().c_str());
        return 2;
    }
    Result<Gpu> gpu = open_gpu(options.value().emulate);
    if (!gpu.ok()) {
        std::fprintf(stderr, "lynx_device_check: no usable GPU: %s\n", gpu.status().message().c_str());
        return kExitNoDevice;
    }
    if (const Status s = run(gpu.value(), options.value()); !s.ok()) {
        std::fprintf(stderr, "lynx_device_check: %s\n", s.to_string().c_str());
        return 1;
    }
    return 0;
}

}  // namespace
}  // namespace lynx::codec::cuda

int main(int argc, char** argv) {
    return lynx::codec::cuda::main_of(std::span<const char* const>(argv, static_cast<std::size_t>(argc)));
}
