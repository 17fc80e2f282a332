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
    # Any bit patterns, NaN and infinities among them: what only an exact tier keeps.
    "patterns": (("nested44-exact", "lynxt-exact"), ["--sinks", "1", "--recent", "2"]),
    "brain": (("nested44-exact", "lynxt-exact-mono"), ["--sinks", "1", "--recent", "2"]),  # as bfloat16
}
PAGE_TOKENS = {"late": "12", "patterns": "16", "brain": "16"}  # otherwise 50
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
    generator = np.random.default_rng(23)
    patterns = generator.integers(0, 1 << 16, (40, 7), np.uint16)
    patterns[:, 1:5] = np.cumsum(generator.integers(0, 5, (40, 4)), axis=0) + np.array([0, 0x3BF0, 0x7BF0, 0xFBF0])
    np.save(folder / "patterns.npy", patterns.view(np.float16))
    np.save(folder / "brain.npy", patterns.view("V2"))
    files = {"late": "small.npy", "patterns": "patterns.npy", "brain": "brain.npy"}
    for name, (_, options) in OTHERS.items():
        inputs[name] = (folder / files.get(name, "long.npy"), ["--page", PAGE_TOKENS.get(name, "50")] + options)
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
    """lynxt with a profile, with and without exact tier: keys and values of the fake model's shape, default and other cuts. Lines for
    checksums.txt."""
    profile = make_profile(cli, folder)
    generator = np.random.default_rng(22)
    page = (generator.standard_normal((75, 32)) @ generator.standard_normal((32, 32))).astype(np.float16)
    np.save(folder / "calibrated.npy", page)
    lines = []
    for codec in ("lynxt", "lynxt-mono", "lynxt-exact"):
        for kind, options in (("keys", ["--kind", "key"]), ("values", ["--anchor-cut", "6", "--second-cut", "4", "--recent", "2"])):
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


def payloads_of(good):
    """Where the payloads of a file begin and end."""
    places, at = [], 64
    while at < len(good):
        end = at + 64 + struct.unpack_from("<I", good, at + 36)[0]
        places.append((at, end))
        at = end
    return places


def with_payload(good, index, payload):
    """The file with another payload in place of one of the last tier's, all checksums right. A negative index counts from the end."""
    payload = payload[:36] + struct.pack("<I", len(payload) - 64) + payload[40:]
    payload = payload[:60] + struct.pack("<I", zlib.crc32(payload[:60] + bytes(4) + payload[64:])) + payload[64:]
    payloads = [good[first:end] for first, end in payloads_of(good)]
    payloads[index] = payload
    body = b"".join(payloads)
    checksums = zlib.crc32(b"".join(p[60:64] for p in payloads))
    return seal_file(good[:40] + struct.pack("<Q", len(body)) + good[48:56] + struct.pack("<I", checksums) + good[60:64] + body)


def make_stream_errors(good, name):
    """From a file whose last payload ends with a stream, ones whose stream does not decode behind a good checksum."""
    first, end = payloads_of(good)[-1]
    payload = good[first:end]
    return {
        f"corrupt.{name}_short": with_payload(good, -1, payload[:-2]),
        f"corrupt.{name}_long": with_payload(good, -1, payload + b"\0\0"),
        f"corrupt.{name}_without_states": with_payload(good, -1, payload[:64 + 20]),
    }


def make_exact_errors(good):
    """From a nested44-exact file, ones with lossy tiers of a wrong size, scales out of range, and an escape that is cut off."""
    places = payloads_of(good)
    lossy = good[slice(*places[len(places) * 2 // 3 - 1])]  # tier 1 of the last page
    last = good[slice(*places[-1])]
    # Every lane's first symbol is the slot of its state modulo 4096: 4095 is an escape, whose 12 bits then say 4095, 0 or less.
    states = struct.pack("<16I", *[0x40000FFF + (lane << 20) for lane in range(16)])
    return {
        "corrupt.exact_lossy_short": with_payload(good, len(places) * 2 // 3 - 1, lossy[:-1]),
        "corrupt.exact_lossy_long": with_payload(good, len(places) * 2 // 3 - 1, lossy + b"\0"),
        "corrupt.exact_states": with_payload(good, -1, last[:64] + states + last[128:]),
        "corrupt.exact_empty": with_payload(good, -1, last[:64]),
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
    lynxt = (GOLDEN / "small_lynxt.lynx").read_bytes()
    errors |= make_stream_errors(lynxt, "stream")
    first, end = payloads_of(lynxt)[-1]
    # Not so for an exact tier, where a flipped plain bit is another element's.
    errors["corrupt.stream_word"] = with_payload(lynxt, -1, lynxt[first:end - 1] + bytes([lynxt[end - 1] ^ 1]))
    errors["corrupt.centroid"] = with_payload(lynxt, -1, lynxt[first:first + 64] + b"\xff" + lynxt[first + 65:end])
    exact = (GOLDEN / "small_nested44-exact.lynx").read_bytes()
    errors |= make_stream_errors(exact, "exact") | make_exact_errors(exact)
    for name, data in errors.items():
        path = ERRORS / f"{name}.lynx"
        if not path.exists():
            path.write_bytes(data)


main()
