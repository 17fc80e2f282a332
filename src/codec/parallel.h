// Many pages on several threads. Pages are independent, so the bytes do not depend on the number of threads, nor does the error:
// it is that of the first page, in order, that has one.
#pragma once

#include <span>

#include "codec/codec.h"

namespace lynx::codec {

struct PageToEncode {
    kv::ConstView page;
    PageContext context;
};

/// Encodes pages[i] into out[i * tiers .. (i + 1) * tiers - 1], as Codec::encode does. Blocks until all are done; `threads`
/// counts the calling one. invalid_argument: no thread, sizes that do not agree, or as Codec::encode, with the page's index.
[[nodiscard]] Status encode_pages(const Codec& codec, std::span<const PageToEncode> pages, unsigned threads,
                                  std::span<base::Bytes> out);

struct PageToDecode {
    std::span<const base::ByteView> payloads;  ///< tiers 0..n-1
    kv::View dst;
};

/// Decodes all pages, whose destinations must not overlap. Otherwise as encode_pages; errors as Codec::decode.
[[nodiscard]] Status decode_pages(const Codec& codec, std::span<const PageToDecode> pages, unsigned threads);

}  // namespace lynx::codec
