"""FORMAT sections 7 to 10: alpha-law codecs."""

from dataclasses import dataclass

import numpy as np

from .structure import require, signed


@dataclass(frozen=True)
class Spec:
    """A row of section 9's table."""

    levels: int = 127
    residual_bits: int = 4
    anchor: int = 18  # bits per symbol when below 17, else the base of the words
    cut: str = "rounded"
    curve: str = "alpha"
    centroids: bool = False
    gamma: bool = True
    alpha: int = 0
    chunk: int = 0


SPECS = {
    "alg1": Spec(),
    "lynx-int4": Spec(),
    "alg1-a1": Spec(anchor=4, cut="twos", alpha=100, chunk=16),
    "alg1-a1-int4": Spec(anchor=4, cut="twos", alpha=100, chunk=16),
    "alg1-nopage": Spec(gamma=False),
    "alg1-nochunk": Spec(chunk=4096),
    "alg1-linear": Spec(curve="linear"),
    "alg1-log": Spec(curve="log"),
    "alg1-nobias": Spec(anchor=4, cut="truncated"),
    "alg1-nosign": Spec(anchor=17, cut="merged"),
    "alg1-clip16": Spec(anchor=4, cut="clipped"),
    "lynx44": Spec(levels=120, anchor=4, centroids=True),
    "lynx35": Spec(levels=112, residual_bits=5, anchor=3, centroids=True),
    "lynx53": Spec(levels=124, residual_bits=3, anchor=5, centroids=True),
    "lynx62": Spec(levels=126, residual_bits=2, anchor=6, centroids=True),
}


def magnitude_table(curve, alpha, levels):
    """Section 8: A[0..128] as float32. Plain Python floats are IEEE float64."""
    if curve == "linear":
        return np.array([i / levels for i in range(129)], np.float64).astype(np.float32)
    alpha = float(alpha)
    lo, hi = 1.0, 1.0 + alpha
    for _ in range(100):
        m = 0.5 * (lo + hi)
        p = 1.0
        for _ in range(levels):
            p = p * m
        if p > 1.0 + alpha:
            hi = m
        else:
            lo = m
    p, table = 1.0, []
    for _ in range(129):
        table.append((p - 1.0) / alpha if curve == "alpha" else p / (1.0 + alpha))
        p = p * lo
    if curve == "log":
        table[0] = 0.0
    return np.array(table, np.float64).astype(np.float32)


def read_metadata(reader, spec, parameters, tokens, channels):
    """Section 7: center and spread as float32 [tokens, channels], each token with its chunk's."""
    chunk = spec.chunk or parameters.chunk_tokens
    chunks = -(-tokens // chunk)
    meta = parameters.meta
    if not spec.gamma:
        gamma_min, gamma_scale = np.zeros(channels, np.float32), np.ones(channels, np.float32)
        meta = min(meta, 1)
    elif meta == 0:
        gamma_min, gamma_scale = reader.array("<f4", channels), reader.array("<f4", channels)
    else:
        gamma_min = reader.array("<f2", channels).astype(np.float32)
        gamma_scale = np.float32(2) * reader.array("<f2", channels).astype(np.float32)
    kind = ("<f4", "<f2", "u1")[meta]
    mu = reader.array(kind, chunks, channels).astype(np.float32)
    sigma = reader.array(kind, chunks, channels).astype(np.float32)
    if meta == 2:
        mu, sigma = mu / np.float32(255), sigma / np.float32(255)
    for numbers in (gamma_min, gamma_scale, mu, sigma):
        require(bool(np.isfinite(numbers).all()), "metadata is not finite")
    require(bool((gamma_scale >= 0).all() and (sigma >= 0).all()), "metadata is negative")
    center = gamma_min + gamma_scale * mu
    spread = gamma_scale * sigma
    chunk_of_token = np.arange(tokens) // chunk
    return center[chunk_of_token], spread[chunk_of_token]


def read_words(reader, base, tokens, channels):
    """Section 9: digits as int32 [tokens, channels]."""
    words = -(-channels // 15)
    rest = reader.array("<u8", tokens, words).copy()
    digits = np.zeros((tokens, words * 15), np.int32)
    for i in range(15):
        digits[:, i::15] = (rest % np.uint64(base)).astype(np.int32)
        rest //= np.uint64(base)
    require(bool((rest == 0).all() and (digits[:, channels:] == 0).all()), "an anchor word is out of range")
    return digits[:, :channels]


def join(spec, q_anc, symbols):
    """Section 8: level and sign of anchor symbols and residual bits."""
    r = spec.residual_bits
    q_res = signed(symbols, r)
    v = np.where(q_anc < 0, -q_anc - 1, q_anc)
    if spec.cut == "truncated":
        return (v << r) + symbols
    if spec.cut == "merged":
        return (np.abs(q_anc) << r) - q_res
    if spec.cut == "twos":
        return np.abs(q_anc * (1 << r) + symbols)
    return (v << r) - q_res


def anchor_level(spec, q_anc):
    """Section 8: the level that an anchor symbol alone stands for."""
    r = spec.residual_bits
    if spec.cut == "merged":
        return np.abs(q_anc) << r
    if spec.cut == "twos":
        return np.abs(q_anc * (1 << r) + (1 << (r - 1)))
    return np.where(q_anc < 0, -q_anc - 1, q_anc) << r


def read_alpha_anchor(reader, parameters, tokens, channels):
    """Tier 0: center, spread, Q_anc and the anchor's magnitudes."""
    spec = SPECS[parameters.codec.name]
    table = magnitude_table(spec.curve, spec.alpha or parameters.alpha, spec.levels)
    centroids = None
    if spec.centroids:
        centroids = reader.array("<u2", 1 << (spec.anchor - 1)).astype(np.float32) * np.float32(2.0**-16)
    center, spread = read_metadata(reader, spec, parameters, tokens, channels)
    if spec.anchor > 16:
        q_anc = read_words(reader, spec.anchor, tokens, channels) - spec.anchor // 2
    else:
        q_anc = signed(reader.symbols(spec.anchor, tokens, channels), spec.anchor)
    level = anchor_level(spec, q_anc)
    anchor = centroids[level >> spec.residual_bits] if spec.centroids else table[level]
    return spec, table, center, spread, q_anc, anchor


def decode_alpha(readers, parameters, tokens, channels):
    """The core as float32 [tokens, channels]; one body gives the anchor, two the full tier."""
    spec, table, center, spread, q_anc, t = read_alpha_anchor(readers[0], parameters, tokens, channels)
    if len(readers) > 1:
        level = join(spec, q_anc, readers[1].symbols(spec.residual_bits, tokens, channels).astype(np.int32))
        require(bool(((level >= 0) & (level <= spec.levels)).all()), "a pair of symbols stands for no level")
        t = table[level]
    t = np.where(q_anc < 0, -t, t)
    return center + spread * t
