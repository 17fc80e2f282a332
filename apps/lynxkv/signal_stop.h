// SIGINT and SIGTERM as a stop_token. Make one before any other thread starts: it blocks the signals for all of them.
#pragma once

#include <stop_token>
#include <thread>

namespace lynxkv {

class SignalStop {
public:
    SignalStop();
    [[nodiscard]] std::stop_token token() const { return source_.get_token(); }
    [[nodiscard]] bool stopped() const { return source_.stop_requested(); }

private:
    std::stop_source source_;
    std::jthread watcher_;  // joined last: declared after what it uses
};

}  // namespace lynxkv
