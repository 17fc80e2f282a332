// The decode node for one request at a time: a scheduler with a caller that waits.
#include <future>
#include <utility>

#include "base/try.h"
#include "lynx/node.h"
#include "node/decode_scheduler.h"

namespace lynx {

namespace node {
namespace {

class DecodeNodeImpl final : public DecodeNode {
public:
    explicit DecodeNodeImpl(std::unique_ptr<DecodeScheduler> scheduler) : scheduler_(std::move(scheduler)) {}

    Result<GenerateReport> generate(const GenerateRequest& request, const GenerateEvents& events,
                                    std::stop_token stop) override {
        std::promise<Result<GenerateReport>> promise;
        LYNX_ASSIGN(const DecodeScheduler::JobId id,
                    scheduler_->submit(request, events,
                                       [&](Result<GenerateReport> report) { promise.set_value(std::move(report)); }));
        const std::stop_callback cancel(stop, [&] { scheduler_->cancel(id); });
        return promise.get_future().get();
    }

private:
    std::unique_ptr<DecodeScheduler> scheduler_;
};

}  // namespace
}  // namespace node

Result<std::unique_ptr<DecodeNode>> DecodeNode::create(const DecodeConfig& config) {
    LYNX_ASSIGN(std::unique_ptr<node::DecodeScheduler> scheduler, node::DecodeScheduler::open(config, 1));
    return std::unique_ptr<DecodeNode>(std::make_unique<node::DecodeNodeImpl>(std::move(scheduler)));
}

}  // namespace lynx
