"""FORMAT sections 7 to 10: alpha-law codecs."""

import numpy as np

from .structure import BodyReader, require, signed

LEVELS = {"alg1": 127, "lynx44": 120}


def magnitude_table(alpha, levels):
    """Section 8: A[0..128] as float32. Plain Python floats are IEEE float64."""
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
        table.append((p - 1.0) / alpha)
        p = p * lo
    return np.array(table, np.float64).astype(np.float32)


def read_metadata(reader, parameters, tokens, channels):
    """Section 7: center and spread as float32 [tokens, channels], each token with its chunk's."""
    chunks = -(-tokens // parameters.chunk_tokens)
    if parameters.meta == 0:
        gamma_min, gamma_scale = reader.array("<f4", channels), reader.array("<f4", channels)
        mu, sigma = reader.array("<f4", chunks, channels), reader.array("<f4", chunks, channels)
    else:
        gamma_min = reader.array("<f2", channels).astype(np.float32)
        gamma_scale = np.float32(2) * reader.array("<f2", channels).astype(np.float32)
        if parameters.meta == 1:
            mu = reader.array("<f2", chunks, channels).astype(np.float32)
            sigma = reader.array("<f2", chunks, channels).astype(np.float32)
        else:
            mu = reader.array("u1", chunks, channels).astype(np.float32) / np.float32(255)
            sigma = reader.array("u1", chunks, channels).astype(np.float32) / np.float32(255)
    for numbers in (gamma_min, gamma_scale, mu, sigma):
        require(bool(np.isfinite(numbers).all()), "metadata is not finite")
    require(bool((gamma_scale >= 0).all() and (sigma >= 0).all()), "metadata is negative")
    center = gamma_min + gamma_scale * mu
    spread = gamma_scale * sigma
    chunk_of_token = np.arange(tokens) // parameters.chunk_tokens
    return center[chunk_of_token], spread[chunk_of_token]


def read_base18(reader, tokens, channels):
    """Section 9: Q_anc as int32 [tokens, channels]."""
    words = -(-channels // 15)
    rest = reader.array("<u8", tokens, words).copy()
    q_anc = np.zeros((tokens, words * 15), np.int32)
    for i in range(15):
        q_anc[:, i::15] = (rest % np.uint64(18)).astype(np.int32) - 9
        rest //= np.uint64(18)
    require(bool((rest == 0).all() and (q_anc[:, channels:] == -9).all()), "an anchor word is out of range")
    return q_anc[:, :channels]


def decode_alpha(bodies, parameters, tokens, channels):
    """The core as float32 [tokens, channels]; one body gives the anchor, two the full tier."""
    levels = LEVELS[parameters.codec]
    table = magnitude_table(parameters.alpha, levels)
    reader = BodyReader(bodies[0])
    if parameters.codec == "lynx44":
        anchor_table = reader.array("<u2", 8).astype(np.float32) * np.float32(2.0**-16)
    else:
        anchor_table = table[0:129:16]
    center, spread = read_metadata(reader, parameters, tokens, channels)
    q_anc = read_base18(reader, tokens, channels) if parameters.codec == "alg1" else signed(reader.nibbles(tokens, channels))
    reader.done()
    v = np.where(q_anc < 0, -q_anc - 1, q_anc)
    if len(bodies) == 1:
        t = anchor_table[v]
    else:
        reader = BodyReader(bodies[1])
        level = 16 * v - signed(reader.nibbles(tokens, channels))
        reader.done()
        require(bool(((level >= 0) & (level <= levels)).all()), "a pair of symbols stands for no level")
        t = table[level]
    t = np.where(q_anc < 0, -t, t)
    return center + spread * t
