"""FORMAT sections 4, 6 and 11, and the way from a file to a matrix."""

import numpy as np

from .alpha import decode_alpha
from .structure import (BF16, F16, F32, ITEM_BYTES, BodyReader, FormatError, parse_file, parse_payload, require, round_to,
                        signed)

__all__ = ["FormatError", "decode_file", "decode_page"]

ARRAY_DTYPE = {F16: "<f2", BF16: "<u2", F32: "<f4"}


def decode_integers(bodies, parameters, tokens, channels):
    """Section 6, without f16."""
    groups = -(-channels // 32)
    reader = BodyReader(bodies[0])
    scale_bits = reader.array("<u2", tokens, groups)
    require(bool((scale_bits < 0x7C00).all()), "a scale is negative, infinite or NaN")
    half_scale = np.float32(0.5) * scale_bits.view(np.float16).astype(np.float32)
    half_scale = np.repeat(half_scale, 32, axis=1)[:, :channels]
    if parameters.codec == "int8":
        doubled = 2 * reader.array("i1", tokens, channels).astype(np.int32)
    else:
        a = signed(reader.nibbles(tokens, channels))
        if parameters.codec == "int4":
            doubled = 2 * a
        elif len(bodies) == 1:
            doubled = 32 * a + 15
        else:
            second = BodyReader(bodies[1])
            doubled = 2 * (16 * a + second.nibbles(tokens, channels))
            second.done()
    reader.done()
    return doubled.astype(np.float32) * half_scale


def decode_nested44(bodies, parameters, tokens, channels):
    """Section 11."""
    chunks = -(-tokens // parameters.chunk_tokens)
    reader = BodyReader(bodies[0])
    words = reader.array("<u4", channels).astype(np.int64)
    b = (words & 0x1FFF ^ 0x1000) - 0x1000
    s = words >> 13 & 0x7FF
    e = (words >> 24 ^ 0x80) - 0x80
    require(bool(((e >= -100) & (e <= 117)).all()), "an exponent is out of range")
    lo = reader.array("u1", chunks, channels).astype(np.int64)
    hi = reader.array("u1", chunks, channels).astype(np.int64)
    require(bool((lo <= hi).all()), "cells are reversed")
    a = reader.nibbles(tokens, channels).astype(np.int64)
    reader.done()
    if len(bodies) == 1:
        t = 32 * a + 16
    else:
        second = BodyReader(bodies[1])
        t = 2 * (16 * a + second.nibbles(tokens, channels)) + 1
        second.done()
    chunk_of_token = np.arange(tokens) // parameters.chunk_tokens
    lo, w = lo[chunk_of_token], (hi - lo + 1)[chunk_of_token]
    fixed = (b << 10) + (s * (512 * lo + w * t) >> 5)
    return fixed.astype(np.float32) * np.ldexp(np.float32(1), (e - 10).astype(np.int32)).astype(np.float32)


def decode_core(bodies, parameters, tokens, channels):
    """The core's float32 values before rounding."""
    if parameters.codec == "f16":
        reader = BodyReader(bodies[0])
        x = reader.array("<f2", tokens, channels)
        reader.done()
        require(bool(np.isfinite(x).all()), "an element is not finite")
        return x.astype(np.float32)
    if parameters.codec == "nested44":
        return decode_nested44(bodies, parameters, tokens, channels)
    if parameters.codec in ("alg1", "lynx44"):
        return decode_alpha(bodies, parameters, tokens, channels)
    return decode_integers(bodies, parameters, tokens, channels)


def tier_0_bytes(parameters, tokens, channels):
    """Length of tier 0's part of a core, to cut a mono body in two."""
    chunks = -(-tokens // parameters.chunk_tokens)
    nibble_rows = tokens * ((channels + 1) // 2)
    if parameters.codec == "nested44":
        return 4 * channels + 2 * chunks * channels + nibble_rows
    if parameters.codec == "int8-split":
        return tokens * -(-channels // 32) * 2 + nibble_rows
    gamma, chunk = {0: (4, 4), 1: (2, 2), 2: (2, 1)}[parameters.meta]
    metadata = 2 * gamma * channels + 2 * chunk * chunks * channels
    if parameters.codec == "alg1":
        return metadata + tokens * -(-channels // 15) * 8
    return 16 + metadata + nibble_rows


def decode_page(payloads):
    """One page from the bytes of its tiers 0..t: float16, uint16 (bfloat16's bits) or float32 [tokens, channels]."""
    tiers = [parse_payload(p) for p in payloads]
    anchor = tiers[0]
    for t, payload in enumerate(tiers):
        require(payload.tier == t and payload.anchor_crc == (anchor.crc if t else 0), "tiers do not belong together")
        require((payload.parameters, payload.tokens, payload.channels, payload.exact_head, payload.exact_tail) ==
                (anchor.parameters, anchor.tokens, anchor.channels, anchor.exact_head, anchor.exact_tail),
                "tiers have different shapes")
    parameters, channels = anchor.parameters, anchor.channels
    exact = anchor.exact_head + anchor.exact_tail
    core_tokens = anchor.tokens - exact

    exact_bytes = exact * channels * ITEM_BYTES[parameters.dtype]
    require(exact_bytes <= len(anchor.body), "body length")
    raw = np.frombuffer(anchor.body[:exact_bytes], ARRAY_DTYPE[parameters.dtype]).reshape(exact, channels)
    bodies = [anchor.body[exact_bytes:]] + [p.body for p in tiers[1:]]
    if core_tokens == 0:
        require(all(len(body) == 0 for body in bodies), "body length")
        return raw
    if parameters.mono:
        cut = tier_0_bytes(parameters, core_tokens, channels)
        bodies = [bodies[0][:cut], bodies[0][cut:]]
    with np.errstate(over="ignore", invalid="ignore"):
        core = round_to(parameters.dtype, decode_core(bodies, parameters, core_tokens, channels))
    return np.concatenate([raw[:anchor.exact_head], core, raw[anchor.exact_head:]])


def decode_file(data, tier="full"):
    """A whole .lynx file at tier "anchor" or "full", as decode_page's arrays."""
    file = parse_file(data)
    pages = []
    for page in range(file.pages):
        payloads = [file.payloads[t][page] for t in range(1 if tier == "anchor" else file.parameters.tiers)]
        first = parse_payload(payloads[0])
        tokens = min(file.parameters.page_tokens, file.tokens - page * file.parameters.page_tokens)
        require((first.parameters, first.tokens, first.channels) == (file.parameters, tokens, file.channels),
                f"page {page} is not what the file header says")
        pages.append(decode_page(payloads))
    return np.concatenate(pages)
