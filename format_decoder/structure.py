"""FORMAT sections 2, 3, 5 and 12: headers, nibbles, rounding, files."""

import struct
import zlib
from dataclasses import dataclass

import numpy as np

CODECS = {1: "f16", 2: "int8", 3: "int4", 4: "int8-split", 5: "alg1", 6: "lynx44", 7: "nested44"}
TIERED = ("int8-split", "alg1", "lynx44", "nested44")
F16, BF16, F32 = 0, 1, 2
ITEM_BYTES = {F16: 2, BF16: 2, F32: 4}
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

    codec: str
    mono: bool
    tiers: int
    dtype: int
    meta: int
    alpha: np.float32
    chunk_tokens: int
    page_tokens: int
    sinks: int
    recent: int


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


def make_parameters(codec, tiers, flags, dtype, meta, alpha, chunk_tokens, page_tokens, sinks, recent):
    """Checks the shared fields against their ranges."""
    require(codec in CODECS, f"codec {codec}", "unsupported_version")
    mono = flags == 1
    require(flags in (0, 1), f"flags {flags}")
    name = CODECS[codec]
    require(name in TIERED or not mono, f"{name} has no mono form", "unsupported_version")
    require(tiers == (2 if name in TIERED and not mono else 1), f"tiers {tiers}")
    require(dtype in (F16, BF16, F32), f"dtype {dtype}")
    require(meta in (0, 1, 2), f"meta {meta}")
    require(2.0**-10 <= alpha <= 2.0**20, f"alpha {alpha}")
    require(1 <= chunk_tokens <= 1024, f"chunk {chunk_tokens}")
    require(1 <= page_tokens <= 4096, f"page {page_tokens}")
    require(sinks <= 1024 and recent <= 1024, f"sinks {sinks}, recent {recent}")
    return Parameters(name, mono, tiers, dtype, meta, np.float32(alpha), chunk_tokens, page_tokens, sinks, recent)


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
     anchor_crc, reserved, crc) = struct.unpack_from("<IHBBBBBBIIHHfHHHHII16sI", data)
    require(zlib.crc32(data[:60] + b"\0\0\0\0" + data[64:]) == crc, "payload checksum")
    require(reserved == bytes(16), "reserved bytes")
    parameters = make_parameters(codec, tiers, flags, dtype, meta, alpha, chunk, page, sinks, recent)
    require(tier < tiers, f"tier {tier}")
    require(1 <= tokens <= page, f"tokens {tokens}")
    require(1 <= channels <= 65536, f"channels {channels}")
    require(head + tail <= tokens, "exact rows")
    require(head + tail == 0 or parameters.codec == "nested44", "exact rows")
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
    """Section 12."""
    require(len(data) >= 64, "file header", "truncated")
    magic, version = struct.unpack_from("<IH", data)
    require(magic == 0x46584E4C, "not a .lynx file")
    require(version == 1, f"file version {version}", "unsupported_version")
    (_, _, codec, tiers, flags, dtype, meta, reserved0, tokens, channels, pages, alpha, chunk, page, sinks, recent,
     reserved1, payload_bytes, reserved2, payload_crc, crc) = struct.unpack_from("<IHBBBBBBIIIfHHHHIQQII", data)
    require(zlib.crc32(data[:60]) == crc, "file header checksum")
    require(reserved0 == reserved1 == reserved2 == 0, "reserved bytes")
    require(1 <= tokens <= 1 << 22 and 1 <= channels <= 65536, "file shape")
    parameters = make_parameters(codec, tiers, flags, dtype, meta, alpha, chunk, page, sinks, recent)
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

    def nibbles(self, tokens, channels):
        """Section 3: rows of 4-bit symbols as uint8 [tokens, channels]."""
        packed = self.array("u1", tokens, (channels + 1) // 2)
        symbols = np.empty((tokens, packed.shape[1] * 2), np.uint8)
        symbols[:, 0::2] = packed & 15
        symbols[:, 1::2] = packed >> 4
        return symbols[:, :channels]

    def done(self):
        """A body has exactly the bytes its sections add up to."""
        require(self.at == len(self.body), "body length")


def signed(nibbles):
    """Section 3: two's complement of 4 bits."""
    return (nibbles.astype(np.int32) ^ 8) - 8


def round_to(dtype, x):
    """Section 5. Returns float16, uint16 (the bits of bfloat16) or float32."""
    largest = {F16: np.float32(65504), BF16: np.float32(float.fromhex("0x1.FEp127")),
               F32: np.float32(float.fromhex("0x1.FFFFFEp127"))}[dtype]
    x = np.where(x < largest, x, largest)
    x = np.where(x > -largest, x, -largest)
    if dtype == F16:
        return x.astype(np.float16)
    if dtype == BF16:
        bits = x.view(np.uint32)
        return ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)
    return x
