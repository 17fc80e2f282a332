// Owning handles for llama.cpp objects, and the silence it is loaded in.
#pragma once

#include <memory>
#include <string>

#include "gguf.h"
#include "llama.h"

namespace lynx::engine {

template <auto Free>
struct CDeleter {
    template <class T>
    void operator()(T* p) const noexcept {
        Free(p);
    }
};

using ModelHandle = std::unique_ptr<llama_model, CDeleter<llama_model_free>>;
using ContextHandle = std::unique_ptr<llama_context, CDeleter<llama_free>>;
using ThreadpoolHandle = std::unique_ptr<ggml_threadpool, CDeleter<ggml_threadpool_free>>;
using GgufHandle = std::unique_ptr<gguf_context, CDeleter<gguf_free>>;

/// Prepares the process for llama.cpp, once, before its first use; thread-safe. From then on it prints nothing:
/// errors are kept for take_llama_error. Also sets GGML_CPU_TILED_MM=0 in the environment: ggml reads it at its first
/// matrix product, and its tiled kernels (K and IQ quantisations on AVX machines) do not round a row the same way at
/// every batch size.
void prepare_llama();

/// The errors llama.cpp logged on this thread since the last call, as one line; empty when there were none.
[[nodiscard]] std::string take_llama_error();

}  // namespace lynx::engine
