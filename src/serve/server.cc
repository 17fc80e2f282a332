// The HTTP side: routes, probes and shutdown. One thread per connection waits; all inference is the scheduler's.
#include <httplib.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/try.h"
#include "lynx/serve.h"
#include "node/decode_scheduler.h"
#include "serve/answers.h"
#include "serve/api_request.h"
#include "serve/api_response.h"
#include "serve/event_feed.h"
#include "serve/http_error.h"
#include "serve/http_listener.h"
#include "serve/live_page.h"
#include "serve/server_metrics.h"

namespace lynx {

namespace serve {
namespace {

constexpr const char* kJson = "application/json";
constexpr time_t kSocketTimeoutSeconds = 10;
constexpr std::size_t kSpareThreads = 8;  // beside the requests: probes, metrics, refusals

std::int64_t unix_seconds() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

class Server {
public:
    Server(const ServeConfig& config, node::DecodeScheduler& scheduler, std::unique_ptr<httplib::Server> http)
        : config_(config),
          scheduler_(scheduler),
          model_(config.model_id.empty() ? scheduler.engine().info().name : config.model_id),
          started_(unix_seconds()),
          answers_({.config = config,
                    .scheduler = scheduler,
                    .metrics = metrics_,
                    .feed = feed_,
                    .model = model_,
                    .uptime_s = [this] { return uptime_s(); }}),
          guard_(config),
          http_(std::move(http)) {
        declare_metrics(metrics_);
        add_routes();
    }

    Status run(const std::stop_token& stop) {
        LYNX_ASSIGN(const std::uint16_t port, bind_http(*http_, config_));
        std::jthread listener([this] { http_->listen_after_bind(); });
        if (config_.on_listening) {
            config_.on_listening(port);
        }
        const auto stopped = [&] { return stop.stop_requested(); };
        wait_until(stopped, std::chrono::steady_clock::time_point::max());
        answers_.drain();
        const auto deadline =
            std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::nanoseconds>(
                                                   std::chrono::duration<double>(config_.drain_timeout_s));
        wait_until([this] { return answers_.under_way() == 0; }, deadline);
        scheduler_.stop();  // whoever still waits for an answer gets one
        http_->stop();
        return {};
    }

private:
    template <class Condition>
    static void wait_until(Condition condition, std::chrono::steady_clock::time_point deadline) {
        while (!condition() && std::chrono::steady_clock::now() < deadline) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
    }

    void add_routes() {
        http_->new_task_queue = [threads = config_.queue_max + config_.decode.model.sequences +
                                           EventFeed::kWatchersMax +
                                           kSpareThreads] { return new httplib::ThreadPool(threads); };
        http_->set_payload_max_length(kBodyBytesMax);
        http_->set_read_timeout(kSocketTimeoutSeconds);
        http_->set_write_timeout(kSocketTimeoutSeconds);
        http_->set_tcp_nodelay(true);
        http_->set_pre_routing_handler(
            [this](const auto& request, auto& response) { return guard_.admit(request, response); });
        http_->set_error_handler([](const auto& /*request*/, auto& response) {
            if (response.body.empty()) {
                send(response, {.http_status = response.status,
                                .message = response.status == 413 ? "the body is too large" : "no such page"});
            }
        });
        http_->Get("/health", [](const auto&, auto& response) { response.set_content("ok\n", "text/plain"); });
        http_->Get("/ready", [this](const auto&, auto& response) { ready(response); });
        http_->Get("/metrics", [this](const auto&, auto& response) { metrics(response); });
        http_->Get("/v1/models", [this](const auto&, auto& response) { models(response); });
        http_->Post("/v1/completions", [this](const auto& request, auto& response) {
            answers_.answer(Endpoint::completions, request, response);
        });
        http_->Post("/v1/chat/completions", [this](const auto& request, auto& response) {
            answers_.answer(Endpoint::chat, request, response);
        });
        http_->Get("/", [](const auto&, auto& response) { send_page(response); });
        http_->Get("/lynx/events", [this](const auto& request, auto& response) {
            send_events(request, response, feed_, [this] { return state(); });
        });
    }

    void ready(httplib::Response& response) {
        const Status peer = scheduler_.peer_status();
        if (answers_.draining() || !peer.ok()) {
            response.status = 503;
            response.set_content(
                answers_.draining() ? std::string("draining\n") : "prefill node: " + peer.to_string() + "\n",
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

    [[nodiscard]] double uptime_s() const {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
    }

    [[nodiscard]] ServerState state() const {
        const node::DecodeScheduler::Load load = scheduler_.load();
        return {.model = model_,
                .now_s = uptime_s(),
                .running = load.running,
                .waiting = load.waiting,
                .sequences = config_.decode.model.sequences,
                .prefill_up = scheduler_.peer_status().ok(),
                .draining = answers_.draining()};
    }

    const ServeConfig& config_;
    node::DecodeScheduler& scheduler_;
    std::string model_;
    std::int64_t started_;
    std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
    Metrics metrics_;
    EventFeed feed_;
    Answers answers_;
    HttpGuard guard_;
    std::unique_ptr<httplib::Server> http_;
};

}  // namespace
}  // namespace serve

Status run_server(const ServeConfig& config, const std::stop_token& stop) {
    LYNX_ASSIGN(std::unique_ptr<httplib::Server> http, serve::make_http_server(config.http));
    LYNX_ASSIGN(const std::unique_ptr<node::DecodeScheduler> scheduler,
                node::DecodeScheduler::open(config.decode, config.queue_max));
    serve::Server server(config, *scheduler, std::move(http));
    return server.run(stop);
}

}  // namespace lynx
