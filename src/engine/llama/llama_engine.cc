#include "engine/llama/llama_engine.h"

#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/try.h"
#include "engine/llama/llama_skeleton.h"

namespace lynx::engine {
namespace {

// The parallel pass is large enough for ggml to choose its kernels for many rows (tiles of 16 and 32); the single
// steps are more than the four rows that its matrix kernels take at a time.
constexpr std::uint32_t kInvarianceRows = 33;
constexpr std::uint32_t kInvarianceSteps = 6;

std::uint32_t vocabulary_of(const llama_model* model) {
    return static_cast<std::uint32_t>(llama_vocab_n_tokens(llama_model_get_vocab(model)));
}

}  // namespace

LlamaEngine::LlamaEngine(ModelInfo info, ModelHandle model, const LlamaOptions& options)
    : info_(std::move(info)),
      options_(options),
      sequences_({.sequences = options.sequences,
                  .context_tokens = options.context_tokens,
                  .batch_tokens = options.batch_tokens,
                  .vocabulary = vocabulary_of(model.get())}),
      model_(std::move(model)),
      vocab_(llama_model_get_vocab(model_.get())) {}

LlamaEngine::~LlamaEngine() {
    if (batch_.token != nullptr) {
        llama_batch_free(batch_);
    }
}

Status LlamaEngine::start() {
    LYNX_TRY(create_context());
    LYNX_TRY(find_cache_by_step());
    LYNX_TRY(check_state_format());
    info_.geometry = cache_.geometry();
    LYNX_TRY(info_.geometry.validate());
    info_.vocabulary = vocabulary_of(model_.get());
    info_.context_tokens = options_.context_tokens;
    info_.sequences = options_.sequences;
    info_.batch_tokens_max = options_.batch_tokens;
    for (std::uint32_t t = 0; t < info_.vocabulary; ++t) {
        if (llama_vocab_is_eog(vocab_, static_cast<Token>(t))) {
            info_.end_tokens.push_back(static_cast<Token>(t));
        }
    }
    return {};
}

Status LlamaEngine::create_context() {
    llama_context_params params = llama_context_default_params();
    params.n_ctx = options_.context_tokens * options_.sequences;
    params.n_seq_max = options_.sequences;
    params.n_batch = options_.batch_tokens;
    params.n_ubatch = options_.batch_tokens;  // a step is one pass, so its pages are final when it returns
    params.n_threads = static_cast<std::int32_t>(options_.threads);
    params.n_threads_batch = params.n_threads;
    params.flash_attn_type = options_.exact ? LLAMA_FLASH_ATTN_TYPE_DISABLED : LLAMA_FLASH_ATTN_TYPE_ENABLED;
    params.type_k = GGML_TYPE_F16;
    params.type_v = GGML_TYPE_F16;
    params.kv_unified =
        false;               // one stream per sequence: cell = position, and neighbours do not change a row's rounding
    params.swa_full = true;  // a sliding-window cache keeps every position, as the other layers do
    params.offload_kqv = false;
    params.op_offload = false;
    params.no_perf = true;
    params.cb_eval = on_node;
    params.cb_eval_user_data = this;
    params.abort_callback = should_abort;
    params.abort_callback_data = this;
    static_cast<void>(take_llama_error());
    context_.reset(llama_init_from_model(model_.get(), params));
    if (context_ == nullptr) {
        return {ErrorCode::limit_exceeded, "context of " + std::to_string(options_.sequences) + " x " +
                                               std::to_string(options_.context_tokens) +
                                               " tokens: " + take_llama_error()};
    }
    if (llama_get_memory(context_.get()) == nullptr) {
        return {ErrorCode::invalid_argument, "the model has no KV cache"};
    }
    ggml_threadpool_params pool = ggml_threadpool_params_default(params.n_threads);
    pool.poll = 0;  // idle workers sleep: with several nodes on one machine, spinning ones take the others' time
    threadpool_.reset(ggml_threadpool_new(&pool));
    if (threadpool_ == nullptr) {
        return {ErrorCode::limit_exceeded, "no thread pool of " + std::to_string(options_.threads) + " threads"};
    }
    llama_attach_threadpool(context_.get(), threadpool_.get(), threadpool_.get());
    batch_ = llama_batch_init(static_cast<std::int32_t>(options_.batch_tokens), 0, 1);
    return {};
}

Status LlamaEngine::find_cache_by_step() {
    const Row row{.seq = 0, .token = 0, .position = 0, .logits = true};
    if (const int code = decode({&row, 1}); code != 0) {
        return {ErrorCode::invalid_argument,
                "warm-up step: llama_decode returned " + std::to_string(code) + ": " + take_llama_error()};
    }
    LYNX_ASSIGN(std::vector<LayerCache> layers,
                probe_.finish(static_cast<std::uint32_t>(llama_model_n_layer(model_.get())),
                              static_cast<std::uint32_t>(llama_model_n_swa(model_.get()))));
    cache_ = LlamaCache(std::move(layers), options_.exact, options_.context_tokens);
    if (cache_.cells() < options_.context_tokens || cache_.streams() != options_.sequences) {
        return {ErrorCode::invalid_argument, "KV cache: expected " + std::to_string(options_.sequences) +
                                                 " streams of " + std::to_string(options_.context_tokens) +
                                                 " cells, found " + std::to_string(cache_.streams()) + " of " +
                                                 std::to_string(cache_.cells())};
    }
    watch_.emplace(cache_, options_.sequences);
    return {};
}

Status LlamaEngine::check_state_format() {
    // Sequence 0 holds the warm-up token. With its KV zeroed, its state must be our skeleton of one token, byte for
    // byte.
    cache_.zero(0, 0, 1);
    std::vector<std::uint8_t> real(llama_state_seq_get_size(context_.get(), 0));
    real.resize(llama_state_seq_get_data(context_.get(), real.data(), real.size(), 0));
    ZeroBytes skeleton = make_skeleton(cache_, 1);
    if (skeleton.bytes().size() != real.size() || std::memcmp(skeleton.bytes().data(), real.data(), real.size()) != 0) {
        return {ErrorCode::unsupported_version,
                "llama.cpp's sequence state: expected " + std::to_string(skeleton.bytes().size()) +
                    " bytes of the pinned format, actual " + std::to_string(real.size()) + " bytes that differ"};
    }
    return drop(0, 0, 1);
}

Status LlamaEngine::check_batch_invariance() {
    const std::uint32_t fits = std::min(options_.batch_tokens, options_.context_tokens);
    std::vector<Row> parallel;
    std::vector<std::vector<float>> single;
    for (std::uint32_t i = 0; i < std::min(kInvarianceRows, fits); ++i) {
        const auto token = static_cast<Token>((i * 7919 + 101) % info_.vocabulary);
        parallel.push_back({.seq = 0, .token = token, .position = i, .logits = i < kInvarianceSteps});
        if (i < kInvarianceSteps) {
            LYNX_TRY(step({&parallel.back(), 1}, nullptr));
            single.emplace_back(logits(0).begin(), logits(0).end());
        }
    }
    LYNX_TRY(truncate(0, 0));
    LYNX_TRY(step(parallel, nullptr));
    for (std::size_t i = 0; i < single.size(); ++i) {
        if (std::memcmp(logits(i).data(), single[i].data(), single[i].size() * sizeof(float)) != 0) {
            return {ErrorCode::invalid_argument, "exact mode: with this llama.cpp build, row " + std::to_string(i) +
                                                     " of a parallel pass differs from the same single step"};
        }
    }
    return truncate(0, 0);
}

bool LlamaEngine::on_node(ggml_tensor* node, bool ask, void* self) {
    auto& engine = *static_cast<LlamaEngine*>(self);
    if (!engine.watch_) {
        engine.probe_.observe(node);
        return !ask;
    }
    const bool attention = engine.attention_ && engine.attention_->on_node(node, ask);
    return engine.watch_->on_node(node, ask) || (ask && attention);
}

bool LlamaEngine::should_abort(void* self) {
    const auto& engine = *static_cast<LlamaEngine*>(self);
    return engine.watch_ && engine.watch_->failed();
}

Status LlamaEngine::reserve(SeqId seq, std::uint32_t tokens) {
    LYNX_TRY(sequences_.check_reserve(seq, tokens));
    if (tokens == 0) {
        return {};
    }
    ZeroBytes blob = make_skeleton(cache_, tokens);
    static_cast<void>(take_llama_error());
    if (blob.bytes().empty() || llama_state_seq_set_data(context_.get(), blob.bytes().data(), blob.bytes().size(),
                                                         seq) != blob.bytes().size()) {
        llama_memory_seq_rm(llama_get_memory(context_.get()), seq, -1, -1);
        return {ErrorCode::limit_exceeded,
                "reserve: no cells for " + std::to_string(tokens) + " tokens: " + take_llama_error()};
    }
    sequences_.set_length(seq, tokens);
    return {};
}

Result<kv::View> LlamaEngine::kv_view(SeqId seq, std::uint32_t layer, kv::Kind kind) {
    LYNX_TRY(sequences_.check_sequence(seq));
    if (layer >= cache_.layers().size() || kind == kv::Kind::latent) {
        return Status{ErrorCode::invalid_argument, "kv_view: no such layer or kind: layer " + std::to_string(layer)};
    }
    return cache_.view(static_cast<std::uint32_t>(seq), layer, kind);
}

int LlamaEngine::decode(std::span<const Row> rows) {
    batch_.n_tokens = static_cast<std::int32_t>(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
        batch_.token[i] = rows[i].token;
        batch_.pos[i] = static_cast<llama_pos>(rows[i].position);
        batch_.n_seq_id[i] = 1;
        batch_.seq_id[i][0] = rows[i].seq;
        batch_.logits[i] = rows[i].logits ? 1 : 0;
    }
    static_cast<void>(take_llama_error());
    const int code = llama_decode(context_.get(), batch_);
    llama_synchronize(context_.get());
    return code;
}

Status LlamaEngine::step(std::span<const Row> rows, LayerGate* gate) {
    LYNX_TRY(sequences_.check_rows(rows));
    last_rows_ = 0;
    watch_->begin(rows, sequences_, gate);
    const int code = decode(rows);
    Status status;
    if (watch_->failed() || code == 0) {
        status = watch_->finish();
    } else {
        status = {code == 1 || code == -2 ? ErrorCode::limit_exceeded : ErrorCode::invalid_argument,
                  "step: llama_decode returned " + std::to_string(code) + ": " + take_llama_error()};
    }
    if (!status.ok()) {
        for (const Row& row : rows) {  // none of its rows stay; a sequence's first row drops the later ones too
            if (row.position == sequences_.length(row.seq)) {
                LYNX_TRY(drop(row.seq, row.position, row.position + static_cast<std::uint32_t>(rows.size())));
            }
        }
        return status;
    }
    sequences_.append(rows);
    last_rows_ = rows.size();
    return {};
}

std::span<const float> LlamaEngine::logits(std::size_t row) const {
    LYNX_CHECK(row < last_rows_);
    const float* values = llama_get_logits_ith(context_.get(), static_cast<std::int32_t>(row));
    LYNX_CHECK(values != nullptr);
    return {values, info_.vocabulary};
}

Status LlamaEngine::truncate(SeqId seq, std::uint32_t tokens) {
    LYNX_TRY(sequences_.check_truncate(seq, tokens));
    LYNX_TRY(drop(seq, tokens, sequences_.length(seq)));
    sequences_.set_length(seq, tokens);
    return {};
}

Status LlamaEngine::drop(SeqId seq, std::uint32_t tokens, std::uint32_t end) {
    if (!llama_memory_seq_rm(llama_get_memory(context_.get()), seq, static_cast<llama_pos>(tokens), -1)) {
        return {ErrorCode::corrupt, "KV cache: sequence " + std::to_string(seq) + " cannot be cut to " +
                                        std::to_string(tokens) + " tokens"};
    }
    if (end > options_.context_tokens) {
        end = options_.context_tokens;
    }
    if (tokens < end) {
        cache_.zero(static_cast<std::uint32_t>(seq), tokens, end - tokens);
    }
    return {};
}

}  // namespace lynx::engine
