/* The codec as a C library (liblynxkv-codec): encode one page of KV into one payload per tier, decode any tier of it.
 *
 * Plain C, for C, C++ and every language that can call C. No function throws, prints, aborts on bad input or keeps a
 * pointer it was given beyond the call; bytes handed to decode or describe may be anything. Payload format:
 * docs/format/FORMAT.md. Deliberately not here: files, peers, models.
 *
 * Thread-safety: a codec is immutable; all functions may be called from several threads at once, also on one codec, but
 * for lynxkv_codec_destroy, which must be the last call on it. The message of lynxkv_last_error belongs to the calling thread.
 *
 * Words: a page is a matrix [tokens, channels] of one layer's K or V, at most page_tokens tokens. A codec turns it into
 * `tiers` payloads; tier 0 is the anchor. Decoding tier t needs the payloads 0..t of the page.
 */
#pragma once

/* C has no <cstddef>, no using and no namespaces: */
/* NOLINTBEGIN(modernize-deprecated-headers,modernize-use-using,readability-identifier-naming) */

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define LYNXKV_API __attribute__((visibility("default")))
#else
#define LYNXKV_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** Of this header; part of the SONAME, and raised by every incompatible change. */
#define LYNXKV_CODEC_ABI_VERSION 0

/** Payloads per page at most, over all codecs. */
#define LYNXKV_TIERS_MAX 8

/** What every fallible function returns. The numbers never change. */
typedef int32_t lynxkv_status;
enum {
    LYNXKV_OK = 0,
    LYNXKV_TRUNCATED = 1,           /**< the payload ends too early */
    LYNXKV_CORRUPT = 2,             /**< a checksum, field or relation between fields is wrong */
    LYNXKV_UNSUPPORTED_VERSION = 3, /**< a version or codec this build does not know */
    LYNXKV_INVALID_ARGUMENT = 4,    /**< the call asks for something impossible */
    LYNXKV_LIMIT_EXCEEDED = 5,      /**< a buffer is too small, or a maximum of the format would be passed */
    LYNXKV_IO = 6                   /**< the operating system refused: out of memory */
};

/** Element type of a page. */
enum { LYNXKV_F16 = 0, LYNXKV_BF16 = 1, LYNXKV_F32 = 2 };

/** Precision of the metadata of alg1 and lynx44. */
enum { LYNXKV_META_F32 = 0, LYNXKV_META_F16 = 1, LYNXKV_META_Q8 = 2 };

/** Parameters of a codec; a codec ignores what it has no use for. Both sides of a transfer need the same. */
typedef struct lynxkv_codec_params {
    float alpha;           /**< curvature of the alpha-law, 2^-10..2^20 */
    uint32_t chunk_tokens; /**< 1..1024 */
    uint32_t page_tokens;  /**< 1..4096 */
    uint32_t meta;         /**< LYNXKV_META_* */
    uint32_t sinks;        /**< first tokens of a sequence kept exact in the anchor, 0..1024 */
    uint32_t recent;       /**< newest tokens of a sequence kept exact in the anchor, 0..1024 */
} lynxkv_codec_params;

/** A page in the caller's memory: element (t, c) lies at data + (t * token_stride + c * channel_stride) elements. Strides
 *  count elements, and may be negative. `data` is aligned to the element's size; all elements lie in readable (for a
 *  destination: writable, non-overlapping) memory. */
typedef struct lynxkv_source {
    const void* data;
    uint32_t dtype; /**< LYNXKV_F16, _BF16 or _F32 */
    uint32_t tokens;
    uint32_t channels;
    ptrdiff_t token_stride;
    ptrdiff_t channel_stride;
} lynxkv_source;

typedef struct lynxkv_destination {
    void* data;
    uint32_t dtype;
    uint32_t tokens;
    uint32_t channels;
    ptrdiff_t token_stride;
    ptrdiff_t channel_stride;
} lynxkv_destination;

/** What a page holds. */
enum { LYNXKV_KEY = 0, LYNXKV_VALUE = 1, LYNXKV_LATENT = 2 };

/** What a page is besides its elements. Position decides which tokens are sinks or recent; some codecs also use the rest, and carry
 *  what decoding needs of it in the payload. */
typedef struct lynxkv_context {
    uint32_t first_token;     /**< position of the page's first token */
    uint32_t sequence_tokens; /**< of the whole sequence; 0: unknown */
    uint32_t layer;
    uint32_t kind;             /**< LYNXKV_KEY, _VALUE or _LATENT */
    uint32_t head_channels;    /**< channels per head, which divide the page's; 0: unknown */
    uint32_t rope_dims;        /**< rotated channels per head, the first ones, even; 0: none, and for values */
    float rope_base;           /**< frequency base; 0 without rotation */
    float rope_scale;          /**< linear position scale; 1 without one */
    uint32_t rope_interleaved; /**< 1: pairs (2i, 2i+1); 0: (i, i + rope_dims / 2) */
} lynxkv_context;

/** A page of values at the start of a sequence of unknown length. */
LYNXKV_API void lynxkv_context_init(lynxkv_context* context);

/** Room for one payload. `bytes` is written by lynxkv_encode. */
typedef struct lynxkv_buffer {
    void* data;
    size_t capacity;
    size_t bytes;
} lynxkv_buffer;

typedef struct lynxkv_payload {
    const void* data;
    size_t bytes;
} lynxkv_payload;

/** What a payload says about itself. */
typedef struct lynxkv_payload_info {
    const char* codec; /**< name for lynxkv_codec_create; lives as long as the library */
    lynxkv_codec_params params;
    uint32_t tier;
    uint32_t tiers;
    uint32_t dtype;
    uint32_t tokens;
    uint32_t channels;
} lynxkv_payload_info;

typedef struct lynxkv_codec lynxkv_codec;

/** "0.1.0": version of the library. */
LYNXKV_API const char* lynxkv_version(void);
/** LYNXKV_CODEC_ABI_VERSION of the library that was linked. */
LYNXKV_API uint32_t lynxkv_codec_abi_version(void);

/** The snake_case name of a status, or "unknown". */
LYNXKV_API const char* lynxkv_status_name(lynxkv_status status);
/** One line that says why this thread's last failed call failed; "" before the first. Valid until its next failed call. */
LYNXKV_API const char* lynxkv_last_error(void);

/** How many codecs this build has. */
LYNXKV_API size_t lynxkv_codec_count(void);
/** Name of codec `index`, the default codec first; NULL when there is none. Lives as long as the library. */
LYNXKV_API const char* lynxkv_codec_name(size_t index);

/** Fills in the defaults. */
LYNXKV_API void lynxkv_codec_params_init(lynxkv_codec_params* params);

/** Makes a codec; `params` NULL: the defaults. On success *out is the caller's, to be given to lynxkv_codec_destroy, else NULL.
 *  LYNXKV_INVALID_ARGUMENT: unknown name, or a parameter out of range. */
LYNXKV_API lynxkv_status lynxkv_codec_create(const char* name, const lynxkv_codec_params* params, lynxkv_codec** out);
/** NULL is allowed. */
LYNXKV_API void lynxkv_codec_destroy(lynxkv_codec* codec);
/** Payloads per page, 1..LYNXKV_TIERS_MAX. */
LYNXKV_API uint32_t lynxkv_codec_tiers(const lynxkv_codec* codec);

/** Upper bound in bytes of tier `tier`'s payload for a page of this shape, wherever it lies in its sequence.
 *  0: no page of this shape, or no such tier. */
LYNXKV_API size_t lynxkv_encoded_bytes_max(const lynxkv_codec* codec, uint32_t tokens, uint32_t channels,
                                           uint32_t dtype, uint32_t tier);

/** Encodes one page into out[0..tiers-1], and writes how long each payload is. `out_count` must be the codec's tiers;
 *  `context` NULL: what lynxkv_context_init gives.
 *  LYNXKV_INVALID_ARGUMENT: empty or oversized page, NaN or infinite element, impossible context, misaligned or missing
 *  pointer;
 *  LYNXKV_LIMIT_EXCEEDED: a buffer is too small (its `bytes` then says what it needs; nothing is written). */
LYNXKV_API lynxkv_status lynxkv_encode(const lynxkv_codec* codec, const lynxkv_source* page,
                                       const lynxkv_context* context, lynxkv_buffer* out, size_t out_count);

/** Decodes tier payload_count - 1 from the payloads 0..payload_count-1 of one page. The destination's shape and dtype must be
 *  the page's. On any failure the destination's content is unspecified, and nothing outside of it was written. */
LYNXKV_API lynxkv_status lynxkv_decode(const lynxkv_codec* codec, const lynxkv_payload* payloads, size_t payload_count,
                                       const lynxkv_destination* destination);

/** Checks header and checksum of one payload and tells what it is: what a receiver needs to make the codec and room for the
 *  page. LYNXKV_TRUNCATED, _CORRUPT, _UNSUPPORTED_VERSION, _LIMIT_EXCEEDED, _INVALID_ARGUMENT. */
LYNXKV_API lynxkv_status lynxkv_payload_describe(const void* payload, size_t bytes, lynxkv_payload_info* info);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(modernize-deprecated-headers,modernize-use-using,readability-identifier-naming) */
