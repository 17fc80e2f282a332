"""Makes the golden .lynx files, their checksums, and the bad files of tests/golden_errors with the built CLI.

Usage: make_lynx.py LYNXKV      Existing files are left alone: the bytes of a released format never change.
Run with Python that has NumPy. The pages come from the .npy files beside this script and from a fixed seed.
"""

import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import numpy as np

GOLDEN = Path(__file__).resolve().parent
ERRORS = GOLDEN.parent / "golden_errors"
# Codecs that look at what a matrix is, or at more tokens than the small one has: source, codecs, options.
OTHERS = {
    "long": (("kivi2", "kivi4"), []),
    "keys": (("kivi4",), ["--kind", "key"]),
    "turned": (("kvquant3",), ["--kind", "key", "--head", "5", "--rope-dims", "4", "--rope-base", "1e4"]),
    "paired": (("kvquant4",), ["--kind", "key", "--head", "5", "--rope-dims", "2", "--rope-base", "500000",
                               "--rope-scale", "0.25", "--rope-interleaved"]),
    "late": (("cachegen",), ["--layer", "29", "--layers", "30"]),
}
# These have three files each; codecs that came later have one small one.
FIRST_CODECS = ("nested44", "nested44-mono", "lynx44", "lynx44-mono", "alg1", "alg1-mono", "int8-split", "int8-split-mono",
                "int8", "int4", "f16")


def make_inputs(folder):
    """A piece of a real page, several pages with a partial last one, awkward float32, and a small one."""
    real = np.load(GOLDEN / "page_k_layer12.npy")[:48, :40]
    generator = np.random.default_rng(20)
    paged = (generator.standard_normal((75, 21)) * np.exp(generator.standard_normal(21))).astype(np.float16)
    paged[:, 3] = np.float16(-1.5)
    awkward = (generator.standard_normal((37, 17)) * np.exp(20 * generator.standard_normal(17))).astype(np.float32)
    awkward[5] = 0
    awkward[:, 4] = -0.0
    awkward[7, 2] = np.float32(1e-42)
    small = np.load(GOLDEN / "page_v_layer12.npy")[:20, :33]
    inputs = {}
    for name, array, options in (("real", real, []), ("paged", paged, ["--page", "32", "--chunk", "10", "--meta", "q8"]),
                                 ("awkward", awkward, ["--page", "16", "--meta", "f16", "--alpha", "5", "--recent", "3"]),
                                 ("small", small, ["--page", "12", "--chunk", "5", "--meta", "f16", "--sinks", "1",
                                                   "--recent", "2"])):
        np.save(folder / f"{name}.npy", array)
        inputs[name] = (folder / f"{name}.npy", options)
    np.save(folder / "long.npy", np.load(GOLDEN / "page_k_layer12.npy")[:133, :5])
    for name, (_, options) in OTHERS.items():
        path = folder / ("small.npy" if name == "late" else "long.npy")
        inputs[name] = (path, ["--page", "50" if name != "late" else "12"] + options)
    return inputs


def make_profile(cli, folder):
    """The profile of the fake model that the calibrated files were made with."""
    path = GOLDEN / "fake.lnxc"
    if not path.exists():
        text = folder / "text"
        text.write_bytes(np.random.default_rng(21).integers(97, 123, 2048, np.uint8).tobytes())
        subprocess.run([cli, "codec", "calibrate", "-m", "fake", "--text", text, "--tokens", "2048", "-o", path], check=True)
    return path


def make_calibrated(cli, folder):
    """lynxt with a profile: keys and values of the fake model's shape, default and other cuts. Lines for checksums.txt."""
    profile = make_profile(cli, folder)
    generator = np.random.default_rng(22)
    page = (generator.standard_normal((75, 32)) @ generator.standard_normal((32, 32))).astype(np.float16)
    np.save(folder / "calibrated.npy", page)
    lines = []
    for codec in ("lynxt", "lynxt-mono"):
        for kind, options in (("keys", ["--keys"]), ("values", ["--anchor-cut", "6", "--second-cut", "4", "--recent", "2"])):
            lynx = GOLDEN / f"calibrated_{codec}_{kind}.lynx"
            if not lynx.exists():
                subprocess.run([cli, "codec", "encode", folder / "calibrated.npy", lynx, "--codec", codec, "--profile", profile,
                                "--page", "40", "--layer", "1", *options], check=True)
            for tier in map(str, range(lynx.read_bytes()[7])):
                subprocess.run([cli, "codec", "decode", lynx, folder / "out.npy", "--tier", tier, "--profile", profile],
                               check=True)
                lines.append(f"{lynx.name} {tier} {zlib.crc32(np.load(folder / 'out.npy').tobytes())}\n")
    return lines


def codec_names(cli):
    """All registry names, in the CLI's order."""
    listing = subprocess.run([cli, "codec", "list"], check=True, capture_output=True, text=True).stdout
    return [line.split()[0] for line in listing.splitlines()]


def codecs_of(source, cli):
    """The codecs that have a file of this source."""
    if source in OTHERS:
        return OTHERS[source][0]
    elsewhere = FIRST_CODECS + OTHERS["long"][0]
    return [c for c in codec_names(cli) if c not in elsewhere] if source == "small" else FIRST_CODECS


def seal_file(data):
    """Renews the file header's checksums after a deliberate change."""
    return data[:60] + struct.pack("<I", zlib.crc32(data[:60])) + data[64:]


def make_errors(good):
    """From one good file, files that fail with the code in their name."""
    flip = lambda at: good[:at] + bytes([good[at] ^ 1]) + good[at + 1:]
    put = lambda at, value: good[:at] + value + good[at + len(value):]
    second = 64 + 64 + struct.unpack_from("<I", good, 64 + 36)[0]
    return {
        "truncated.empty": b"",
        "truncated.header": good[:40],
        "truncated.payload": good[:-1],
        "truncated.second_tier_missing": good[:second],
        "corrupt.magic": flip(0),
        "corrupt.header_flip": flip(13),
        "corrupt.trailing_byte": good + b"\0",
        "corrupt.payload_magic": flip(64),
        "corrupt.payload_header_flip": flip(64 + 21),
        "corrupt.body_flip": flip(64 + 64 + 10),
        "corrupt.last_byte_flip": flip(len(good) - 1),
        "corrupt.payloads_of_another_header": seal_file(put(56, b"\1\2\3\4")),
        "corrupt.reserved": seal_file(put(36, b"\1")),
        "corrupt.pages": seal_file(put(20, struct.pack("<I", 2**31))),
        "corrupt.chunk_0": seal_file(put(28, b"\0\0")),
        "corrupt.other_channels": seal_file(put(16, struct.pack("<I", 65536))),
        "unsupported_version.file": seal_file(put(4, b"\2")),
        "unsupported_version.codec": seal_file(put(6, b"\x63")),
    }


def make_stream_errors(good):
    """From a lynxt file, ones whose last payload has a good checksum over a stream that does not decode."""
    at, last, checksums = 64, 64, b""
    while at < len(good):
        last = at
        at += 64 + struct.unpack_from("<I", good, at + 36)[0]
        checksums += good[last + 60:last + 64] if at < len(good) else b""

    def with_last(payload):
        payload = payload[:36] + struct.pack("<I", len(payload) - 64) + payload[40:]
        crc = struct.pack("<I", zlib.crc32(payload[:60] + bytes(4) + payload[64:]))
        data = good[:last] + payload[:60] + crc + payload[64:]
        data = data[:40] + struct.pack("<Q", len(data) - 64) + data[48:56] + struct.pack("<I", zlib.crc32(checksums + crc)) + data[60:]
        return seal_file(data)

    payload = good[last:]
    return {
        "corrupt.stream_word": with_last(payload[:-1] + bytes([payload[-1] ^ 1])),
        "corrupt.stream_short": with_last(payload[:-2]),
        "corrupt.stream_long": with_last(payload + b"\0\0"),
        "corrupt.stream_without_states": with_last(payload[:64 + 20]),
        "corrupt.centroid": with_last(payload[:64] + b"\xff" + payload[65:]),
    }


def main():
    cli = sys.argv[1]
    ERRORS.mkdir(exist_ok=True)
    lines = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for source, (path, options) in make_inputs(folder).items():
            for codec in codecs_of(source, cli):
                lynx = GOLDEN / f"{source}_{codec}.lynx"
                if not lynx.exists():
                    subprocess.run([cli, "codec", "encode", path, lynx, "--codec", codec, *options], check=True)
                for tier in ("anchor", "full") if codec in FIRST_CODECS else map(str, range(lynx.read_bytes()[7])):
                    subprocess.run([cli, "codec", "decode", lynx, folder / "out.npy", "--tier", tier], check=True)
                    lines.append(f"{lynx.name} {tier} {zlib.crc32(np.load(folder / 'out.npy').tobytes())}\n")
        lines += make_calibrated(cli, folder)
    (GOLDEN / "checksums.txt").write_text("".join(lines))
    errors = make_errors((GOLDEN / "paged_nested44.lynx").read_bytes())
    errors |= make_stream_errors((GOLDEN / "small_lynxt.lynx").read_bytes())
    for name, data in errors.items():
        path = ERRORS / f"{name}.lynx"
        if not path.exists():
            path.write_bytes(data)


main()
