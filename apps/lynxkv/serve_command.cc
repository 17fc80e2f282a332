// lynxkv serve: an OpenAI-compatible server on a decode node; without --prefill it starts its prefill node itself.
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "child_process.h"
#include "cli_options.h"
#include "commands.h"
#include "exit_codes.h"
#include "lynx/serve.h"

namespace lynxkv {

namespace {

struct Arguments {
    lynx::ServeConfig config;
    LinkOptions link;
    std::string prefill;
    std::string log = "text";
};

int run(Arguments& a, const Context& context) {
    const lynx::Result<lynx::LinkEmulation> link = a.link.parse();
    if (!link.ok()) {
        return exit_code(link.status());
    }
    a.config.decode.link = link.value();
    std::optional<PrefillChild> child;
    if (a.prefill.empty()) {
        if (a.config.decode.security.tls()) {
            return exit_code({lynx::ErrorCode::invalid_argument,
                              "certificates and keys are for a prefill node elsewhere: name it with --prefill"});
        }
        std::vector<std::string> arguments = model_arguments(a.config.decode.model);
        const std::vector<std::string> shaped = a.link.arguments();
        arguments.insert(arguments.end(), shaped.begin(), shaped.end());
        arguments.insert(arguments.end(), {"--sequences", std::to_string(a.config.decode.model.sequences)});
        std::optional<PrefillChild> started = start_prefill_child(arguments);
        if (!started) {
            return kExitFailed;
        }
        child.emplace(std::move(*started));
        a.prefill = child->address;
    }
    a.config.decode.prefill = a.prefill;
    const char* scheme = a.config.http.tls() ? "https" : "http";
    const std::string host = a.config.listen.substr(0, a.config.listen.rfind(':'));
    a.config.on_listening = [scheme, host](std::uint16_t port) {
        std::printf("serving on %s://%s:%u\n", scheme, host.c_str(), static_cast<unsigned>(port));
        std::fflush(stdout);
    };
    a.config.on_log = [json = a.log == "json"](const lynx::RequestLog& entry) {
        std::fprintf(stderr, "%s\n", (json ? lynx::to_json(entry) : lynx::to_text(entry)).c_str());
    };
    const lynx::Status status = lynx::run_server(a.config, context.stop.token());
    return status.ok() ? kExitOk : exit_code(status);
}

}  // namespace

void add_serve_command(CLI::App& app, Context context) {
    auto a = std::make_shared<Arguments>();
    a->config.decode.model.sequences = 4;
    CLI::App* command = app.add_subcommand("serve", "answer OpenAI API requests, many at once");
    command
        ->add_option("--listen", a->config.listen,
                     "HOST:PORT; port 0 picks a free one; beyond loopback TLS and an API key are needed")
        ->capture_default_str();
    command->add_option("--prefill", a->prefill, "HOST:PORT of the prefill node; without it one is started here");
    add_model_options(*command, a->config.decode.model);
    command->add_option("--sequences", a->config.decode.model.sequences, "requests that run at once")
        ->capture_default_str();
    add_link_options(*command, a->link);
    add_security_options(*command, a->config.decode.security);
    add_codec_options(*command, a->config.defaults.codec);
    command->add_option("--window", a->config.defaults.window, "draft exactly this many tokens; default: adaptive");
    command->add_option("--queue", a->config.queue_max, "requests that may wait; more are answered 429")
        ->capture_default_str();
    command->add_option("--model-id", a->config.model_id, "what clients call the model; default: its own name");
    command->add_option("--api-key", a->config.api_keys, "a key that clients must show; repeatable")
        ->envname("LYNXKV_API_KEY");
    CLI::Option* certificate = command->add_option("--http-cert", a->config.http.certificate,
                                                   "PEM file: the HTTP port's certificate, for TLS");
    CLI::Option* key = command->add_option("--http-key", a->config.http.private_key, "PEM file: its private key");
    certificate->needs(key);
    key->needs(certificate);
    for (CLI::Option* option : {certificate, key}) {
        // An empty one, say from a variable that is not set, must not come to mean plaintext.
        option->check([](const std::string& value) { return value.empty() ? "is empty" : std::string(); });
    }
    command->add_flag("--http-open", a->config.http.allow_open,
                      "listen beyond loopback without TLS or keys, for a proxy in front guards the port");
    command->add_option("--cors-origin", a->config.cors_origins,
                        "a web origin whose pages may ask, or * for any; repeatable; default: none");
    command->add_option("--drain-timeout", a->config.drain_timeout_s, "seconds that running requests get at the end")
        ->capture_default_str();
    command->add_option("--log", a->log, "form of the line per request on stderr")
        ->check(CLI::IsMember({"text", "json"}))
        ->capture_default_str();
    command->callback([a, context] { context.exit_code = run(*a, context); });
}

}  // namespace lynxkv
