#!/usr/bin/env python3
"""Refuses words that have no place in the repository: a machine's own paths, package hosts, notes to oneself.

usage: check_words.py ROOT
"""

import os
import re
import sys

# Written in two halves, so that this file passes its own check.
FORBIDDEN = [
    (re.compile(r"(?<![\w.])/(?:ro" + r"ot|ho" + r"me|wo" + r"rk|Us" + r"ers)/"), "a path of one machine"),
    (re.compile(r"/tm" + r"p/[A-Za-z0-9]"), "a fixed name in the shared temporary folder"),
    (re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b"), "a note to oneself"),
    (re.compile(r"(?:py" + r"pi\.org|python" + r"hosted\.org|deb\.deb" + r"ian\.org|huggingface" + r"\.co)", re.I), "a package host"),
]
SKIPPED_FOLDERS = {".git", ".cache", ".venv", "shared", "corpus", "__pycache__"}
SKIPPED_FILES = {"LICENSE"}
BYTES_MAX = 4 << 20


def texts_below(root):
    for folder, subfolders, names in os.walk(root):
        top = os.path.samefile(folder, root)
        subfolders[:] = sorted(d for d in subfolders
                               if d not in SKIPPED_FOLDERS and not (top and (d == "build" or d.startswith("build-"))))
        for name in sorted(names):
            path = os.path.join(folder, name)
            if name in SKIPPED_FILES or os.path.islink(path) or os.path.getsize(path) > BYTES_MAX:
                continue
            with open(path, "rb") as source:
                data = source.read()
            if b"\0" not in data:
                yield os.path.relpath(path, root), data.decode("utf-8", errors="replace")


def check(root):
    """All findings below `root`, as lines "file:line: reason"."""
    problems = []
    for path, text in texts_below(root):
        for number, line in enumerate(text.splitlines(), 1):
            for pattern, reason in FORBIDDEN:
                match = pattern.search(line)
                if match:
                    problems.append(f"{path}:{number}: {match.group(0)}: {reason}")
    return problems


def main():
    if len(sys.argv) != 2 or not os.path.isdir(sys.argv[1]):
        print(__doc__, file=sys.stderr)
        return 2
    problems = check(sys.argv[1])
    print("\n".join(problems) if problems else "no forbidden words")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
