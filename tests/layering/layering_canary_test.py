"""The checks must be able to fail: each rule gets a small tree that breaks it, and one that keeps it."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import check_includes  # noqa: E402
import check_words  # noqa: E402

SKELETON = {f"src/{module}/{module}.h": "#pragma once\n" for module in check_includes.BELOW} | {
    "include/lynx/api.h": "#pragma once\n#include <string>\n",
    "include/lynx/codec.h": "#pragma once\n",
    "src/engine/llama/model.cc": "#include <llama.h>\n",
    "src/node/all.cc": '#include "codec/codec.h"\n#include "wire/wire.h"\n#include "lynx/api.h"\n#include <vector>\n',
    "src/serve/all_down.cc": '#include "node/node.h"\n#include "base/base.h"\n',
    "apps/tool/main.cc": '#include "lynx/api.h"\n#include "options.h"\n#include <sys/socket.h>\n',
    "apps/tool/options.h": "#pragma once\n",
    "tests/sim/anything.cc": '#include "codec/codec.h"\n#include "wire/wire.h"\n',
}


def problems_with(checker, extra):
    with tempfile.TemporaryDirectory() as root:
        for path, text in (SKELETON | extra).items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as out:
                out.write(text)
        return checker.check(root)


class Includes(unittest.TestCase):
    def refused(self, path, line, words):
        problems = problems_with(check_includes, {path: "// first line\n" + line + "\n"})
        self.assertEqual(len(problems), 1, problems)
        self.assertTrue(problems[0].startswith(f"{path}:2: "), problems)
        self.assertIn(words, problems[0])

    def test_sound_tree_passes(self):
        self.assertEqual(problems_with(check_includes, {}), [])

    def test_upward(self):
        self.refused("src/base/up.cc", '#include "kv/kv.h"', '"base" may include nothing')
        self.refused("src/kv/up.cc", '#include "codec/codec.h"', 'not "codec"')
        self.refused("src/engine/up.cc", '#include "speculate/speculate.h"', 'not "speculate"')
        self.refused("src/wire/up.cc", '#include "transport/transport.h"', 'not "transport"')
        self.refused("src/node/up.cc", '#include "serve/serve.h"', 'not "serve"')

    def test_codec_and_wire_never_meet(self):
        self.refused("src/codec/x.cc", '#include "wire/wire.h"', 'not "wire"')
        self.refused("src/wire/x.cc", '#include "codec/codec.h"', 'not "codec"')

    def test_spelling_does_not_help(self):
        self.refused("src/wire/x.cc", "  #  include <codec/codec.h>", 'not "codec"')
        self.refused("src/wire/x.cc", '#include "../codec/codec.h"', "path from src/")

    def test_unit_test_beside_the_code_counts(self):
        self.refused("src/wire/frame_test.cc", '#include "codec/codec.h"', 'not "codec"')

    def test_llama_stays_home(self):
        self.refused("src/engine/fake/x.cc", '#include "llama.h"', "llama.cpp")
        self.refused("src/node/x.cc", "#include <ggml-backend.h>", "llama.cpp")
        self.refused("apps/tool/x.cc", "#include <gguf.h>", "llama.cpp")

    def test_public_headers(self):
        self.refused("include/lynx/bad.h", '#include "base/base.h"', "public headers")

    def test_users_of_the_library(self):
        for folder in check_includes.PUBLIC_ONLY:
            self.refused(folder + "/x.cc", '#include "node/node.h"', "own headers")

    def test_unknown_module(self):
        self.refused("src/novel/x.cc", '#include "base/base.h"', "no row")

    def test_name_used_twice(self):
        problems = problems_with(check_includes, {"tests/sim/codec.h": "#pragma once\n"})
        self.assertEqual(problems, ["tests/sim/codec.h:1: the name is taken by src/codec/codec.h"])
        problems = problems_with(check_includes, {"include/lynx/main.cc": "", "include/lynx/options.h": ""})
        self.assertEqual(len(problems), 2, problems)


class Words(unittest.TestCase):
    def test_sound_tree_passes(self):
        harmless = {"README.md": "see home/ and ./build/work/ or node/root/x, https://example.org/home/\n", "build/x.txt": "TO" + "DO"}
        self.assertEqual(problems_with(check_words, harmless), [])

    def test_each_rule(self):
        for line in ("cd /ro" + "ot/x", "'/ho" + "me/me/x'", "# TO" + "DO: later", "FIX" + "ME", "https://py" + "pi.org/x", "=/wo" + "rk/x",
                     "/tm" + "p/scratch"):
            problems = problems_with(check_words, {"docs/x.md": "fine\n" + line + "\n"})
            self.assertEqual(len(problems), 1, (line, problems))
            self.assertTrue(problems[0].startswith("docs/x.md:2: "), problems)


if __name__ == "__main__":
    unittest.main()
