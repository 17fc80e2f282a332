"""FORMAT sections 2, 3, 5 and 15: headers, nibbles, rounding, files."""

import struct
import zlib
from dataclasses import dataclass, field, replace

import numpy as np


@dataclass(frozen=True)
class Codec:
    """A row of section 2's table of codecs."""

    name: str
    tiers: int = 1
    exact_rows: bool = False
    context: bool = False
    lossy: str = ""  # section 14: the codec that the last, exact tier completes


CODECS = {
    1: Codec("f16"),
    2: Codec("int8"),
    3: Codec("int4"),
    4: Codec("int8-split", 2),
    5: Codec("alg1", 2),
    6: Codec("lynx44", 2),
    7: Codec("nested44", 2, exact_rows=True),
    8: Codec("lynx35", 2),
    9: Codec("lynx53", 2),
    10: Codec("lynx62", 2),
    11: Codec("nested35", 2, exact_rows=True),
    12: Codec("nested26", 2, exact_rows=True),
    13: Codec("nested224", 3, exact_rows=True),
    14: Codec("alg1-a1", 2),
    15: Codec("lynx-int4"),
    16: Codec("alg1-a1-int4"),
    17: Codec("alg1-nopage", 2),
    18: Codec("alg1-nochunk", 2),
    19: Codec("alg1-linear", 2),
    20: Codec("alg1-nobias", 2),
    21: Codec("alg1-nosign", 2),
    22: Codec("alg1-clip16", 2),
    23: Codec("alg1-log", 2),
    24: Codec("bf16-split", 2),
    25: Codec("int8-page"),
    26: Codec("int4-page"),
    27: Codec("int8-token"),
    28: Codec("int4-token"),
    29: Codec("int8-g128"),
    30: Codec("int4-g128"),
    31: Codec("fp8-page"),
    32: Codec("fp8-token"),
    33: Codec("q8_0"),
    34: Codec("q4_0"),
    35: Codec("kivi2", exact_rows=True, context=True),
    36: Codec("kivi4", exact_rows=True, context=True),
    37: Codec("cachegen"),
    38: Codec("turboquant3"),
    39: Codec("turboquant4"),
    40: Codec("kvquant3", exact_rows=True, context=True),
    41: Codec("kvquant4", exact_rows=True, context=True),
    42: Codec("lynxt", 3, exact_rows=True, context=True),
    43: Codec("nested44-exact", 3, exact_rows=True, lossy="nested44"),
    44: Codec("lynxt-exact", 4, exact_rows=True, context=True, lossy="lynxt"),
}
F16, BF16, F32 = 0, 1, 2
HEADER_BYTES = 64
BODY_BYTES_MAX = (1 << 26) - HEADER_BYTES


class FormatError(Exception):
    """Bytes that are not what FORMAT.md says; `code` is truncated, corrupt, unsupported_version or limit_exceeded."""

    def __init__(self, code, message):
        super().__init__(f"{code}: {message}")
        self.code = code


@dataclass(frozen=True)
class Parameters:
    """The fields that payloads and files share."""

    codec: Codec
    mono: bool
    tiers: int
    dtype: int
    meta: int
    alpha: np.float32
    chunk_tokens: int
    page_tokens: int
    sinks: int
    recent: int
    profile: int
    step: np.float32
    cuts: int
    context: object = field(default=None, compare=False)  # of the page, where its codec carries one


@dataclass(frozen=True)
class Payload:
    """A verified payload. tier, body and crc differ between the tiers of a page; the rest does not."""

    parameters: Parameters
    tokens: int
    channels: int
    exact_head: int
    exact_tail: int
    tier: int
    anchor_crc: int
    crc: int
    body: bytes


def require(condition, message, code="corrupt"):
    """Raises FormatError unless the condition holds."""
    if not condition:
        raise FormatError(code, message)


def make_parameters(codec, tiers, flags, dtype, meta, alpha, chunk_tokens, page_tokens, sinks, recent, profile, step,
                    cuts):
    """Checks the shared fields against their ranges."""
    require(codec in CODECS, f"codec {codec}", "unsupported_version")
    mono = flags == 1
    require(flags in (0, 1), f"flags {flags}")
    kind = CODECS[codec]
    require(kind.tiers > 1 or not mono, f"{kind.name} has no mono form", "unsupported_version")
    require(tiers == (1 if mono else kind.tiers), f"tiers {tiers}")
    require(dtype in (F16, BF16, F32), f"dtype {dtype}")
    require(meta in (0, 1, 2), f"meta {meta}")
    require(2.0**-10 <= alpha <= 2.0**20, f"alpha {alpha}")
    require(1 <= chunk_tokens <= 1024, f"chunk {chunk_tokens}")
    require(1 <= page_tokens <= 4096, f"page {page_tokens}")
    require(sinks <= 1024 and recent <= 1024, f"sinks {sinks}, recent {recent}")
    require(step == 0 or 2.0**-12 <= step <= 16, f"step {step}")
    s0, s1 = (cuts & 15, cuts >> 4) if cuts else (5, 4)
    require(s0 <= 6 and 1 <= s0 - s1 <= 2 and 1 <= s1 <= 4, f"cuts {cuts}")
    return Parameters(kind, mono, tiers, dtype, meta, np.float32(alpha), chunk_tokens, page_tokens, sinks, recent, profile,
                      np.float32(step), cuts)


def payload_length(data):
    """Bytes of the payload at the front of data, from its header."""
    require(len(data) >= HEADER_BYTES, "payload header", "truncated")
    magic, version = struct.unpack_from("<IH", data)
    require(magic == 0x50584E4C, "payload magic")
    require(version == 1, f"payload version {version}", "unsupported_version")
    (body_bytes,) = struct.unpack_from("<I", data, 36)
    require(body_bytes <= BODY_BYTES_MAX, f"body of {body_bytes} bytes", "limit_exceeded")
    return HEADER_BYTES + body_bytes


def parse_payload(data):
    """Section 2, in the order of its last paragraph."""
    length = payload_length(data)
    require(len(data) >= length, f"payload of {length} bytes", "truncated")
    require(len(data) == length, "bytes after the payload")
    (_, _, codec, tier, tiers, flags, dtype, meta, tokens, channels, head, tail, alpha, chunk, page, sinks, recent, _,
     anchor_crc, profile, step, cuts, reserved, crc) = struct.unpack_from("<IHBBBBBBIIHHfHHHHIIQfB3sI", data)
    require(zlib.crc32(data[:60] + b"\0\0\0\0" + data[64:]) == crc, "payload checksum")
    require(reserved == bytes(3), "reserved bytes")
    parameters = make_parameters(codec, tiers, flags, dtype, meta, alpha, chunk, page, sinks, recent, profile, step, cuts)
    require(tier < tiers, f"tier {tier}")
    require(1 <= tokens <= page, f"tokens {tokens}")
    require(1 <= channels <= 65536, f"channels {channels}")
    require(head + tail <= tokens, "exact rows")
    require(head + tail == 0 or parameters.codec.exact_rows, "exact rows")
    require(tier > 0 or anchor_crc == 0, "anchor checksum in tier 0")
    return Payload(parameters, tokens, channels, head, tail, tier, anchor_crc, crc, bytes(data[HEADER_BYTES:]))


@dataclass(frozen=True)
class File:
    """A parsed .lynx file: payloads[tier][page] as bytes."""

    parameters: Parameters
    tokens: int
    channels: int
    pages: int
    payloads: list


def parse_file(data):
    """Section 15."""
    require(len(data) >= 64, "file header", "truncated")
    magic, version = struct.unpack_from("<IH", data)
    require(magic == 0x46584E4C, "not a .lynx file")
    require(version == 1, f"file version {version}", "unsupported_version")
    (_, _, codec, tiers, flags, dtype, meta, cuts, tokens, channels, pages, alpha, chunk, page, sinks, recent,
     step, payload_bytes, profile, payload_crc, crc) = struct.unpack_from("<IHBBBBBBIIIfHHHHfQQII", data)
    require(zlib.crc32(data[:60]) == crc, "file header checksum")
    require(1 <= tokens <= 1 << 22 and 1 <= channels <= 65536, "file shape")
    parameters = make_parameters(codec, tiers, flags, dtype, meta, alpha, chunk, page, sinks, recent, profile, step, cuts)
    require(pages == -(-tokens // page), f"pages {pages}")
    require(len(data) - 64 >= payload_bytes, f"file of {64 + payload_bytes} bytes", "truncated")
    require(len(data) - 64 == payload_bytes, "bytes after the payloads")
    payloads, at, checksums = [], 64, b""
    for _ in range(tiers):
        row = []
        for _ in range(pages):
            try:
                length = payload_length(data[at:at + HEADER_BYTES])
            except FormatError as error:
                raise FormatError("corrupt", f"payload at {at}: {error}") from error
            require(at + length <= len(data), f"payload at {at} is too long")
            row.append(data[at:at + length])
            checksums += data[at + 60:at + 64]
            at += length
        payloads.append(row)
    require(at == len(data) and zlib.crc32(checksums) == payload_crc, "the payloads are not this header's")
    return File(parameters, tokens, channels, pages, payloads)


class BodyReader:
    """Takes arrays off the front of a body; done() asserts that nothing is left."""

    def __init__(self, body):
        self.body = body
        self.at = 0

    def array(self, dtype, *shape):
        """The next array, C order."""
        count = int(np.prod(shape, dtype=np.int64))
        size = count * np.dtype(dtype).itemsize
        require(self.at + size <= len(self.body), "body length")
        out = np.frombuffer(self.body, dtype, count, self.at).reshape(shape)
        self.at += size
        return out

    def rest(self):
        """All that is left, as bytes."""
        return self.array("u1", len(self.body) - self.at)

    def symbols(self, bits, tokens, channels):
        """Section 3: rows of symbols of `bits` bits as uint8 [tokens, channels]."""
        rows = self.array("u1", tokens, (channels * bits + 7) // 8)
        string = np.unpackbits(rows, axis=1, bitorder="little")[:, :channels * bits].reshape(tokens, channels, bits)
        return (string * (1 << np.arange(bits))).sum(axis=2).astype(np.uint8)

    def done(self):
        """A body has exactly the bytes its sections add up to."""
        require(self.at == len(self.body), "body length")


KEY, VALUE = 0, 1


@dataclass(frozen=True)
class Context:
    """Section 4.1. first_token is the core's."""

    first_token: int
    rope_base: float
    rope_scale: float
    rope_dims: int
    head_channels: int
    layer: int
    kind: int
    interleaved: int


def read_context(reader, channels, exact_head):
    """Section 4.1."""
    c = Context(*struct.unpack("<IffHHHBB", reader.array("u1", 20).tobytes()))
    require(c.first_token <= 1 << 22 and c.layer < 1024 and c.kind <= 2 and c.interleaved <= 1, "context")
    require(c.head_channels == 0 or channels % c.head_channels == 0, "channels per head")
    if c.rope_dims == 0:
        require((c.rope_base, c.rope_scale, c.interleaved) == (0, 1, 0), "rotation without channels")
    else:
        require(c.kind != VALUE and c.rope_dims % 2 == 0 and c.rope_dims <= c.head_channels, "rotated channels")
        require(1 < c.rope_base <= 2.0**40 and 2.0**-20 <= c.rope_scale <= 2.0**20, "rotation")
    return replace(c, first_token=c.first_token + exact_head)


def signed(symbols, bits=4):
    """Section 3: two's complement of `bits` bits."""
    top = 1 << (bits - 1)
    return (symbols.astype(np.int32) ^ top) - top


def limit(dtype, x):
    """Section 5: float32 within the dtype's finite numbers."""
    largest = {F16: np.float32(65504), BF16: np.float32(float.fromhex("0x1.FEp127")),
               F32: np.float32(float.fromhex("0x1.FFFFFEp127"))}[dtype]
    x = np.where(x < largest, x, largest)
    return np.where(x > -largest, x, -largest)


def round_to(dtype, x):
    """Section 5. Returns float16, uint16 (the bits of bfloat16) or float32."""
    x = limit(dtype, x)
    if dtype == F16:
        return x.astype(np.float16)
    if dtype == BF16:
        bits = x.view(np.uint32)
        return ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)
    return x
