#include "cli_options.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace lynxkv {

namespace {
std::vector<std::string>& loaded_profiles() {
    static std::vector<std::string> paths;
    return paths;
}
}  // namespace

using lynx::ErrorCode;
using lynx::Result;
using lynx::Status;

Result<lynx::LinkEmulation> LinkOptions::parse() const {
    lynx::LinkEmulation link;
    if (!rate.empty()) {
        const Result<double> value = lynx::parse_link_rate(rate);
        if (!value.ok()) {
            return value.status();
        }
        link.rate_bits_per_s = value.value();
    }
    if (!delay.empty()) {
        const Result<double> value = lynx::parse_link_delay(delay);
        if (!value.ok()) {
            return value.status();
        }
        link.delay_s = value.value();
    }
    return link;
}

std::vector<std::string> LinkOptions::arguments() const {
    std::vector<std::string> all;
    if (!rate.empty()) {
        all.insert(all.end(), {"--link-rate", rate});
    }
    if (!delay.empty()) {
        all.insert(all.end(), {"--link-delay", delay});
    }
    return all;
}

Result<std::string> read_prompt_file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    if (!in || std::filesystem::is_directory(path)) {
        return Status{ErrorCode::io, "cannot read prompt file " + path + ": " + std::strerror(in ? EISDIR : errno)};
    }
    const std::string s(std::istreambuf_iterator<char>(in), {});
    if (s.size() > kPromptFileBytesMax) {
        return Status{ErrorCode::limit_exceeded, "prompt file " + path + ": " + std::to_string(s.size()) +
                                                     " bytes, at most " + std::to_string(kPromptFileBytesMax)};
    }
    return s;
}

Result<std::string> PromptOptions::read() const { return file.empty() ? text : read_prompt_file(file); }

void add_model_file_options(CLI::App& app, lynx::ModelConfig& model) {
    app.add_option("-m,--model", model.path, "GGUF file, or 'fake' for the deterministic test model")
        ->required()
        ->envname("LYNXKV_MODEL");
    app.add_option("--context", model.context_tokens, "tokens a sequence may hold, prompt and output")
        ->capture_default_str();
    app.add_option("--batch", model.batch_tokens, "tokens per step, and per prefill chunk")->capture_default_str();
}

void add_model_options(CLI::App& app, lynx::ModelConfig& model) {
    add_model_file_options(app, model);
    app.add_option("--threads", model.threads, "inference threads of a node")->capture_default_str();
}

void add_security_options(CLI::App& app, lynx::PeerSecurity& security) {
    const std::vector<CLI::Option*> tls = {
        app.add_option("--tls-cert", security.certificate, "PEM file: this node's certificate, chain behind it"),
        app.add_option("--tls-key", security.private_key, "PEM file: its private key"),
        app.add_option("--tls-ca", security.authority, "PEM file: the authority that signs the peers' certificates"),
        app.add_option("--tls-name", security.peer_name,
                       "name or address that the peer's certificate must carry; a decode node: the host it calls"),
        app.add_option("--key-file", security.key_file,
                       "pre-shared keys instead of certificates: lines of NAME:64 hexadecimal digits"),
    };
    CLI::Option* plaintext = app.add_flag_callback(
        "--allow-plaintext",
        [&security] {
            security.allow_plaintext = true;
            std::fprintf(stderr,
                         "lynxkv: warning: --allow-plaintext: whoever is on the network can read and change "
                         "prompts and KV\n");
        },
        "do without TLS beyond loopback");
    for (CLI::Option* option : tls) {
        plaintext->excludes(option);
        // An empty one, say from a variable that is not set, must not come to mean plaintext.
        option->check([](const std::string& value) { return value.empty() ? "is empty" : std::string(); });
    }
}

void add_link_options(CLI::App& app, LinkOptions& link) {
    app.add_option("--link-rate", link.rate, "emulate a link of this rate at the sender, tc syntax: 250mbit, 1gbit");
    app.add_option("--link-delay", link.delay, "emulate this one-way delay at the sender: 5ms");
}

std::string codec_names() {
    std::string names;
    for (const lynx::CodecDescription& c : lynx::available_codecs()) {
        names += (names.empty() ? "" : ", ") + c.name;
    }
    return names;
}

void add_codec_options(CLI::App& app, lynx::CodecOptions& codec) {
    app.add_option("--codec", codec.name, "one of " + codec_names())->capture_default_str();
    add_codec_parameter_options(app, codec);
}

std::vector<std::string> profile_arguments() {
    std::vector<std::string> all;
    for (const std::string& path : loaded_profiles()) {
        all.insert(all.end(), {"--profile", path});
    }
    return all;
}

void add_profile_option(CLI::App& app, std::function<void(const std::string& name)> use) {
    app.add_option_function<std::string>(
           "--profile",
           [use = std::move(use)](const std::string& path) {
               const lynx::Result<std::string> name = lynx::load_profile(path);
               if (!name.ok()) {
                   throw CLI::ValidationError("--profile", name.status().to_string());
               }
               loaded_profiles().push_back(path);
               use(name.value());
           },
           "calibration profile of the model (lynxt); see codec calibrate")
        ->type_name("FILE");
}

void add_codec_parameter_options(CLI::App& app, lynx::CodecOptions& codec) {
    add_profile_option(app, [&codec](const std::string& name) { codec.profile = name; });
    app.add_option("--step", codec.step, "finest step over the rms of the coefficients; 0: the default (lynxt)")
        ->capture_default_str();
    app.add_option("--anchor-cut", codec.anchor_cut, "bits that the anchor lacks; with --second-cut (lynxt)");
    app.add_option("--second-cut", codec.second_cut, "bits that the second tier lacks (lynxt)");
    app.add_option("--alpha", codec.alpha, "curvature of the alpha-law (alpha-law codecs)")->capture_default_str();
    app.add_option("--chunk", codec.chunk_tokens, "tokens per chunk")->capture_default_str();
    app.add_option("--page", codec.page_tokens, "tokens per page")->capture_default_str();
    app.add_option("--meta", codec.meta, "metadata precision (alpha-law codecs): f32, f16 or q8")
        ->capture_default_str();
    app.add_option("--sinks", codec.sinks, "first tokens kept exact in the anchor (nested codecs)")
        ->capture_default_str();
    app.add_option("--recent", codec.recent, "newest prompt tokens kept exact in the anchor (nested codecs)")
        ->capture_default_str();
}

void add_prompt_options(CLI::App& app, PromptOptions& prompt) {
    auto* group = app.add_option_group("prompt", "where the prompt comes from");
    group->add_option("-p,--prompt", prompt.text, "prompt text");
    group->add_option("-f,--prompt-file", prompt.file, "file that holds the prompt");
    group->require_option(1);
}

void add_sampling_options(CLI::App& app, lynx::GenerateRequest& request) {
    app.add_option("-n,--max-tokens", request.max_tokens, "output tokens at most")->capture_default_str();
    app.add_option("--temperature", request.temperature, "0: greedy")->capture_default_str();
    app.add_option("--top-k", request.top_k, "0: off")->capture_default_str();
    app.add_option("--top-p", request.top_p, "1: off")->capture_default_str();
    app.add_option("--seed", request.seed, "reproducible sampling: the same tokens at any window and link");
    app.add_option("--stop", request.stop_strings, "end the output before this text; may be repeated");
    app.add_flag("--ignore-end", request.ignore_end, "go on after an end token");
    app.add_option("--window", request.window, "draft exactly this many tokens; default: adaptive");
    app.add_flag("!--no-draft", request.draft, "do not draft: wait for the last tier, then decode");
}

std::vector<std::string> model_arguments(const lynx::ModelConfig& model) {
    return {"--model",   model.path,
            "--context", std::to_string(model.context_tokens),
            "--threads", std::to_string(model.threads),
            "--batch",   std::to_string(model.batch_tokens)};
}

}  // namespace lynxkv
