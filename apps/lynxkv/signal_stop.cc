#include "signal_stop.h"

#include <csignal>
#include <ctime>

#include "exit_codes.h"

namespace lynxkv {

SignalStop::SignalStop() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    watcher_ = std::jthread([this, set](const std::stop_token& done) {
        constexpr timespec kPoll{0, 100'000'000};
        while (!done.stop_requested()) {
            if (sigtimedwait(&set, nullptr, &kPoll) > 0) {
                if (source_.stop_requested()) {
                    _Exit(kExitInterrupted);  // asked twice: do not wait for an orderly end
                }
                source_.request_stop();
            }
        }
    });
}

}  // namespace lynxkv
