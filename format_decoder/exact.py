"""FORMAT section 14: the exact tier."""

import functools
import math

import numpy as np

from .lynxt import CLASS_TABLE, ROOT, groups
from .rans import LANES, Stream, Table
from .structure import BF16, F16, F32, limit, require, round_to

LAYOUT = {F16: (10, -24, 16), BF16: (7, -133, 16), F32: (23, -149, 32)}  # p, u0, bits
T = (
    1073741824, 1025084105, 976468346, 927965653, 879668202, 831684088, 784133855, 737147571, 690862094, 645418404,
    600958943, 557624975, 515553971, 474877074, 435716677, 398184182, 362377971, 328381665, 296262700, 266071259, 237839601,
    211581777, 187293772, 164954030, 144524354, 125951153, 109166971, 94092257, 80637323, 68704393, 58189723, 48985685,
    40982790, 34071574, 28144314, 23096546, 18828334, 15245317, 12259494, 9789770, 7762278, 6110492, 4775154, 3704054,
    2851683, 2178786, 1651862, 1242611, 927376, 686584, 504204, 367242, 265272, 190013, 134954, 95030, 66339, 45906, 31487,
    21405, 14420, 9626, 6367, 4173, 2709, 1742, 1110, 700, 438, 271, 166, 101, 60, 36, 21, 12, 7, 4, 2,
)


@functools.cache
def table(r, f):
    """Section 14.2."""

    def edge(z):
        b = 16 * z - 2 * f - 1
        d = abs(b) * ROOT[r % 4] >> 8 + r // 4
        i = d >> 8
        t = T[78] if i >= 78 else T[i] + ((T[i + 1] - T[i]) * (d & 255) >> 8)
        return t if b < 0 else (1 << 31) - t

    return Table([*(edge(k - 14) - edge(k - 15) for k in range(31)), edge(-15) + (1 << 31) - edge(16)])


def place(x, s, layout):
    """Section 14.1: e, c, f."""
    p, u0, _ = layout
    mantissa, exponent = math.frexp(abs(x))
    u = max(u0, exponent - 1 - p) if mantissa else u0
    e = max((s >> 2) - 1, u)
    eighths = math.floor(math.ldexp(mantissa, exponent + 3 - e)) + (4 >> min(e - u, 3))
    return e, eighths >> 3, eighths & 7


def first(m, e, layout):
    """Section 14.1: finite patterns of magnitudes below m * 2^e."""
    p, u0, bits = layout
    if m == 0:
        return 0
    u = max(e + m.bit_length() - 1 - p, u0)
    n = -(-m >> u - e) if u > e else m << e - u
    return min(n + (u - u0 << p), (1 << bits - 1) - (1 << p))


def plain(stream, lane, bits):
    value = 0
    for at in range(0, bits, 12):
        value |= stream.bits(lane, min(12, bits - at)) << at
    return value


def read_scales(stream, channels):
    """Section 14.3, 1: the channels' scales, None where there is none."""
    scales, before = [], 0
    for group in groups(channels):
        symbols = [stream.symbol(c % LANES, CLASS_TABLE) for c in group]
        for c, symbol in zip(group, symbols):
            bits = stream.bits(c % LANES, 12) if symbol == 15 else None
            scale = None if bits == 0 else before + symbol - 7 if bits is None else bits - 2048
            require(scale is None or -2047 <= scale <= 2047, "a scale is out of range")
            scales.append(scale)
            before = before if scale is None else scale
    return scales


def read_element(stream, lane, x, at, symbol, layout):
    """Section 14.1: the bits of an element."""
    bits = layout[2]
    if symbol == 31:
        return plain(stream, lane, bits)
    e, c, _ = at
    cell = c + symbol - 15
    m = cell if cell >= 0 else -1 - cell
    low = first(m, e, layout)
    n = first(m + 1, e, layout) - low
    require(n > 0, "no number lies in a cell")
    offset = plain(stream, lane, (n - 1).bit_length())
    require(offset < n, "a pattern beyond its cell")
    return low + offset | ((x < 0) == (cell >= 0)) << bits - 1


def decode_exact(reader, dtype, x):
    """The page's core from what the lossy tiers yield, float32 [tokens, channels], in the form of round_to."""
    layout = LAYOUT[dtype]
    stream = Stream(reader.rest().tobytes())
    out = round_to(dtype, x)
    elements = out.view(np.uint32 if dtype == F32 else np.uint16)
    x = limit(dtype, x)
    for c, s in enumerate(read_scales(stream, x.shape[1])):
        if s is None:
            continue
        column = x[:, c].tolist()
        for group in groups(len(column)):
            places = [place(column[t], s, layout) for t in group]
            symbols = [stream.symbol(t % LANES, table(min(max(s - 4 * e, -8), 7), f)) for t, (e, _, f) in zip(group, places)]
            for t, at, symbol in zip(group, places, symbols):
                elements[t, c] = read_element(stream, t % LANES, column[t], at, symbol, layout)
    stream.done()
    return out
