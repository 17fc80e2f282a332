// A prefill node and a decode node in this process, over real TCP on loopback, and the reference run beside them.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/reference.h"
#include "codec/options.h"
#include "lynx/node.h"
#include "node/model.h"

namespace lynx::testing {

/// Runs a prefill node on a thread of its own until it goes out of scope.
class PrefillThread {
public:
    explicit PrefillThread(PrefillConfig config) {
        config.on_listening = [this](std::uint16_t port) { announce("127.0.0.1:" + std::to_string(port)); };
        thread_ = std::jthread([this, config = std::move(config)](std::stop_token stop) {
            status_ = run_prefill_node(config, std::move(stop));
            announce("");
        });
    }
    /// HOST:PORT once it listens; empty when it ended instead.
    std::string address() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return announced_; });
        return address_;
    }
    /// Stops the node and returns how it ended.
    Status stop() {
        thread_.request_stop();
        if (thread_.joinable()) {
            thread_.join();
        }
        return status_;
    }

private:
    void announce(std::string address) {
        const std::lock_guard lock(mutex_);
        if (!announced_) {
            announced_ = true;
            address_ = std::move(address);
        }
        changed_.notify_all();
    }
    std::mutex mutex_;
    std::condition_variable changed_;
    bool announced_ = false;
    std::string address_;
    Status status_;
    std::jthread thread_;
};

/// The reference run of one prompt, for any codec and sampler.
class ReferenceRun {
public:
    ReferenceRun(const ModelConfig& model, const std::vector<engine::Token>& prompt) {
        auto prefill = node::open_engine(model, false);
        EXPECT_TRUE(prefill.ok()) << prefill.status().to_string();
        auto kv = bench::prefill_prompt(*prefill.value(), prompt);
        EXPECT_TRUE(kv.ok()) << kv.status().to_string();
        kv_ = std::move(kv).value();
        prefill = Status{ErrorCode::cancelled, "the model's memory is given back"};
        exact_ = node::open_engine(model, true).value();
        reference_ = std::make_unique<bench::Reference>(*exact_, kv_);
    }
    std::vector<engine::Token> tokens(const CodecOptions& codec, const speculate::Sampling& sampling,
                                      std::uint32_t count) {
        const auto made = codec::make_codec(codec.name, codec::to_params(codec).value());
        EXPECT_TRUE(made.ok()) << made.status().to_string();
        const auto loaded = reference_->load(*made.value(), made.value()->info().tiers - 1);
        EXPECT_TRUE(loaded.ok()) << loaded.status().to_string();
        return reference_->decode(count, sampling).value();
    }

private:
    bench::PromptKv kv_;
    std::unique_ptr<engine::Engine> exact_;
    std::unique_ptr<bench::Reference> reference_;
};

}  // namespace lynx::testing
