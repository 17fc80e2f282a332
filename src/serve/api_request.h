// What a client of the OpenAI API may ask for, from JSON to a GenerateRequest. Everything is checked: wrong types, unknown values and what this
// server does not do are errors that name the field; fields nobody knows are ignored, as the API's own servers do.
// Reference: the OpenAI API's "completions" and "chat completions"; what is added stands under "lynx" (docs/serving.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/engine.h"
#include "lynx/node.h"
#include "serve/api_error.h"

namespace lynx::serve {

enum class Endpoint : std::uint8_t { completions, chat };

struct ApiRequest {
    Endpoint endpoint = Endpoint::completions;
    bool stream = false;
    bool include_usage = false;                 ///< of a stream, in its last chunk
    bool provisional = false;                   ///< of a stream: drafts and retractions too
    std::vector<engine::ChatMessage> messages;  ///< chat
    GenerateRequest generate;  ///< prompt or prompt_tokens for completions; max_tokens 0: as many as fit
};

inline constexpr std::size_t kBodyBytesMax = std::size_t{16} << 20;
inline constexpr std::size_t kMessagesMax = 1024;

/// `model`: the one that is served. `defaults`: codec and window of a request that names none.
[[nodiscard]] std::variant<ApiRequest, ApiError> parse_request(Endpoint endpoint, std::string_view body,
                                                               const std::string& model,
                                                               const GenerateRequest& defaults);

}  // namespace lynx::serve
