// LYNX_TRY and LYNX_ASSIGN: return early with the Status of a failed call.
#pragma once

#include "lynx/status.h"

#define LYNX_TRY(expression)                                                \
    do {                                                                    \
        if (::lynx::Status try_status_ = (expression); !try_status_.ok()) { \
            return try_status_;                                             \
        }                                                                   \
    } while (false)

#define LYNX_CONCAT_INNER(a, b) a##b
#define LYNX_CONCAT(a, b) LYNX_CONCAT_INNER(a, b)

/// LYNX_ASSIGN(auto x, f()): x is f()'s value, or the enclosing function returns f()'s Status.
#define LYNX_ASSIGN(declaration, expression) \
    LYNX_ASSIGN_INNER(LYNX_CONCAT(try_result_, __LINE__), declaration, expression)
#define LYNX_ASSIGN_INNER(result, declaration, expression) \
    auto result = (expression);                            \
    if (!result.ok()) {                                    \
        return result.status();                            \
    }                                                      \
    declaration = std::move(result).value()
