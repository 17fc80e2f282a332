// The HTTP side: routes, keys, streams and shutdown. One thread per connection waits; all inference is the scheduler's.
#include <httplib.h>

#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "base/try.h"
#include "lynx/serve.h"
#include "node/decode_scheduler.h"
#include "node/endpoint.h"
#include "serve/answer_stream.h"
#include "serve/api_request.h"
#include "serve/api_response.h"
#include "serve/pending_answer.h"
#include "serve/server_metrics.h"
#include "transport/tcp/socket.h"

namespace lynx {

namespace serve {
namespace {

constexpr const char* kJson = "application/json";
constexpr auto kLookAtClient = std::chrono::milliseconds(200);  // how soon a client that left is noticed
constexpr time_t kSocketTimeoutSeconds = 10;
constexpr std::size_t kSpareThreads = 8;  // beside the requests: probes, metrics, refusals
constexpr const char* kRetryAfterSeconds = "1";

std::string random_id(const char* prefix) {
    static constexpr char kDigits[] = "0123456789abcdef";
    std::random_device source;
    std::string id(prefix);
    for (int i = 0; i < 24; ++i) {
        id += kDigits[source() % 16];
    }
    return id;
}

std::int64_t unix_seconds() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

/// Takes as long for a wrong key as for a right one of the same length.
bool same_secret(std::string_view a, std::string_view b) noexcept {
    unsigned char difference = a.size() == b.size() ? 0 : 1;
    for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
        difference = static_cast<unsigned char>(difference | (a[i] ^ b[i]));
    }
    return difference == 0;
}

void send(httplib::Response& response, const ApiError& error) {
    response.status = error.http_status;
    if (error.http_status == 429) {
        response.set_header("Retry-After", kRetryAfterSeconds);
    }
    response.set_content(to_json(error), kJson);
}

class Server {
public:
    Server(const ServeConfig& config, node::DecodeScheduler& scheduler)
        : config_(config),
          scheduler_(scheduler),
          model_(config.model_id.empty() ? scheduler.engine().info().name : config.model_id),
          started_(unix_seconds()) {
        declare_metrics(metrics_);
        add_routes();
    }

    Status run(const std::stop_token& stop) {
        LYNX_ASSIGN(const node::Endpoint endpoint, node::parse_endpoint(config_.listen));
        LYNX_TRY(transport::resolve(endpoint.host, endpoint.port, transport::Reach::loopback).status());
        int port = endpoint.port;
        if (port == 0) {
            port = http_.bind_to_any_port(endpoint.host);
        } else if (!http_.bind_to_port(endpoint.host, port)) {
            port = -1;
        }
        if (port < 0) {
            return {ErrorCode::io, "cannot listen on " + config_.listen};
        }
        std::jthread listener([this] { http_.listen_after_bind(); });
        if (config_.on_listening) {
            config_.on_listening(static_cast<std::uint16_t>(port));
        }
        const auto stopped = [&] { return stop.stop_requested(); };
        wait_until(stopped, std::chrono::steady_clock::time_point::max());
        draining_ = true;
        const auto deadline =
            std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::nanoseconds>(
                                                   std::chrono::duration<double>(config_.drain_timeout_s));
        wait_until([this] { return answering_ == 0; }, deadline);
        scheduler_.stop();  // whoever still waits for an answer gets one
        http_.stop();
        return {};
    }

private:
    template <class Condition>
    static void wait_until(Condition condition, std::chrono::steady_clock::time_point deadline) {
        while (!condition() && std::chrono::steady_clock::now() < deadline) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
    }

    void log(const std::string& line) const {
        if (config_.on_log) {
            config_.on_log(line);
        }
    }

    void add_routes() {
        http_.new_task_queue = [threads = config_.queue_max + config_.decode.model.sequences + kSpareThreads] {
            return new httplib::ThreadPool(threads);
        };
        http_.set_payload_max_length(kBodyBytesMax);
        http_.set_read_timeout(kSocketTimeoutSeconds);
        http_.set_write_timeout(kSocketTimeoutSeconds);
        http_.set_tcp_nodelay(true);
        http_.set_pre_routing_handler([this](const auto& request, auto& response) { return admit(request, response); });
        http_.set_error_handler([](const auto& /*request*/, auto& response) {
            if (response.body.empty()) {
                send(response, {.http_status = response.status,
                                .message = response.status == 413 ? "the body is too large" : "no such page"});
            }
        });
        http_.Get("/health", [](const auto&, auto& response) { response.set_content("ok\n", "text/plain"); });
        http_.Get("/ready", [this](const auto&, auto& response) { ready(response); });
        http_.Get("/metrics", [this](const auto&, auto& response) { metrics(response); });
        http_.Get("/v1/models", [this](const auto&, auto& response) { models(response); });
        http_.Post("/v1/completions",
                   [this](const auto& request, auto& response) { answer(Endpoint::completions, request, response); });
        http_.Post("/v1/chat/completions",
                   [this](const auto& request, auto& response) { answer(Endpoint::chat, request, response); });
    }

    /// Keys guard everything under /v1; probes and metrics are open.
    httplib::Server::HandlerResponse admit(const httplib::Request& request, httplib::Response& response) const {
        using Answer = httplib::Server::HandlerResponse;
        if (config_.api_keys.empty() || request.path.rfind("/v1/", 0) != 0) {
            return Answer::Unhandled;
        }
        const std::string given = request.get_header_value("Authorization");
        bool known = false;
        for (const std::string& key : config_.api_keys) {
            known = same_secret(given, "Bearer " + key) || known;
        }
        if (known) {
            return Answer::Unhandled;
        }
        send(response, {.http_status = 401,
                        .type = "authentication_error",
                        .message = "a valid API key is needed as a bearer token",
                        .code = "invalid_api_key"});
        return Answer::Handled;
    }

    void ready(httplib::Response& response) {
        const Status peer = scheduler_.peer_status();
        if (draining_ || !peer.ok()) {
            response.status = 503;
            response.set_content(draining_ ? std::string("draining\n") : "prefill node: " + peer.to_string() + "\n",
                                 "text/plain");
            return;
        }
        response.set_content("ready\n", "text/plain");
    }

    void metrics(httplib::Response& response) {
        const node::DecodeScheduler::Load load = scheduler_.load();
        metrics_.set("lynx:num_requests_running", static_cast<double>(load.running));
        metrics_.set("lynx:num_requests_waiting", static_cast<double>(load.waiting));
        metrics_.set("lynx:prefill_node_up", scheduler_.peer_status().ok() ? 1 : 0);
        response.set_content(metrics_.text(), "text/plain; version=0.0.4");
    }

    void models(httplib::Response& response) const { response.set_content(model_list(model_, started_), kJson); }

    void answer(Endpoint endpoint, const httplib::Request& request, httplib::Response& response) {
        if (draining_) {
            send(response, {.http_status = 503, .type = "server_error", .message = "the server is stopping"});
            return;
        }
        auto parsed = parse_request(endpoint, request.body, model_, config_.defaults);
        if (const auto* error = std::get_if<ApiError>(&parsed)) {
            send(response, *error);
            return;
        }
        auto& wanted = std::get<ApiRequest>(parsed);
        if (const Status status = make_prompt(wanted); !status.ok()) {
            send(response, {.message = status.message()});  // whatever is wrong with it, the client sent it
            return;
        }
        const AnswerHead head{.endpoint = endpoint,
                              .id = random_id(endpoint == Endpoint::chat ? "chatcmpl-" : "cmpl-"),
                              .model = model_,
                              .created = unix_seconds()};
        auto pending = std::make_shared<PendingAnswer>();
        GenerateEvents events;
        if (wanted.stream) {
            events.on_text = [pending](const TextUpdate& update) { pending->add(update); };
        }
        ++answering_;
        const auto job =
            scheduler_.submit(wanted.generate, std::move(events), [this, pending, id = head.id](auto report) {
                count(id, report);
                pending->finish(std::move(report));
                --answering_;
            });
        if (!job.ok()) {
            --answering_;
            count_failure(metrics_, job.status().code());
            log(head.id + " refused: " + job.status().to_string());
            send(response, error_of(job.status()));
        } else if (wanted.stream) {
            stream(head, wanted, pending, job.value(), response);
        } else {
            whole(head, *pending, response);
        }
    }

    /// The chat's prompt as tokens; output as long as fits, where no length was asked for.
    Status make_prompt(ApiRequest& wanted) const {
        const engine::Engine& engine = scheduler_.engine();
        GenerateRequest& generate = wanted.generate;
        if (wanted.endpoint == Endpoint::chat) {
            LYNX_ASSIGN(const std::string prompt, engine.chat_prompt(wanted.messages));
            LYNX_ASSIGN(generate.prompt_tokens, engine.tokenize(prompt, true));
        }
        if (generate.max_tokens == 0) {
            const std::size_t used = generate.prompt_tokens.size();
            const std::size_t context = engine.info().context_tokens;
            generate.max_tokens = used < context ? static_cast<std::uint32_t>(context - used) : 1;
        }
        return {};
    }

    void count(const std::string& id, const Result<GenerateReport>& report) {
        if (report.ok()) {
            count_answer(metrics_, report.value());
            log(id + " answered: " + std::to_string(report.value().prompt_tokens) + " + " +
                std::to_string(report.value().tokens.size()) + " tokens, " + std::to_string(report.value().accepted) +
                " of " + std::to_string(report.value().drafted) + " drafts accepted");
        } else {
            count_failure(metrics_, report.status().code());
            log(id + " failed: " + report.status().to_string());
        }
    }

    void whole(const AnswerHead& head, PendingAnswer& pending, httplib::Response& response) const {
        PendingAnswer::News news;
        while (!news.end) {
            news = pending.wait(std::chrono::seconds(1));
        }
        if (news.end->ok()) {
            response.set_content(completion(head, news.end->value(), piece()), kJson);
        } else {
            send(response, error_of(news.end->status()));
        }
    }

    void stream(const AnswerHead& head, const ApiRequest& wanted, std::shared_ptr<PendingAnswer> pending,
                node::DecodeScheduler::JobId job, httplib::Response& response) {
        response.set_header("Cache-Control", "no-cache");
        response.set_chunked_content_provider(
            "text/event-stream",
            [pending = std::move(pending), answer = std::make_shared<AnswerStream>(head, wanted, piece())](
                std::size_t /*offset*/, httplib::DataSink& sink) {
                const PendingAnswer::News news = pending->wait(kLookAtClient);
                const std::string out = answer->events(news);
                const bool alive = out.empty() ? sink.is_writable() : sink.write(out.data(), out.size());
                if (news.end && alive) {
                    sink.done();
                }
                return alive;
            },
            // Also when the client left: an ended job is not there to be cancelled.
            [this, job](bool /*complete*/) { scheduler_.cancel(job); });
    }

    [[nodiscard]] AnswerLogprobs::Piece piece() const {
        return [this](std::int32_t token) { return scheduler_.engine().piece(token); };
    }

    const ServeConfig& config_;
    node::DecodeScheduler& scheduler_;
    std::string model_;
    std::int64_t started_;
    Metrics metrics_;
    std::atomic<bool> draining_{false};
    std::atomic<std::uint64_t> answering_{0};
    httplib::Server http_;
};

}  // namespace
}  // namespace serve

Status run_server(const ServeConfig& config, const std::stop_token& stop) {
    LYNX_ASSIGN(const std::unique_ptr<node::DecodeScheduler> scheduler,
                node::DecodeScheduler::open(config.decode, config.queue_max));
    serve::Server server(config, *scheduler);
    return server.run(stop);
}

}  // namespace lynx
