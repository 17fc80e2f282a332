#include "serve/answers.h"

#include <chrono>
#include <optional>
#include <random>
#include <utility>
#include <variant>

#include "base/try.h"
#include "serve/answer_stream.h"
#include "serve/http_error.h"
#include "serve/live_events.h"
#include "serve/server_metrics.h"
#include "serve/traceparent.h"

namespace lynx::serve {
namespace {

constexpr const char* kJson = "application/json";
constexpr auto kLookAtClient = std::chrono::milliseconds(200);  // how soon a client that left is noticed

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

}  // namespace

struct Answers::Watched {
    RequestHead head;
    RequestLog log;
    std::optional<RequestProgress> progress;
};

void Answers::answer(Endpoint endpoint, const httplib::Request& request, httplib::Response& response) {
    if (draining_) {
        send(response, {.http_status = 503, .type = "server_error", .message = "the server is stopping"});
        return;
    }
    auto parsed = parse_request(endpoint, request.body, parts_.model, parts_.config.defaults);
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
                          .model = parts_.model,
                          .created = unix_seconds()};
    response.set_header("X-Request-Id", head.id);
    auto watched = std::make_shared<Watched>();
    watched->head = {.id = head.id, .codec = wanted.generate.codec.name, .sent_s = parts_.uptime_s()};
    watched->log.id = head.id;
    watched->log.traceparent = checked_traceparent(request.get_header_value("traceparent"));
    auto pending = std::make_shared<PendingAnswer>();
    const auto job = submit(wanted, watched, pending);
    if (!job.ok()) {
        send(response, error_of(job.status()));
    } else if (wanted.stream) {
        stream(head, wanted, std::move(pending), job.value(), response);
    } else {
        whole(head, *pending, response);
    }
}

/// The chat's prompt as tokens; output as long as fits, where no length was asked for.
Status Answers::make_prompt(ApiRequest& wanted) const {
    const engine::Engine& engine = parts_.scheduler.engine();
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

Result<node::DecodeScheduler::JobId> Answers::submit(const ApiRequest& wanted, const std::shared_ptr<Watched>& watched,
                                                     const std::shared_ptr<PendingAnswer>& pending) {
    GenerateEvents events;
    if (wanted.stream) {
        events.on_text = [pending](const TextUpdate& update) { pending->add(update); };
    }
    events.on_progress = [this, watched](const RequestProgress& progress) {
        if (!watched->progress) {
            watched->head.sent_s = parts_.uptime_s() - progress.now_s;  // before, it waited
        }
        watched->progress = progress;
        parts_.feed.publish(progress_event(watched->head, progress, "running"));
    };
    ++under_way_;
    parts_.feed.publish(queued_event(watched->head, watched->head.sent_s));
    auto job = parts_.scheduler.submit(wanted.generate, std::move(events), [this, watched, pending](auto report) {
        ended(*watched, report);
        pending->finish(std::move(report));
        --under_way_;
    });
    if (!job.ok()) {
        --under_way_;
        ended(*watched, job.status());
    }
    return job;
}

void Answers::ended(Watched& watched, const Result<GenerateReport>& report) {
    RequestLog& entry = watched.log;
    entry.seconds = parts_.uptime_s() - watched.head.sent_s;
    if (report.ok()) {
        const GenerateReport& r = report.value();
        count_answer(parts_.metrics, r);
        entry.event = "answered";
        entry.prompt_tokens = r.prompt_tokens;
        entry.tokens = static_cast<std::uint32_t>(r.tokens.size());
        entry.drafted = r.drafted;
        entry.accepted = r.accepted;
        entry.codec = r.codec;
    } else {
        count_failure(parts_.metrics, report.status().code());
        entry.event = "failed";
        entry.error = report.status();
    }
    parts_.feed.publish(watched.progress
                            ? progress_event(watched.head, *watched.progress, report.ok() ? "done" : "failed")
                            : failed_event(watched.head, parts_.uptime_s()));
    log(entry);
}

void Answers::whole(const AnswerHead& head, PendingAnswer& pending, httplib::Response& response) const {
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

void Answers::stream(const AnswerHead& head, const ApiRequest& wanted, std::shared_ptr<PendingAnswer> pending,
                     node::DecodeScheduler::JobId job, httplib::Response& response) const {
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
        [this, job](bool /*complete*/) { parts_.scheduler.cancel(job); });
}

AnswerLogprobs::Piece Answers::piece() const {
    return [this](std::int32_t token) { return parts_.scheduler.engine().piece(token); };
}

void Answers::log(const RequestLog& entry) const {
    if (parts_.config.on_log) {
        parts_.config.on_log(entry);
    }
}

}  // namespace lynx::serve
