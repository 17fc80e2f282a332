"""FORMAT sections 4, 11 and 14, and the way from a file to a matrix."""

from dataclasses import replace

import numpy as np

from .alpha import SPECS, decode_alpha
from .baselines import GROUP, decode_bf16_split, decode_f16, decode_fp8, decode_ggml, decode_integers
from .exact import decode_exact
from .lynxt import decode_lynxt, split_mono
from .profile import parse_profile
from .published import decode_cachegen, decode_kivi, decode_kvquant, decode_turboquant
from .structure import (BF16, CODECS, F16, F32, BodyReader, FormatError, parse_file, parse_payload, read_context, require,
                        round_to)

__all__ = ["FormatError", "decode_file", "decode_page"]

ARRAY_DTYPE = {F16: "<f2", BF16: "<u2", F32: "<f4"}
NESTED_BITS = {"nested44": (4, 4), "nested35": (3, 5), "nested26": (2, 6), "nested224": (2, 2, 4)}


def decode_nested(readers, parameters, tokens, channels):
    """Section 11."""
    chunks = -(-tokens // parameters.chunk_tokens)
    words = readers[0].array("<u4", channels).astype(np.int64)
    b = (words & 0x1FFF ^ 0x1000) - 0x1000
    s = words >> 13 & 0x7FF
    e = (words >> 24 ^ 0x80) - 0x80
    require(bool(((e >= -100) & (e <= 117)).all()), "an exponent is out of range")
    lo = readers[0].array("u1", chunks, channels).astype(np.int64)
    hi = readers[0].array("u1", chunks, channels).astype(np.int64)
    require(bool((lo <= hi).all()), "cells are reversed")
    symbol, bits = np.zeros((tokens, channels), np.int64), 0
    for reader, width in zip(readers, NESTED_BITS[parameters.codec.name]):
        symbol = symbol << width | reader.symbols(width, tokens, channels)
        bits += width
    t = (2 * symbol + 1) << (8 - bits)
    chunk_of_token = np.arange(tokens) // parameters.chunk_tokens
    lo, w = lo[chunk_of_token], (hi - lo + 1)[chunk_of_token]
    fixed = (b << 10) + (s * (512 * lo + w * t) >> 5)
    return fixed.astype(np.float32) * np.ldexp(np.float32(1), (e - 10).astype(np.int32)).astype(np.float32)


DECODERS = {
    "f16": decode_f16,
    "bf16-split": decode_bf16_split,
    "fp8-page": decode_fp8,
    "fp8-token": decode_fp8,
    "q8_0": decode_ggml,
    "q4_0": decode_ggml,
    "kivi2": decode_kivi,
    "kivi4": decode_kivi,
    "cachegen": decode_cachegen,
    "kvquant3": decode_kvquant,
    "kvquant4": decode_kvquant,
    "turboquant3": decode_turboquant,
    "turboquant4": decode_turboquant,
    **{name: decode_integers for name in (*GROUP, "int8-token", "int4-token", "int8-page", "int4-page")},
    **{name: decode_alpha for name in SPECS},
    **{name: decode_nested for name in NESTED_BITS},
}
BY_NAME = {codec.name: codec for codec in CODECS.values()}
assert {*DECODERS, "lynxt"} == {name for name, codec in BY_NAME.items() if not codec.lossy}


def decode_page(payloads, profiles):
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

    readers = [BodyReader(p.body) for p in tiers]
    if parameters.codec.context:
        parameters = replace(parameters, context=read_context(readers[0], channels, anchor.exact_head))
    raw = readers[0].array(ARRAY_DTYPE[parameters.dtype], exact, channels)
    core = raw[:0]
    if core_tokens > 0:
        # The tiers of a mono payload lie one after the other: one reader passes them all, where no lengths tell them apart.
        codec, of_tiers = parameters.codec, readers
        if parameters.mono:
            varies = codec.name == "lynxt" or codec.lossy
            of_tiers = split_mono(readers[0], codec.tiers) if varies else readers * codec.tiers
        exact = of_tiers[codec.tiers - 1:] if codec.lossy else []
        if codec.lossy:
            parameters = replace(parameters, codec=BY_NAME[codec.lossy])
            of_tiers = of_tiers[:codec.tiers - 1]
        with np.errstate(over="ignore", invalid="ignore"):
            if parameters.codec.name == "lynxt":
                x = decode_lynxt(of_tiers, parameters, core_tokens, channels, parameters.context, profiles)
            else:
                x = DECODERS[parameters.codec.name](of_tiers, parameters, core_tokens, channels)
            core = decode_exact(exact[0], parameters.dtype, x) if exact else round_to(parameters.dtype, x)
        for reader in of_tiers:
            reader.done()
    for reader in readers:
        reader.done()
    return np.concatenate([raw[:anchor.exact_head], core, raw[anchor.exact_head:]])


def decode_file(data, tier="last", profile_files=()):
    """A whole .lynx file as decode_page's arrays at tier "anchor", "full" (the last lossy one), "last" or a number; `profile_files` are their
    bytes."""
    profiles = dict(parse_profile(p) for p in profile_files)
    file = parse_file(data)
    tiers = file.parameters.tiers
    full = max(1, tiers - 1) if file.parameters.codec.lossy else tiers
    count = {"anchor": 1, "full": full, "last": tiers}.get(tier) or int(tier) + 1
    require(1 <= count <= tiers, f"tier {tier} of {tiers}", "invalid_argument")
    pages = []
    for page in range(file.pages):
        payloads = [file.payloads[t][page] for t in range(count)]
        first = parse_payload(payloads[0])
        tokens = min(file.parameters.page_tokens, file.tokens - page * file.parameters.page_tokens)
        require((first.parameters, first.tokens, first.channels) == (file.parameters, tokens, file.channels),
                f"page {page} is not what the file header says")
        pages.append(decode_page(payloads, profiles))
    return np.concatenate(pages)
