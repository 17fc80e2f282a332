#include "engine/llama/llama_skeleton.h"

#include <cstring>

namespace lynx::engine {
namespace {

constexpr std::uint32_t kMagic = 0xAF143CD8;  // io_magic of the pinned llama-context.cpp

/// Writes fields at increasing offsets, or only counts when it has no memory.
class Cursor {
public:
    explicit Cursor(std::uint8_t* out) noexcept : out_(out) {}
    template <class T>
    void put(T value) noexcept {
        if (out_ != nullptr) {
            std::memcpy(out_ + offset_, &value, sizeof value);
        }
        offset_ += sizeof value;
    }
    void skip(std::size_t bytes) noexcept { offset_ += bytes; }
    [[nodiscard]] std::size_t offset() const noexcept { return offset_; }

private:
    std::uint8_t* out_;
    std::size_t offset_ = 0;
};

bool has_sliding(const LlamaCache& cache) {
    for (const LayerCache& layer : cache.layers()) {
        if (layer.sliding) {
            return true;
        }
    }
    return false;
}

/// llama_kv_cache::state_write of one (sub-)cache: the stream with our cells first, then the empty ones. The importer
/// puts them where the destination sequence lives.
void put_cache(Cursor& out, const LlamaCache& cache, std::uint32_t tokens, bool sliding) {
    out.put(cache.streams());
    out.put(tokens);
    for (std::uint32_t t = 0; t < tokens; ++t) {
        out.put(static_cast<llama_pos>(t));
        out.put(std::uint32_t{1});  // sequences that share the cell
        out.put(llama_seq_id{0});
    }
    std::uint32_t layers = 0;
    for (const LayerCache& layer : cache.layers()) {
        layers += layer.sliding == sliding ? 1 : 0;
    }
    out.put(static_cast<std::uint32_t>(cache.value_transposed() ? 1 : 0));
    out.put(layers);
    for (const kv::Kind kind : {kv::Kind::key, kv::Kind::value}) {
        for (const LayerCache& layer : cache.layers()) {
            if (layer.sliding != sliding) {
                continue;
            }
            const std::uint32_t channels = layer.geometry.channels(kind);
            const std::size_t row_bytes = channels * kv::dtype_bytes(layer.geometry.dtype);
            out.put(static_cast<std::int32_t>(GGML_TYPE_F16));
            if (kind == kv::Kind::value && cache.value_transposed()) {
                out.put(static_cast<std::uint32_t>(kv::dtype_bytes(layer.geometry.dtype)));
                out.put(channels);
            } else {
                out.put(static_cast<std::uint64_t>(row_bytes));
            }
            out.skip(row_bytes * tokens);
        }
    }
    for (std::uint32_t s = 1; s < cache.streams(); ++s) {
        out.put(std::uint32_t{0});
    }
}

void put_state(Cursor& out, const LlamaCache& cache, std::uint32_t tokens) {
    out.put(kMagic);
    out.put(llama_seq_id{0});
    put_cache(out, cache, tokens, false);
    if (has_sliding(cache)) {
        put_cache(out, cache, tokens, true);
    }
}

}  // namespace

ZeroBytes make_skeleton(const LlamaCache& cache, std::uint32_t tokens) {
    Cursor counter(nullptr);
    put_state(counter, cache, tokens);
    ZeroBytes blob(counter.offset());
    if (!blob.bytes().empty()) {
        Cursor writer(blob.bytes().data());
        put_state(writer, cache, tokens);
    }
    return blob;
}

}  // namespace lynx::engine
