"""FORMAT section 12.7: profiles."""

import struct
import zlib
from dataclasses import dataclass

import numpy as np

from .structure import BodyReader, require


@dataclass(frozen=True)
class Matrix:
    """What the profile knows of one layer's keys or values."""

    block: int
    mean_exponent: int
    scale_exponent: int
    mean: np.ndarray
    row_scale: np.ndarray
    sigma_class: np.ndarray
    basis: np.ndarray


def profile_hash(data):
    """FNV-1a, 64 bits."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value or 1


def read_matrix(reader, channels):
    block = int(reader.array("<u4", 1)[0])
    mean_exponent, scale_exponent = (int(x) for x in reader.array("i1", 2))
    unit = reader.array("<f4", 1)[0]
    require(1 <= block <= 512 and channels % block == 0, "a profile's block")
    require(mean_exponent >= -120 and -50 <= scale_exponent <= -13 and 0 < unit < 2.0**100, "a profile's exponents or unit")
    matrix = Matrix(block, mean_exponent, scale_exponent, reader.array("<i4", channels).astype(np.int64),
                    reader.array("<u2", channels).astype(np.int64), reader.array("u1", channels).astype(np.int64),
                    reader.array("i1", channels, block).astype(np.int64))
    require(bool((abs(matrix.mean) < 1 << 24).all() and (matrix.row_scale > 0).all()
                 and (abs(matrix.basis).sum(1) <= 65535).all()), "a profile's mean, scale or basis")
    return matrix


def parse_profile(data):
    """(hash, matrices [2 * layer + kind])."""
    require(len(data) >= 48, "profile header", "truncated")
    magic, version, layers, _, _, body_bytes, packed_bytes, body_crc, reserved, crc = struct.unpack_from("<IHH16sIIIIII", data)
    require(magic == 0x43584E4C, "not a profile")
    require(version == 1, f"profile version {version}", "unsupported_version")
    require(zlib.crc32(data[:44]) == crc and reserved == 0 and 1 <= layers <= 1024, "profile header")
    require(max(body_bytes, packed_bytes) <= 1 << 26, "profile body", "limit_exceeded")
    require(len(data) >= 48 + packed_bytes, "profile", "truncated")
    require(len(data) == 48 + packed_bytes, "bytes after the profile")
    try:
        body = zlib.decompress(data[48:])
    except zlib.error as error:
        require(False, f"profile body: {error}")
    require(len(body) == body_bytes and zlib.crc32(body) == body_crc, "profile body")
    reader, matrices = BodyReader(body), []
    for _ in range(layers):
        heads, key_dim, value_dim, _, _ = (int(x) for x in reader.array("<u4", 5))
        reader.array("<f4", 2)
        reader.array("u1", 2)
        for dim in (key_dim, value_dim):
            require(1 <= heads * dim <= 4096, "a profile's geometry")
            matrices.append(read_matrix(reader, heads * dim))
    reader.done()
    return profile_hash(data), matrices
