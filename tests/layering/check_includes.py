#!/usr/bin/env python3
"""Refuses an include that runs against the direction of dependence (ARCHITECTURE.md), a stray llama.h, and a file name used twice.

usage: check_includes.py ROOT
Reads #include lines as text: a conditional include counts like any other.
"""

import os
import re
import sys

# What a module of src/ may include besides itself and include/lynx.
BELOW = {
    "base": set(),
    "kv": {"base"},
    "codec": {"base", "kv"},
    "wire": {"base", "kv"},
    "transport": {"base", "kv", "wire"},
    "engine": {"base", "kv"},
    "speculate": {"base", "kv", "engine"},
    "store": {"base", "kv"},
    "plan": {"base", "kv", "speculate"},
    "node": {"base", "kv", "codec", "wire", "transport", "engine", "speculate", "store", "plan"},
    "calibrate": {"base", "kv", "codec", "engine", "node"},
    "serve": {"base", "kv", "codec", "wire", "transport", "engine", "speculate", "store", "plan", "node"},
    "bench": {"base", "kv", "codec", "wire", "transport", "engine", "speculate", "store", "plan", "node"},
}
# Folders that stand in for a user of the library: the public API and their own headers, nothing else.
PUBLIC_ONLY = ("apps", "python", "tests/cli")
# Only the first of these may know llama.cpp.
LLAMA_HOME = "src/engine/llama/"
LLAMA_HEADER = re.compile(r"(llama|ggml|gguf)[a-z0-9_-]*\.h$")

SEARCHED = ("src", "include", "apps", "python", "tests", "fuzz", "bench")
CXX = (".h", ".hpp", ".cc", ".cpp", ".cu", ".cuh")
UNIQUE = CXX + (".py", ".sh")
NOT_UNIQUE = {"__init__.py", "conftest.py"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def files_below(root):
    for top in SEARCHED:
        for folder, subfolders, names in os.walk(os.path.join(root, top)):
            subfolders[:] = sorted(d for d in subfolders if not d.startswith(".") and d != "__pycache__")
            for name in sorted(names):
                yield os.path.relpath(os.path.join(folder, name), root).replace(os.sep, "/")


def check_include(root, path, quote, included):
    """The reason why `path` may not include `included`, or None."""
    if LLAMA_HEADER.search(included) and not path.startswith(LLAMA_HOME) and "/" not in included:
        return f"only {LLAMA_HOME} may include llama.cpp's headers"
    first = included.split("/")[0]
    is_module = os.path.isdir(os.path.join(root, "src", first)) and "/" in included
    is_public = first == "lynx"

    if path.startswith("include/"):
        if quote == '"' and not is_public:
            return 'public headers include only "lynx/..." and the standard library'
        return "public headers never include a module's" if is_module else None

    if any(path.startswith(folder + "/") for folder in PUBLIC_ONLY):
        if is_module or included.startswith(("src/", "../")):
            return 'here only "lynx/..." and own headers may be included'
        return None

    if path.startswith("src/"):
        module = path.split("/")[1]
        if module not in BELOW:
            return f'module "{module}" has no row in the table of tests/layering/check_includes.py'
        if included.startswith("../"):
            return "write the path from src/"
        if is_module and first != module and first not in BELOW[module]:
            allowed = ", ".join(sorted(BELOW[module])) or "nothing"
            return f'"{module}" may include {allowed} of src/, not "{first}"'
    return None


def check(root):
    """All violations below `root`, as lines "file:line: reason"."""
    problems = []
    seen = {}
    # A public header may be called like the contract of the module it stands for: lynx/codec.h and codec/codec.h.
    faces = {f"include/lynx/{module}.h" for module in BELOW}
    for path in files_below(root):
        name = os.path.basename(path)
        if name.endswith(UNIQUE) and name not in NOT_UNIQUE and path not in faces:
            if name in seen:
                problems.append(f"{path}:1: the name is taken by {seen[name]}")
            seen.setdefault(name, path)
        if not name.endswith(CXX):
            continue
        with open(os.path.join(root, path), encoding="utf-8") as source:
            for number, line in enumerate(source, 1):
                match = INCLUDE.match(line)
                reason = match and check_include(root, path, match.group(1), match.group(2))
                if reason:
                    problems.append(f"{path}:{number}: {match.group(2)}: {reason}")
    return problems


def main():
    if len(sys.argv) != 2 or not os.path.isdir(os.path.join(sys.argv[1], "src")):
        print(__doc__, file=sys.stderr)
        return 2
    problems = check(sys.argv[1])
    print("\n".join(problems) if problems else "every include points down")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
