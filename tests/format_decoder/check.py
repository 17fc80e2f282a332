"""The Python decoder against the C++ one, bit for bit.

Usage: check.py LYNXKV      Run with Python that has NumPy; run by ctest as format_decoder_test.
Decodes every golden file and freshly encoded pages with both, and every golden bad file with the Python decoder, which must
refuse it with the code in its name.
"""

import itertools
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

TESTS = Path(__file__).resolve().parents[1]
PROFILE = TESTS / "golden" / "fake.lnxc"
sys.path.insert(0, str(TESTS.parent))
from format_decoder import FormatError, decode_file  # noqa: E402
from format_decoder.alpha import SPECS  # noqa: E402


def run(*arguments):
    subprocess.run([str(a) for a in arguments], check=True, stdout=subprocess.DEVNULL)


def codec_names(cli):
    listing = subprocess.run([cli, "codec", "list"], check=True, capture_output=True, text=True).stdout
    return [line.split()[0] for line in listing.splitlines()]


def compare(cli, lynx, folder):
    """Both decoders on one file, at every tier."""
    data = Path(lynx).read_bytes()
    for tier in map(str, range(data[7])):
        run(cli, "codec", "decode", lynx, folder / "out.npy", "--tier", tier, "--profile", PROFILE)
        expected = np.load(folder / "out.npy")
        actual = decode_file(data, tier, [PROFILE.read_bytes()])
        actual = actual.view("V2") if actual.dtype == np.uint16 else actual  # bfloat16
        if expected.dtype != actual.dtype or expected.shape != actual.shape or expected.tobytes() != actual.tobytes():
            raise AssertionError(f"{lynx} at tier {tier}: the decoders differ")


def fresh_cases(folder):
    """Real pages whole, and synthetic ones of awkward shapes and magnitudes, as path, metadata form or None, and options."""
    for kind in "kv":
        what = ["--kind", "key" if kind == "k" else "value", "--layer", "12", "--layers", "30"]
        yield TESTS / "golden" / f"page_{kind}_layer12.npy", None, what
    generator = np.random.default_rng(7)
    cases = [(shape, np.float16, "f32") for shape in ((1, 1), (3, 2), (130, 31))]
    cases += itertools.product([(33, 65)], (np.float16, np.float32), ("f32", "f16", "q8"))
    for (tokens, channels), dtype, meta in cases:
        spread = np.exp(generator.standard_normal(channels) * (1.5 if dtype == np.float16 else 15))
        matrix = (generator.standard_normal((tokens, channels)) * spread + spread).astype(dtype)
        path = folder / f"{tokens}x{channels}_{np.dtype(dtype).name}_{meta}.npy"
        np.save(path, matrix)
        options = ["--meta", meta, "--page", "64", "--chunk", "20", "--alpha", "37.5"]
        yield path, meta, options
        if dtype == np.float32 and meta == "f32":
            path = folder / "bf16.npy"  # cut, which is a way to round
            np.save(path, (matrix.view(np.uint32) >> 16).astype(np.uint16).view("V2"))
            yield path, meta, options


def is_worth_it(codec, meta):
    """Only the alpha-law codecs have metadata forms, and a mono payload is the same bodies again."""
    has_meta = codec.removesuffix("-mono") in SPECS
    return meta == "f16" if codec.endswith("-mono") else meta in (None, "f32") or has_meta


def main():
    cli = sys.argv[1]
    files = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for lynx in sorted((TESTS / "golden").glob("*.lynx")):
            compare(cli, lynx, folder)
            files += 1
        codecs = codec_names(cli)
        for page, meta, options in fresh_cases(folder):
            for codec in codecs:
                if not is_worth_it(codec, meta):
                    continue
                run(cli, "codec", "encode", page, folder / "fresh.lynx", "--codec", codec, *options)
                compare(cli, folder / "fresh.lynx", folder)
                files += 1
    refused = 0
    for lynx in sorted((TESTS / "golden_errors").glob("*.lynx")):
        code = lynx.name.split(".")[0]
        try:
            decode_file(lynx.read_bytes())
        except FormatError as error:
            assert error.code == code, f"{lynx.name}: {error}"
            refused += 1
            continue
        raise AssertionError(f"{lynx.name} was accepted")
    assert files >= 300 and refused >= 10, (files, refused)
    print(f"{files} files decode to the same bits, {refused} bad files are refused")


main()
