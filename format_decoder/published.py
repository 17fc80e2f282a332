"""FORMAT section 13: published methods."""

import math

import numpy as np

from .structure import KEY, require

LEVELS = {3: (1004, 3097, 5505, 8814), 4: (526, 1590, 2690, 3860, 5145, 6628, 8475, 11193)}


def decode_kivi(readers, parameters, tokens, channels):
    """Section 13.1."""
    bits = int(parameters.codec.name[-1])
    along_tokens = parameters.context.kind == KEY
    rows, columns = (-(-tokens // 32), channels) if along_tokens else (tokens, -(-channels // 32))
    zero, step = (readers[0].array("<f2", rows, columns) for _ in range(2))
    require(bool(np.isfinite(zero).all()), "a minimum is infinite or NaN")
    require(bool((step.view(np.uint16) < 0x7C00).all()), "a step is negative, infinite or NaN")
    q = readers[0].symbols(bits, tokens, channels)

    def spread(groups):
        whole = np.repeat(groups.astype(np.float32), 32, axis=0 if along_tokens else 1)
        return whole[:tokens, :channels]

    return spread(zero) + q.astype(np.float32) * spread(step)


class RangeDecoder:
    """Section 13.2's range coder, reading."""

    def __init__(self, data):
        self.data, self.used = data, 0
        self.low, self.high, self.code = 0, 0xFFFFFFFF, 0
        for _ in range(4):
            self.next_byte()

    def next_byte(self):
        byte = self.data[self.used] if self.used < len(self.data) else 0
        self.code = (self.code << 8 | byte) & 0xFFFFFFFF
        self.used += 1

    def get(self, model, bits):
        node = 1
        for _ in range(bits):
            p = model[node]
            middle = self.low + ((self.high - self.low) * p >> 16)
            bit = int(self.code <= middle)
            if bit:
                self.high = middle
                model[node] = p + (65535 - p >> 5)
            else:
                self.low = middle + 1
                model[node] = p - (p >> 5)
            node = 2 * node + bit
            while self.low >> 24 == self.high >> 24:
                self.low = self.low << 8 & 0xFFFFFFFF
                self.high = (self.high << 8 | 255) & 0xFFFFFFFF
                self.next_byte()
        return node - (1 << bits)


def decode_cachegen(readers, _, tokens, channels):
    """Section 13.2."""
    mode, m = (int(x) for x in readers[0].array("u1", 2))
    require(mode in (0, 1) and m in (7, 15), "mode or largest symbol")
    scale = readers[0].array("<f2", tokens)
    require(bool((scale.view(np.uint16) < 0x7C00).all()), "a scale is negative, infinite or NaN")
    first = np.arange(tokens) % 10 == 0
    bits = np.where(first, 8, 5 if m == 15 else 4)
    largest = np.where(first, 127, m)
    symbols = np.zeros((channels, tokens), np.int32)
    if mode == 0:
        string = np.unpackbits(readers[0].array("u1", -(-channels * int(bits.sum()) // 8)), bitorder="little")
        at = 0
        for c in range(channels):
            for t in range(tokens):
                symbols[c, t] = sum(int(string[at + i]) << i for i in range(bits[t]))
                at += bits[t]
    else:
        decoder = RangeDecoder(readers[0].rest().tobytes())
        models = ([1 << 15] * 32, [1 << 15] * 256)
        for c in range(channels):
            for t in range(tokens):
                symbols[c, t] = decoder.get(models[int(first[t])], int(bits[t]))
        require(decoder.used == len(decoder.data), "coded symbols do not use up the body")
    require(bool((symbols <= 2 * largest).all()), "a symbol is too large")
    values = (symbols - largest).T.astype(np.float32) * scale.astype(np.float32)[:, None]
    bases = values[np.arange(tokens) // 10 * 10]
    return np.where(first[:, None], values, bases + values)


def decode_turboquant(readers, parameters, tokens, channels):
    """Section 13.3."""
    bits = int(parameters.codec.name[-1])
    blocks = -(-channels // 64)
    rows = readers[0].array(np.dtype([("g", "<f2"), ("q", "u1", 8 * bits)]), tokens, blocks)
    g = rows["g"].copy()
    require(bool((g.view(np.uint16) < 0x7C00).all()), "a scale is negative, infinite or NaN")
    string = np.unpackbits(rows["q"], axis=2, bitorder="little").reshape(tokens, blocks, 64, bits)
    symbols = (string * (1 << np.arange(bits))).sum(axis=3)
    table = np.array([-x for x in reversed(LEVELS[bits])] + list(LEVELS[bits]), np.int32)
    y = table[symbols]
    half = 1
    while half < 64:
        pairs = y.reshape(tokens, blocks, 32 // half, 2, half)
        y = np.stack([pairs[:, :, :, 0] + pairs[:, :, :, 1], pairs[:, :, :, 0] - pairs[:, :, :, 1]], axis=3)
        y = y.reshape(tokens, blocks, 64)
        half *= 2
    for k in range(blocks):
        z = k + 1 + 0x9E3779B97F4A7C15 & (1 << 64) - 1
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & (1 << 64) - 1
        z = (z ^ z >> 27) * 0x94D049BB133111EB & (1 << 64) - 1
        z ^= z >> 31
        y[:, k] *= np.array([-1 if z >> i & 1 else 1 for i in range(64)], np.int32)
    unit = g.astype(np.float32) * np.float32(2.0**-15)
    return (y.astype(np.float32) * unit[:, :, None]).reshape(tokens, blocks * 64)[:, :channels]


def sine_cosine(phase):
    """Section 13.5, of a phase in 2^-64 of a turn."""
    k = (phase + (1 << 61) & (1 << 64) - 1) >> 62
    r = phase - (k << 62)
    if r >= 1 << 63:
        r -= 1 << 64
    a = float(r >> 9) * (float.fromhex("0x1.921FB54442D18p2") * 2.0**-55)
    z = a * a
    s = -1.0 / math.factorial(15)
    for j in range(6, -1, -1):
        s = s * z + (-1.0) ** j / math.factorial(2 * j + 1)
    s = s * a
    c = 1.0 / math.factorial(16)
    for j in range(7, -1, -1):
        c = c * z + (-1.0) ** j / math.factorial(2 * j)
    return ((s, c), (c, -s), (-s, -c), (-c, s))[k]


def rotate(x, context):
    """Section 13.5, on float32 [tokens, channels] of keys."""
    n = context.rope_dims // 2
    if n == 0:
        return x
    lo, hi = 1.0, float(context.rope_base)
    for _ in range(100):
        m = 0.5 * (lo + hi)
        p = 1.0
        for _ in range(n):
            p = p * m
        if p > context.rope_base:
            hi = m
        else:
            lo = m
    p, steps = 1.0, []
    for _ in range(n):
        u = float(context.rope_scale) / p * float.fromhex("0x1.45F306DC9C883p-3")
        steps.append(int((u - math.floor(u)) * 2.0**64))
        p = p * lo
    tokens, channels = x.shape
    out = x.copy()
    for i, step in enumerate(steps):
        v, w = (2 * i, 2 * i + 1) if context.interleaved else (i, i + n)
        turns = [sine_cosine((context.first_token + t) * step & (1 << 64) - 1) for t in range(tokens)]
        sine, cosine = (np.array(column)[:, None] for column in zip(*turns))
        a = x[:, v::context.head_channels].astype(np.float64)
        b = x[:, w::context.head_channels].astype(np.float64)
        out[:, v::context.head_channels] = (a * cosine - b * sine).astype(np.float32)
        out[:, w::context.head_channels] = (a * sine + b * cosine).astype(np.float32)
    return out


def decode_kvquant(readers, parameters, tokens, channels):
    """Section 13.4."""
    bits = int(parameters.codec.name[-1])
    keys = parameters.context.kind == KEY
    count, length = (channels, tokens) if keys else (tokens, channels)
    outliers = (length + 50) // 100
    level = readers[0].array("<i2", 1 << bits)
    zero, scale = readers[0].array("<f2", count), readers[0].array("<f2", count)
    index = readers[0].array("<u2", count, outliers)
    value = readers[0].array("<f2", count, outliers)
    require(bool(np.isfinite(zero).all() and np.isfinite(value).all()), "a number is infinite or NaN")
    require(bool((scale.view(np.uint16) < 0x7C00).all()), "a scale is negative, infinite or NaN")
    require(bool((index < length).all()), "an outlier lies outside its vector")
    q = readers[0].symbols(bits, tokens, channels)
    q = q.T if keys else q
    unit = scale.astype(np.float32) * np.float32(2.0**-15)
    x = zero.astype(np.float32)[:, None] + level[q].astype(np.float32) * unit[:, None]
    for i in range(outliers):
        x[np.arange(count), index[:, i]] = value[:, i].astype(np.float32)
    x = np.ascontiguousarray(x.T if keys else x)
    return rotate(x, parameters.context)
