"""FORMAT section 6: baselines."""

import numpy as np

from .structure import require, signed

GROUP = {"int8": 32, "int4": 32, "int8-split": 32, "int8-g128": 128, "int4-g128": 128}  # others: a whole token


def decode_f16(readers, _, tokens, channels):
    """f16."""
    x = readers[0].array("<f2", tokens, channels)
    require(bool(np.isfinite(x).all()), "an element is not finite")
    return x.astype(np.float32)


def decode_integers(readers, parameters, tokens, channels):
    """int8, int4 and int8-split with all their group sizes."""
    name = parameters.codec.name
    group = GROUP.get(name, channels)
    rows, groups = (1, 1) if name.endswith("-page") else (tokens, -(-channels // group))
    scale_bits = readers[0].array("<u2", rows, groups)
    require(bool((scale_bits < 0x7C00).all()), "a scale is negative, infinite or NaN")
    half_scale = np.float32(0.5) * scale_bits.view(np.float16).astype(np.float32)
    half_scale = np.repeat(half_scale, group, axis=1)[:, :channels]
    if name.startswith("int4"):
        doubled = 2 * signed(readers[0].symbols(4, tokens, channels))
    elif name == "int8-split":
        a = signed(readers[0].symbols(4, tokens, channels))
        doubled = 32 * a + 15
        if len(readers) > 1:
            doubled = 2 * (16 * a + readers[1].symbols(4, tokens, channels))
    else:
        doubled = 2 * readers[0].array("i1", tokens, channels).astype(np.int32)
    return doubled.astype(np.float32) * half_scale


def decode_fp8(readers, parameters, tokens, channels):
    """fp8-page and fp8-token."""
    rows = tokens if parameters.codec.name == "fp8-token" else 1
    scale = readers[0].array("<f4", rows, 1)
    code = readers[0].array("u1", tokens, channels).astype(np.int32)
    require(bool((np.isfinite(scale) & ~np.signbit(scale) | (scale == 0)).all()), "a scale is negative, infinite or NaN")
    require(bool((code & 0x7F != 0x7F).all()), "an element is NaN")
    exponent, mantissa = code >> 3 & 15, code & 7
    magnitude = np.where(exponent == 0, np.ldexp(mantissa, -9), np.ldexp(8 + mantissa, exponent - 10))
    return np.where(code & 0x80, -magnitude, magnitude).astype(np.float32) * scale


def decode_ggml(readers, parameters, tokens, channels):
    """q8_0 and q4_0."""
    blocks = -(-channels // 32)
    wide = parameters.codec.name == "q8_0"
    rows = readers[0].array(np.dtype([("d", "<f2"), ("q", "u1", 32 if wide else 16)]), tokens, blocks)
    d = rows["d"].astype(np.float32)
    require(bool(np.isfinite(d).all()), "a scale is infinite or NaN")
    if wide:
        q = rows["q"].view(np.int8).astype(np.int32)
    else:
        q = np.concatenate([rows["q"] & 15, rows["q"] >> 4], axis=2).astype(np.int32) - 8
    x = q.astype(np.float32) * d[:, :, None]
    return x.reshape(tokens, blocks * 32)[:, :channels]


def decode_bf16_split(readers, _, tokens, channels):
    """bf16-split."""
    upper = readers[0].array("u1", tokens, channels).astype(np.uint32)
    lower = np.uint32(0x80)
    if len(readers) > 1:
        lower = readers[1].array("u1", tokens, channels).astype(np.uint32)
    x = (upper << np.uint32(24) | lower << np.uint32(16)).view(np.float32)
    require(len(readers) == 1 or bool(np.isfinite(x).all()), "an element is not finite")
    return x
