"""FORMAT section 12: lynxt."""

import functools
import math
import struct
from dataclasses import dataclass

import numpy as np

from .rans import LANES, Stream, Table
from .structure import BodyReader, require

CLASSES = 56
ROOT = (65536, 55109, 46341, 38968)
S = (
    1073741824, 1010175499, 947755152, 886951908, 828078212, 771358839, 716956042, 664983160, 615513542, 568587128,
    524215666, 482387068, 443069140, 406212860, 371755266, 339622037, 309729789, 281988121, 256301432, 232570534, 210694058,
    190569693, 172095250, 155169578, 139693331, 125569619, 112704529, 101007548, 90391886, 80774720, 72077357, 64225334,
    57148462, 50780821, 45060707, 39930556, 35336827, 31229871, 27563778, 24296207, 21388217, 18804079, 16511093, 14479401,
    12681805, 11093582, 9692306, 8457684, 7371382, 6416877, 5579302, 4845307, 4202927, 3641458, 3151340, 2724053, 2352012,
    2028480, 1747482, 1503725, 1292532, 1109775, 951813, 815446, 697860, 596588, 509467, 434606, 370354, 315269, 268098,
    227748, 193271, 163846, 138759, 117394, 99218, 83773, 70661, 59542, 50124, 42154, 35416, 29727, 24927, 20883, 17478,
    14614, 12208, 10188, 8495, 7076, 5889, 4896, 4067, 3376, 2799, 2319, 1919, 1587, 1311, 1082, 893, 736, 606, 498, 409,
    336, 276, 226, 185, 152, 124, 101, 83, 67, 55, 45, 36, 30, 24, 19, 16, 13, 10, 8, 7, 5, 4,
)
CLASS_TABLE = Table([8, 16, 32, 64, 128, 256, 512, 1024, 512, 256, 128, 64, 32, 16, 8, 8])
MEAN_TABLE = Table([137, 182, 243, 324, 432, 576, 768, 1024, 768, 576, 432, 324, 243, 182, 137, 64])


@dataclass(frozen=True)
class Cells:
    """Section 12.2."""

    s0: int
    s1: int

    def lower(self, tier, m):
        zero, gap = 5 << self.s0 >> 3, self.s0 - self.s1
        if tier == 0:
            return 0 if m == 0 else zero + (m - 1 << self.s0)
        if tier == 1:
            return zero * m >> gap if m < 1 << gap else zero + (m - (1 << gap) << self.s1)
        return m

    def inside(self, tier, before):
        """The tier's cells inside cell `before` >= 0 of the tier before, as first and last + 1."""
        low, high = self.lower(tier - 1, before), self.lower(tier - 1, before + 1)
        first = next(m for m in range(high + 1) if self.lower(tier, m) == low)
        return first, next(m for m in range(first, high + 1) if self.lower(tier, m) == high)


def survival(q, cls):
    """Section 12.3: P."""
    p = q * ROOT[cls % 4] >> (3 + cls // 4)
    i = p >> 8
    return S[128] if i >= 128 else S[i] + ((S[i + 1] - S[i]) * (p & 255) >> 8)


def weight(cells, tier, m, cls):
    one_side = survival(cells.lower(tier, abs(m)), cls) - survival(cells.lower(tier, abs(m) + 1), cls)
    return 2 * one_side if m == 0 else one_side


@functools.cache
def anchor_table(cells, cls):
    """The table and r."""
    r = max(0, cls // 4 - 1 - cells.s0)
    weights = [sum(weight(cells, 0, a, cls) for a in range(h << r, h + 1 << r)) for h in range(-7, 8)]
    return Table([*weights, survival(cells.lower(0, 8 << r), cls) + survival(cells.lower(0, (7 << r) + 1), cls)]), r


@functools.cache
def refinement_table(cells, tier, cls, z):
    first, last = cells.inside(tier, z)
    first = 1 - last if z == 0 else first
    return Table([weight(cells, tier, m, cls) for m in range(first, last)])


@functools.cache
def first_refined(cells, tier, before):
    first, last = cells.inside(tier, before)
    return 1 - last if before == 0 else first


def groups(count):
    return (range(first, min(first + LANES, count)) for first in range(0, count, LANES))


def small(stream, table, escape_bits, count):
    """Small symbols in group order; None where escaped, and what the escapes' bits say."""
    values, escaped = [], {}
    for group in groups(count):
        symbols = [stream.symbol(i % LANES, table) for i in group]
        for i, symbol in zip(group, symbols):
            if symbol == 15:
                escaped[i] = stream.bits(i % LANES, escape_bits)
        values += [None if symbol == 15 else symbol - 7 for symbol in symbols]
    return values, escaped


def read_escape(stream, lane):
    negative, magnitude = stream.bits(lane, 1), 8
    for group in range(5):
        bits = stream.bits(lane, 4)
        magnitude += (bits & 7) << 3 * group
        if bits < 8:
            return -magnitude if negative else magnitude
    return require(False, "an escape is too long")


def read_anchor(stream, base, predicted, cells, tokens, channels):
    """Section 12.4, 1 to 4: classes, page means M, cells [channels][tokens]."""
    deltas, escaped = small(stream, CLASS_TABLE, 6, channels)
    classes = []
    for j, delta in enumerate(deltas):
        if predicted is None:
            prediction = classes[-1] if classes else base
        else:
            prediction = min(max(int(predicted[j]) - 128 + base, 0), CLASSES - 1)
        classes.append(escaped[j] if delta is None else prediction + delta)
        require(0 <= classes[-1] < CLASSES, "a class is out of range")
    means, escaped = small(stream, MEAN_TABLE, 8, channels)
    means = [(escaped[j] ^ 128) - 128 if mean is None else mean for j, mean in enumerate(means)]
    zero = [stream.bits(j % LANES, 1) if classes[j] < 4 * cells.s0 else 0 for j in range(channels)]
    values = np.zeros((channels, tokens), np.int64)
    for j in range(channels):
        if zero[j]:
            continue
        table, r = anchor_table(cells, classes[j])
        for group in groups(tokens):
            highs = [stream.symbol(t % LANES, table) - 7 for t in group]
            lows = [stream.bits(t % LANES, r) if r else 0 for t in group]
            for t, high, low in zip(group, highs, lows):
                high = read_escape(stream, t % LANES) if high == 8 else high
                values[j, t] = (high << r) + low
    require(all(cells.lower(0, m) <= 4095 for m in np.unique(abs(values)).tolist()), "a cell is out of range")
    return classes, np.array(means, np.int64), values


def refine(stream, classes, values, cells, tier):
    top = 3 if tier == 1 else (1 << cells.s0 - cells.s1) + 1
    for j, cls in enumerate(classes):
        for t in range(values.shape[1]):
            before = int(values[j, t])
            symbol = stream.symbol(t % LANES, refinement_table(cells, tier, cls, min(abs(before), top)))
            cell = first_refined(cells, tier, abs(before)) + symbol
            values[j, t] = -cell if before < 0 else cell


def shift_right(x, n):
    return x if n == 0 else (x + (1 << n - 1)) >> n


def sat(x):
    return np.clip(x, -(1 << 30), 1 << 30)


def rotate(fixed, context):
    """Section 12.6."""
    n = context.rope_dims // 2
    if n == 0:
        return fixed
    lo, hi = 0.0, 1.0
    for _ in range(100):
        m = 0.5 * (lo + hi)
        p = context.rope_base
        for _ in range(n):
            p = p * m
        if p > 1:
            hi = m
        else:
            lo = m
    cosine = np.array([round(16384 * math.cos(2 * math.pi * a / 1024)) for a in range(1024)], np.int64)
    y = context.rope_scale * float.fromhex("0x1.45f306dc9c883p-3")
    out = fixed.copy()
    positions = context.first_token + np.arange(len(fixed))
    for i in range(n):
        turn = int(math.floor(y * 2.0**32 + 0.5)) % 2**32
        y = y * lo
        angle = np.array([((int(p) * turn + (1 << 21)) % 2**32) >> 22 for p in positions])
        c, s = cosine[angle][:, None], cosine[(angle + 768) % 1024][:, None]
        first, second = (2 * i, 2 * i + 1) if context.interleaved else (i, i + n)
        a = fixed[:, first::context.head_channels]
        b = fixed[:, second::context.head_channels]
        out[:, first::context.head_channels] = sat(shift_right(a * c - b * s, 14))
        out[:, second::context.head_channels] = sat(shift_right(a * s + b * c, 14))
    return out


def restore(values, tier, centroid, means, step, e, cells, matrix):
    """Section 12.5: fixed [tokens][channels]."""

    def value(m):
        low, high = cells.lower(tier, m), cells.lower(tier, m + 1)
        return 0 if m == 0 else min(8 * low + (centroid & 7 if m == 1 else centroid >> 3) * (high - low), 32767)

    s0 = cells.s0
    magnitudes, which = np.unique(abs(values), return_inverse=True)
    v = (np.sign(values) * np.array([value(m) for m in magnitudes.tolist()])[which.reshape(values.shape)]).T
    if matrix is None:
        center = sat(shift_right((4 * means * step) << s0, 3))
        return sat(center + shift_right(v * step, 3))
    block = matrix.block
    product = np.empty_like(v)
    mean_product = np.empty_like(means)
    for first in range(0, len(means), block):
        part = slice(first, first + block)
        product[:, part] = v[:, part] @ matrix.basis[part].T
        mean_product[part] = matrix.basis[part] @ (4 * means[part])
    factor = (matrix.row_scale * step) >> 8
    n = -matrix.scale_exponent - 5
    d = min(max(e - matrix.mean_exponent, -38), 38)
    mu = sat(shift_right(matrix.mean, d) if d >= 0 else matrix.mean * 2**-d)
    center = sat(mu + shift_right(factor * mean_product, n - s0))
    return sat(center + shift_right(factor * product, n))


def split_mono(reader, tiers):
    """Section 4.2: one reader for each tier of a mono payload."""
    lengths = [int(x) for x in reader.array("<u4", tiers - 1)]
    rest = len(reader.body) - reader.at - sum(lengths)
    require(rest >= 0, "a tier's length")
    return [BodyReader(reader.array("u1", n).tobytes()) for n in (*lengths, rest)]


def decode_lynxt(readers, parameters, tokens, channels, context, profiles):
    """The core as float32; `profiles` maps hashes to matrices."""
    s0, s1 = (parameters.cuts & 15, parameters.cuts >> 4) if parameters.cuts else (5, 4)
    cells = Cells(s0, s1)
    step, e, flags, base, centroid = struct.unpack("<IbBbB", readers[0].array("u1", 8).tobytes())
    require(1 <= step < 1 << 23 and -120 <= e <= 110 and flags <= 1 and centroid < 64, "an anchor's head")
    matrix = None
    if flags == 1:
        require(parameters.profile in profiles, "the payload's profile is not here", "invalid_argument")
        matrices, slot = profiles[parameters.profile], 2 * context.layer + (context.kind != 0)
        require(context.kind <= 1 and slot < len(matrices) and len(matrices[slot].mean) == channels, "no such matrix")
        matrix = matrices[slot]
    stream = Stream(readers[0].rest().tobytes())
    classes, means, values = read_anchor(stream, base, None if matrix is None else matrix.sigma_class, cells, tokens, channels)
    stream.done()
    for k, reader in enumerate(readers[1:], 1):
        centroid = int(reader.array("u1", 1)[0])
        require(centroid < 64, "a refinement's head")
        stream = Stream(reader.rest().tobytes())
        refine(stream, classes, values, cells, k)
        stream.done()
    fixed = restore(values, len(readers) - 1, centroid, means, step, e, cells, matrix)
    return rotate(fixed, context).astype(np.float32) * np.ldexp(np.float32(1), e).astype(np.float32)
