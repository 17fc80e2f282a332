#include "engine/llama/gguf_inspect.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/llama/llama_handles.h"

namespace lynx::engine {
namespace {

struct FileCloser {
    void operator()(std::FILE* f) const noexcept { std::fclose(f); }
};
using File = std::unique_ptr<std::FILE, FileCloser>;

constexpr std::size_t kReadBytes = std::size_t{1} << 20;

Status unreadable(const std::string& path, int error) {
    return {ErrorCode::io, "model " + path + ": " + std::strerror(error)};
}

/// Opens and reads one byte, since a directory opens well.
Result<File> open_readable(const std::string& path) {
    File file(std::fopen(path.c_str(), "rb"));
    if (file == nullptr) {
        return unreadable(path, errno);
    }
    if (std::fgetc(file.get()) == EOF && std::ferror(file.get()) != 0) {
        return unreadable(path, errno);
    }
    std::rewind(file.get());
    return file;
}

/// Architectures llama.cpp runs on a recurrent or mixed state (llm_arch_is_recurrent, llm_arch_is_hybrid of the
/// pinned version), or that have no causal cache at all. Keys that give such a model away (below) catch those that
/// come later.
constexpr std::array<std::string_view, 25> kRecurrentOrHybrid = {
    "mamba",     "mamba2",    "rwkv6",      "rwkv6qwen2", "rwkv7",       "arwkv7",         "jamba",
    "falcon-h1", "plamo2",    "lfm2",       "lfm2moe",    "nemotron_h",  "nemotron_h_moe", "granitehybrid",
    "qwen3next", "qwen35",    "qwen35moe",  "qwen4exp",   "kimi-linear", "kimi-k3",        "bailingmoe3",
    "glm5-next", "deepseek4", "minimax-01", "minimax-m3"};
constexpr std::array<std::string_view, 8> kEncoders = {"t5",         "t5encoder", "bert",         "modern-bert",
                                                       "nomic-bert", "neo-bert",  "jina-bert-v2", "gemma-embedding"};
constexpr std::array<std::string_view, 3> kRecurrentKeys = {".ssm.", ".wkv.", ".shortconv."};
constexpr std::array<std::string_view, 2> kMlaKeys = {".attention.kv_lora_rank", ".attention.key_length_mla"};
constexpr std::array<ggml_type, 6> kRepackExact = {GGML_TYPE_F32,  GGML_TYPE_F16,  GGML_TYPE_BF16,
                                                   GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q8_0};

template <class List, class T>
bool contains(const List& list, const T& value) {
    return std::find(list.begin(), list.end(), value) != list.end();
}

bool any_key_contains(const gguf_context* gguf, std::span<const std::string_view> needles) {
    for (std::int64_t i = 0; i < gguf_get_n_kv(gguf); ++i) {
        const std::string_view key = gguf_get_key(gguf, i);
        if (std::any_of(needles.begin(), needles.end(),
                        [&](std::string_view n) { return key.find(n) != std::string_view::npos; })) {
            return true;
        }
    }
    return false;
}

std::uint32_t find_u32(const gguf_context* gguf, const std::string& key, std::uint32_t otherwise) {
    const std::int64_t id = gguf_find_key(gguf, key.c_str());
    return id >= 0 && gguf_get_kv_type(gguf, id) == GGUF_TYPE_UINT32 ? gguf_get_val_u32(gguf, id) : otherwise;
}

std::uint32_t find_u16(const gguf_context* gguf, const std::string& key, std::uint32_t otherwise) {
    const std::int64_t id = gguf_find_key(gguf, key.c_str());
    return id >= 0 && gguf_get_kv_type(gguf, id) == GGUF_TYPE_UINT16 ? gguf_get_val_u16(gguf, id) : otherwise;
}

Status refuse(const std::string& path, const std::string& architecture, std::string_view why) {
    return {ErrorCode::invalid_argument,
            "model " + path + ": architecture '" + architecture + "' is not supported: " + std::string(why)};
}

}  // namespace

Result<GgufFacts> inspect_gguf(const std::string& path) {
    prepare_llama();
    if (const Result<File> file = open_readable(path); !file.ok()) {
        return file.status();
    }
    static_cast<void>(take_llama_error());
    const GgufHandle gguf(gguf_init_from_file(path.c_str(), {.no_alloc = true, .ctx = nullptr}));
    if (gguf == nullptr) {
        return Status{ErrorCode::corrupt, "model " + path + ": not a readable GGUF: " + take_llama_error()};
    }
    GgufFacts facts;
    const std::int64_t name = gguf_find_key(gguf.get(), "general.architecture");
    if (name < 0 || gguf_get_kv_type(gguf.get(), name) != GGUF_TYPE_STRING) {
        return Status{ErrorCode::corrupt, "model " + path + ": the GGUF names no architecture"};
    }
    facts.architecture = gguf_get_val_str(gguf.get(), name);
    if (contains(kRecurrentOrHybrid, facts.architecture) || any_key_contains(gguf.get(), kRecurrentKeys)) {
        return refuse(path, facts.architecture, "it keeps a recurrent state instead of (or beside) a KV cache");
    }
    if (any_key_contains(gguf.get(), kMlaKeys)) {
        return refuse(path, facts.architecture, "its cache is latent (MLA)");
    }
    if (contains(kEncoders, facts.architecture)) {
        return refuse(path, facts.architecture, "it is not a decoder-only language model");
    }
    if (find_u16(gguf.get(), "split.count", 1) > 1) {
        return refuse(path, facts.architecture, "the model is split over several files; merge them first");
    }
    facts.context_tokens_trained = find_u32(gguf.get(), facts.architecture + ".context_length", 0);
    for (std::int64_t i = 0; i < gguf_get_n_tensors(gguf.get()); ++i) {
        facts.repack_is_exact = facts.repack_is_exact && contains(kRepackExact, gguf_get_tensor_type(gguf.get(), i));
    }
    return facts;
}

Result<Fingerprint> fingerprint_file(const std::string& path, std::string_view kv_layout) {
    Result<File> file = open_readable(path);
    if (!file.ok()) {
        return file.status();
    }
    const std::unique_ptr<XXH3_state_t, CDeleter<XXH3_freeState>> state(XXH3_createState());
    XXH3_128bits_reset(state.get());
    std::vector<char> buffer(kReadBytes);
    while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), file.value().get())) {
        XXH3_128bits_update(state.get(), buffer.data(), n);
    }
    if (std::ferror(file.value().get()) != 0) {
        return unreadable(path, errno);
    }
    XXH3_128bits_update(state.get(), kv_layout.data(), kv_layout.size());
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state.get()));
    Fingerprint fingerprint{};
    static_assert(sizeof(canonical.digest) == sizeof(fingerprint));
    std::memcpy(fingerprint.data(), canonical.digest, sizeof(canonical.digest));
    return fingerprint;
}

}  // namespace lynx::engine
