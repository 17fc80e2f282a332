"""python -m format_decoder IN.lynx OUT.npy --tier anchor|full|N"""

import argparse
import sys

import numpy as np

from .decode import FormatError, decode_file


def main():
    parser = argparse.ArgumentParser(prog="format_decoder", description="Decode a .lynx file to .npy.")
    parser.add_argument("lynx", metavar="IN.lynx")
    parser.add_argument("npy", metavar="OUT.npy")
    parser.add_argument("--tier", default="full", help="anchor, full or a number from 0")
    arguments = parser.parse_args()
    try:
        with open(arguments.lynx, "rb") as file:
            matrix = decode_file(file.read(), arguments.tier)
        if matrix.dtype == np.uint16:
            raise FormatError("invalid_argument", "bfloat16 has no .npy form")
        np.save(arguments.npy, matrix)
    except (FormatError, OSError) as error:
        print(f"format_decoder: {error}", file=sys.stderr)
        return 1
    return 0


sys.exit(main())
