#include "base/bytes.h"

namespace lynx::base {

Status Reader::status(std::string_view what) const {
    if (!failed_) {
        return {};
    }
    return {ErrorCode::truncated,
            std::string(what) + ": ends at offset " + std::to_string(offset_) + " of " + std::to_string(in_.size())};
}

}  // namespace lynx::base
