"""A staged install as its users meet it: what is there, what the library exports and needs, and two programs that link it.

usage: consumer_test.py BUILD_DIR CMAKE C_COMPILER CXX_COMPILER [COMPILER FLAG]...
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD, CMAKE, CC, CXX, *FLAGS = sys.argv[1:]
HERE = os.path.dirname(os.path.abspath(__file__))


def run(*command, **environment):
    """stdout of a command that must succeed."""
    r = subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, **environment})
    if r.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: exit code {r.returncode}\n{r.stdout}{r.stderr}")
    return r.stdout


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        staged = os.path.join(cls.folder, "staged")
        run(CMAKE, "--install", BUILD, "--prefix", staged)
        # Moved, so that a path of the first place would not be found.
        cls.prefix = os.path.join(cls.folder, "moved here")
        os.rename(staged, cls.prefix)
        cls.lib = os.path.dirname(cls.find("liblynxkv-codec.so"))
        with open(cls.find("codec_abi.h"), encoding="utf-8") as header:
            cls.header = header.read()
        cls.abi = re.search(r"#define LYNXKV_CODEC_ABI_VERSION (\d+)", cls.header).group(1)

    @classmethod
    def find(cls, name):
        found = [os.path.join(folder, name) for folder, _, names in os.walk(cls.prefix) if name in names]
        if len(found) != 1:
            raise AssertionError(f"{name}: {found}")
        return found[0]

    def test_everything_is_there(self):
        for name in ("codec_abi.h", "LICENSE", "FORMAT.md", "WIRE.md", "lynxkv.pc", "lynxkvConfig.cmake", "lynxkvConfigVersion.cmake", "lynxkv.1"):
            self.assertGreater(os.path.getsize(self.find(name)), 0)
        binary = os.path.join(self.prefix, "bin", "lynxkv")
        self.assertIn("nested44", run(binary, "codec", "list"))
        for made, command in (("man/man1/lynxkv.1", "man"), ("bash-completion/completions/lynxkv", "completion")):
            with open(os.path.join(self.prefix, "share", made), encoding="utf-8") as installed:
                self.assertEqual(installed.read(), run(binary, command))

    def test_only_the_declared_functions_are_exported(self):
        declared = set(re.findall(r"LYNXKV_API[^;(]*?\b(lynxkv_\w+)\(", self.header))
        self.assertGreater(len(declared), 10)
        symbols = run("nm", "-D", "--defined-only", self.find("liblynxkv-codec.so"))
        exported = {line.split()[-1].split("@")[0] for line in symbols.splitlines() if line.split()[-2] != "A"}
        self.assertEqual(exported, declared)

    def test_soname_carries_the_abi_version_and_no_model_library_is_needed(self):
        dynamic = run("readelf", "-d", self.find("liblynxkv-codec.so"))
        self.assertIn(f"Library soname: [liblynxkv-codec.so.{self.abi}]", dynamic)
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
        for library in needed:
            self.assertRegex(library, r"^(libdeflate|libhwy|libstdc\+\+|libm|libgcc_s|libc|ld-linux.*|libasan|libubsan|libtsan)\.so")
        symbols = run("nm", "-D", "--with-symbol-versions", "--defined-only", self.find("liblynxkv-codec.so"))
        self.assertIn(f"lynxkv_encode@@LYNXKV_CODEC_{self.abi}", symbols)

    def test_c_through_pkg_config(self):
        pc = os.path.dirname(self.find("lynxkv.pc"))
        flags = run("pkg-config", "--cflags", "--libs", "lynxkv", PKG_CONFIG_PATH=pc)
        flags = [re.sub(r"\\(.)", r"\1", flag) for flag in re.split(r"(?<!\\)\s+", flags.strip())]
        program = os.path.join(self.folder, "pkg_config_consumer")
        run(CC, "-std=c99", "-pedantic-errors", "-Wall", "-Werror", *FLAGS, os.path.join(HERE, "pkg_config_consumer.c"), "-o", program, *flags, "-lm")
        print(run(program, LD_LIBRARY_PATH=self.lib))

    def test_cpp_through_find_package(self):
        build = os.path.join(self.folder, "build")
        run(CMAKE, "-S", os.path.join(HERE, "cmake"), "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}", f"-DCMAKE_CXX_COMPILER={CXX}",
            f"-DCMAKE_CXX_FLAGS={' '.join(FLAGS)}")
        run(CMAKE, "--build", build)
        print(run(os.path.join(build, "cmake_consumer")))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
