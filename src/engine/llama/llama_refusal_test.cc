// What load_llama refuses, and that it says why in one line. Needs no model: the files are a few bytes of GGUF
// metadata.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>

#include "engine/engine.h"
#include "engine/llama/llama_handles.h"

namespace lynx::engine {
namespace {

using testing::HasSubstr;

class LlamaRefusal : public testing::Test {
protected:
    void SetUp() override {
        const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
        directory_ = std::filesystem::path(testing::TempDir()) / (std::string("llama_refusal_") + test->name());
        std::filesystem::create_directories(directory_);
    }
    void TearDown() override { std::filesystem::remove_all(directory_); }

    [[nodiscard]] std::string path(const std::string& name) const { return (directory_ / name).string(); }

    /// A GGUF without tensors: the architecture, and what `more` adds.
    std::string write_gguf(const std::string& architecture, const std::function<void(gguf_context*)>& more = {}) {
        const GgufHandle gguf(gguf_init_empty());
        gguf_set_val_str(gguf.get(), "general.architecture", architecture.c_str());
        if (more) {
            more(gguf.get());
        }
        std::string file = path(architecture + ".gguf");
        EXPECT_TRUE(gguf_write_to_file(gguf.get(), file.c_str(), false));
        return file;
    }

    std::string write_bytes(const std::string& name, const std::string& bytes) {
        std::ofstream(path(name), std::ios::binary) << bytes;
        return path(name);
    }

    static void expect_refused(const std::string& model, ErrorCode code, const std::string& reason) {
        expect_refused(LlamaOptions{.model_path = model, .context_tokens = 256}, code, reason);
        expect_refused(LlamaOptions{.model_path = model, .context_tokens = 256}, code, model);
    }
    static void expect_refused(const LlamaOptions& options, ErrorCode code, const std::string& reason) {
        const Result<std::unique_ptr<Engine>> engine = load_llama(options);
        ASSERT_FALSE(engine.ok());
        EXPECT_EQ(engine.status().code(), code) << engine.status().to_string();
        EXPECT_THAT(engine.status().message(), HasSubstr(reason));
        EXPECT_EQ(engine.status().message().find('\n'), std::string::npos);
    }

private:
    std::filesystem::path directory_;
};

TEST_F(LlamaRefusal, UnreadableFilesAreIoErrors) {
    expect_refused(path("missing.gguf"), ErrorCode::io, "No such file");
    expect_refused(path(""), ErrorCode::io, "directory");
}

TEST_F(LlamaRefusal, OtherFilesAreCorrupt) {
    expect_refused(write_bytes("empty.gguf", ""), ErrorCode::corrupt, "GGUF");
    expect_refused(write_bytes("text.gguf", "This is no model at all, only text."), ErrorCode::corrupt, "GGUF");
    expect_refused(write_bytes("magic.gguf", "GGUF"), ErrorCode::corrupt, "GGUF");
}

TEST_F(LlamaRefusal, MetadataCutShortIsCorrupt) {
    const std::string whole = write_gguf("llama", [](gguf_context* g) {
        gguf_set_val_u32(g, "llama.context_length", 4096);
        gguf_set_val_str(g, "general.name", "a name of some length");
    });
    std::ifstream in(whole, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), {});
    for (const std::size_t size : {bytes.size() / 4, bytes.size() / 2, bytes.size() - 8}) {
        expect_refused(write_bytes("cut.gguf", bytes.substr(0, size)), ErrorCode::corrupt, "GGUF");
    }
}

TEST_F(LlamaRefusal, AModelWithoutWeightsIsCorrupt) {
    expect_refused(write_gguf("llama"), ErrorCode::corrupt, "model");
}

TEST_F(LlamaRefusal, RecurrentModelsAreNamed) {
    for (const char* name : {"mamba", "mamba2", "rwkv7", "jamba", "lfm2", "qwen3next", "granitehybrid"}) {
        expect_refused(write_gguf(name), ErrorCode::invalid_argument, std::string("'") + name + "'");
    }
    expect_refused(write_gguf("later", [](gguf_context* g) { gguf_set_val_u32(g, "later.ssm.state_size", 16); }),
                   ErrorCode::invalid_argument, "recurrent state");
}

TEST_F(LlamaRefusal, LatentCachesAreNamed) {
    expect_refused(
        write_gguf("deepseek2", [](gguf_context* g) { gguf_set_val_u32(g, "deepseek2.attention.kv_lora_rank", 512); }),
        ErrorCode::invalid_argument, "'deepseek2' is not supported: its cache is latent (MLA)");
}

TEST_F(LlamaRefusal, EncodersAndUnknownArchitecturesAreNamed) {
    expect_refused(write_gguf("t5"), ErrorCode::invalid_argument, "'t5'");
    expect_refused(write_gguf("bert"), ErrorCode::invalid_argument, "'bert'");
    expect_refused(write_gguf("lynxformer"), ErrorCode::invalid_argument, "lynxformer");
}

TEST_F(LlamaRefusal, SplitModelsAreRefused) {
    expect_refused(write_gguf("llama", [](gguf_context* g) { gguf_set_val_u16(g, "split.count", 2); }),
                   ErrorCode::invalid_argument, "split");
}

TEST_F(LlamaRefusal, MoreContextThanTrainedIsRefused) {
    const std::string model =
        write_gguf("llama", [](gguf_context* g) { gguf_set_val_u32(g, "llama.context_length", 2048); });
    expect_refused(LlamaOptions{.model_path = model, .context_tokens = 2049}, ErrorCode::invalid_argument,
                   "trained for 2048 tokens, asked for 2049");
}

TEST_F(LlamaRefusal, OptionsOutOfRangeAreRefused) {
    const std::string model = write_gguf("llama");
    for (const LlamaOptions& options :
         {LlamaOptions{.model_path = model, .context_tokens = 0}, LlamaOptions{.model_path = model, .sequences = 0},
          LlamaOptions{.model_path = model, .sequences = 100000}, LlamaOptions{.model_path = model, .threads = 0},
          LlamaOptions{.model_path = model, .batch_tokens = 0},
          LlamaOptions{.model_path = model, .context_tokens = 4000000, .sequences = 200}}) {
        expect_refused(options, ErrorCode::invalid_argument, "expected");
    }
}

TEST_F(LlamaRefusal, RequantizeRefusesWhatItCannotRead) {
    const std::string out = path("out.gguf");
    EXPECT_EQ(requantize_llama(path("missing.gguf"), out, "q4_0").code(), ErrorCode::io);
    EXPECT_EQ(requantize_llama(write_bytes("text.gguf", "no model"), out, "q4_0").code(), ErrorCode::corrupt);
    EXPECT_EQ(requantize_llama(write_gguf("llama"), out, "q3_k").code(), ErrorCode::invalid_argument);
    EXPECT_FALSE(std::filesystem::exists(out));
}

}  // namespace
}  // namespace lynx::engine
