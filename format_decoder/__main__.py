"""python -m format_decoder IN.lynx OUT.npy --tier anchor|full|last|N"""

import argparse
import sys

import numpy as np

from .decode import FormatError, decode_file


def main():
    parser = argparse.ArgumentParser(prog="format_decoder", description="Decode a .lynx file to .npy.")
    parser.add_argument("lynx", metavar="IN.lynx")
    parser.add_argument("npy", metavar="OUT.npy")
    parser.add_argument("--tier", default="last", help="anchor, full, last or a number from 0")
    arguments = parser.parse_args()
    try:
        with open(arguments.lynx, "rb") as file:
            matrix = decode_file(file.read(), arguments.tier)
        np.save(arguments.npy, matrix.view("V2") if matrix.dtype == np.uint16 else matrix)  # NumPy has no bfloat16
    except (FormatError, OSError) as error:
        print(f"format_decoder: {error}", file=sys.stderr)
        return 1
    return 0


sys.exit(main())
