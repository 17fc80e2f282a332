// Command-line options that several subcommands share, each defined once. Every add_* binds to a struct that must outlive parsing.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lynx/node.h"
#include "lynx/status.h"

namespace lynxkv {

struct LinkOptions {
    std::string rate;
    std::string delay;
    [[nodiscard]] lynx::Result<lynx::LinkEmulation> parse() const;
    /// The same as arguments for a child process.
    [[nodiscard]] std::vector<std::string> arguments() const;
};

struct PromptOptions {
    std::string text;
    std::string file;
    [[nodiscard]] lynx::Result<std::string> read() const;
};

/// Bytes a prompt file may have: far above any context, far below memory.
inline constexpr std::size_t kPromptFileBytesMax = std::size_t{64} << 20;
[[nodiscard]] lynx::Result<std::string> read_prompt_file(const std::string& path);

void add_model_options(CLI::App& app, lynx::ModelConfig& model);
/// All of them but the inference threads.
void add_model_file_options(CLI::App& app, lynx::ModelConfig& model);
/// The ways to prove who one is. Plaintext beyond loopback is warned of on stderr.
void add_security_options(CLI::App& app, lynx::PeerSecurity& security);
void add_link_options(CLI::App& app, LinkOptions& link);
/// `use` is told each profile's name once it is loaded; a profile that cannot be is wrong usage.
void add_profile_option(CLI::App& app, std::function<void(const std::string& name)> use);
/// Every profile loaded so far, as arguments for a child process.
[[nodiscard]] std::vector<std::string> profile_arguments();
void add_codec_options(CLI::App& app, lynx::CodecOptions& codec);
/// All of them but the codec's name, for commands that take several.
void add_codec_parameter_options(CLI::App& app, lynx::CodecOptions& codec);
void add_prompt_options(CLI::App& app, PromptOptions& prompt);
void add_sampling_options(CLI::App& app, lynx::GenerateRequest& request);

/// Every codec's name, comma-separated.
[[nodiscard]] std::string codec_names();
/// The model's options as arguments for a child process.
[[nodiscard]] std::vector<std::string> model_arguments(const lynx::ModelConfig& model);

}  // namespace lynxkv
