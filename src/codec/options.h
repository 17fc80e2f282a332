// From the options a user gives to the parameters a codec takes, and back.
#pragma once

#include <string>

#include "codec/codec.h"
#include "lynx/codec.h"
#include "lynx/status.h"

namespace lynx::codec {

/// invalid_argument: unknown metadata format. Ranges are make_codec's to check; a value too large for its field becomes the largest one,
/// which that check refuses.
[[nodiscard]] Result<CodecParams> to_params(const CodecOptions& options);
[[nodiscard]] CodecOptions to_options(const std::string& name, const CodecParams& params);

}  // namespace lynx::codec
