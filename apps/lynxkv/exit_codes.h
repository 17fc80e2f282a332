// Exit codes of the CLI (README, "Exit codes").
#pragma once

#include "lynx/status.h"

namespace lynxkv {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitInterrupted = 130;

/// Prints "lynxkv: <status>" as one line to stderr when it failed.
[[nodiscard]] int exit_code(const lynx::Status& status);

}  // namespace lynxkv
