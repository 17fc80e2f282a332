#include "exit_codes.h"

#include <cstdio>

namespace lynxkv {

int exit_code(const lynx::Status& status) {
    if (status.ok()) {
        return kExitOk;
    }
    std::fprintf(stderr, "lynxkv: %s\n", status.to_string().c_str());
    return status.code() == lynx::ErrorCode::cancelled ? kExitInterrupted : kExitFailed;
}

}  // namespace lynxkv
