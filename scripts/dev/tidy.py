"""clang-tidy over our sources, in parallel; a file whose preprocessed text and configuration passed before is not checked again.

usage: tidy.py --build BUILD --cache FOLDER [--jobs N] [--add-checks LIST] [FILE...]
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import shlex
import subprocess
import sys

OURS = ("src", "apps", "tests", "fuzz", "bench", "python")


def commands_of(build, root, wanted):
    """(file, arguments, folder) of each of our sources, once each."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as source:
        entries = json.load(source)
    seen = set()
    for entry in entries:
        path = os.path.realpath(os.path.join(entry["directory"], entry["file"]))
        name = os.path.relpath(path, root)
        if name in seen or name.split(os.sep)[0] not in OURS or (wanted and name not in wanted):
            continue
        seen.add(name)
        arguments = shlex.split(entry["command"])
        if os.path.basename(arguments[0]) == "ccache":
            arguments = arguments[1:]
        yield name, arguments, entry["directory"]


def key_of(arguments, folder, salt):
    """A hash of what clang-tidy will see, comments included; None if the file does not preprocess."""
    out = arguments.index("-o")
    preprocess = arguments[:out] + arguments[out + 2:] + ["-E", "-C"]
    preprocess.remove("-c")
    done = subprocess.run(preprocess, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    if done.returncode:
        return None
    return hashlib.sha256(salt + done.stdout).hexdigest()


def check(name, arguments, folder, options, salt):
    """(name, output, passed, was cached)."""
    key = key_of(arguments, folder, salt)
    stamp = options.cache / key if key else None
    if stamp and stamp.exists():
        return name, "", True, True
    done = subprocess.run(["clang-tidy", "--quiet", "--checks=" + options.add_checks, "-p", options.build, name],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    passed = done.returncode == 0
    if passed and stamp:
        stamp.touch()
    # stderr counts suppressed warnings; it matters only when nothing else says what is wrong.
    return name, done.stdout or ("" if passed else done.stderr), passed, False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--cache", required=True, type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--add-checks", default="", help="on top of those of .clang-tidy")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    root = os.getcwd()
    version = subprocess.run(["clang-tidy", "--version"], stdout=subprocess.PIPE, check=True).stdout
    salt = version + pathlib.Path(".clang-tidy").read_bytes() + options.add_checks.encode()
    work = list(commands_of(options.build, root, {os.path.relpath(f) for f in options.files}))
    if not work:
        print("tidy: none of these files is part of the build", file=sys.stderr)
        return 1

    failed, cached = [], 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        runs = [pool.submit(check, *item, options, salt) for item in work]
        for count, run in enumerate(concurrent.futures.as_completed(runs), 1):
            name, output, passed, was_cached = run.result()
            cached += was_cached
            if not was_cached:
                print(f"[{count}/{len(work)}] {name}", flush=True)
            if not passed:
                failed.append(name)
                print(output, flush=True)
    print(f"tidy: {len(work)} files, {cached} unchanged since they passed, {len(failed)} failed")
    for name in sorted(failed):
        print(f"  {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
