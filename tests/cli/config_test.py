#!/usr/bin/env python3
"""Configuration files, the manual page and completion: all three say what the command line itself says."""
import re
import shutil
import subprocess
import unittest

from lynxkv import BINARY, Case, main, run

# What each command needs before it says anything.
NEEDS = {"generate": ["--prompt", "x"], "decode": ["--prefill", "127.0.0.1:1", "--prompt", "x"], "bench e2e": ["--prompt", "x"]}


def helps():
    """Every command that runs something, and its --help."""
    def below(path):
        text = run(*path, "--help").stdout
        names = re.findall(r"^  ([a-z0-9]+) ", text.partition("Subcommands:")[2], re.M)
        return [leaf for name in names for leaf in below([*path, name])] or [(path, text)]
    return below([])


HELPS = helps()


def options_in(help_text):
    """The long names that a --help lists, --help itself left out."""
    names = re.findall(r"^ {2,8}(?:-\w,)?--([a-z0-9-]+)", help_text, re.M)
    return [name for name in names if name != "help"]


class ConfigTest(Case):
    def printed(self, *args):
        done = run(*args, "--print-config")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_the_help_is_read_right(self):
        commands = [" ".join(path) for path, _ in HELPS]
        self.assertIn("bench e2e", commands)
        self.assertIn("serve", commands)
        self.assertGreater(len(commands), 14)
        self.assertIn("listen", options_in(dict((" ".join(p), t) for p, t in HELPS)["serve"]))

    def test_what_is_printed_is_read_back(self):
        for command in ("prefill", "serve", "generate", "decode", "bench e2e"):
            args = [*command.split(), "--model", "fake", "--context", "777", *NEEDS.get(command, [])]
            printed = self.printed(*args)
            self.assertTrue(printed.startswith(f"[{command.replace(' ', '.')}]\n"), printed)
            self.assertIn("\ncontext = 777\n", printed)
            file = self.write("c.toml", printed)
            self.assertEqual(self.printed("--config", file, *command.split()), printed)
            self.assertEqual(self.printed(*command.split(), "--config", file), printed, "it may stand behind the command")
            self.assertIn("context = 99\n", self.printed(*command.split(), "--config", file, "--context", "99"), "the command line counts more")

    def test_every_option_is_there(self):
        for path, text in HELPS:
            if path[0] in ("man", "completion", "model", "codec") or path == ["bench", "link"]:
                continue
            printed = run(*path, "--model", "fake", *NEEDS.get(" ".join(path), []), "--print-config").stdout
            for name in options_in(text):
                if printed:
                    self.assertRegex(printed, rf"(?m)^(# )?{name}( =| is set)", " ".join(path))

    def test_a_request_runs_from_a_file(self):
        file = self.write("c.toml", '[generate]\nmodel = "fake"\nprompt = "In the beginning"\nmax-tokens = 7\nstop = ["zzz", "yyy"]\nignore-end = true\njson = true\n')
        by_file = run("--config", file, "generate")
        by_hand = run("generate", "--model", "fake", "--prompt", "In the beginning", "--max-tokens", 7, "--ignore-end", "--json")
        self.assertEqual(by_file.returncode, 0, by_file.stderr)
        text = re.compile(r'"text": ?"[^"]*"')
        self.assertEqual(text.search(by_file.stdout).group(), text.search(by_hand.stdout).group())

    def test_mistakes_are_wrong_usage(self):
        for content in ("[serve]\nno-such-option = 1\n", "[no-such-command]\nx = 1\n", "[serve]\nsequences = \"many\"\n", "# x\n" * 400_000):
            done = run("--config", self.write("c.toml", content), "serve", "--model", "fake", "--print-config")
            self.assertEqual(done.returncode, 2, content[:40])
            self.assertTrue(done.stderr.strip(), content[:40])
        self.assertEqual(run("--config", self.path("none.toml"), "serve", "--model", "fake").returncode, 2)

    def test_keys_are_not_shown(self):
        file = self.write("c.toml", '[serve]\nmodel = "fake"\napi-key = ["hush-1", "hush-2"]\n')
        for args in (["--config", file, "serve"], ["serve", "--model", "fake", "--api-key", "hush-3"]):
            printed = self.printed(*args)
            self.assertNotIn("hush", printed)
            self.assertIn("# api-key is set, and not shown\n", printed)


class TableTest(Case):
    def test_the_manual_page_has_every_option_of_every_command(self):
        page = run("man").stdout
        sections = dict(re.findall(r"^\.SS (.*)\n((?:(?!\.S[SH] ).*\n)*)", page, re.M))
        for path, text in HELPS:
            section = sections[" ".join(["lynxkv", *path])]
            found = re.findall(r"^\.TP\n\\fB(?:\\-\w, )?\\-\\-(.*?)\\fR", section, re.M)
            self.assertEqual(sorted(n.replace("\\-", "-") for n in found), sorted(options_in(text)), path)

    @unittest.skipUnless(shutil.which("groff"), "there is no groff")
    def test_the_manual_page_is_good_roff(self):
        done = subprocess.run(["groff", "-man", "-ww", "-z", "-Tutf8"], input=run("man").stdout, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def complete(self, *words):
        script = f'source <({BINARY} completion); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _lynxkv; printf "%s\\n" "${{COMPREPLY[@]}}"'
        done = subprocess.run(["bash", "-c", script, "bash", *words], capture_output=True, text=True, check=False)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_completion_offers_what_the_help_lists(self):
        for path, text in HELPS:
            offered = self.complete("lynxkv", *path, "--")
            self.assertEqual(sorted(offered), sorted(["--" + n for n in options_in(text)] + ["--help"]), path)
        self.assertEqual(self.complete("lynxkv", "serve", "--li"), ["--listen", "--link-rate", "--link-delay"])
        self.assertEqual(self.complete("lynxkv", "be"), ["bench"])
        self.assertEqual(self.complete("lynxkv", "bench", "e"), ["e2e"])
        self.assertEqual(self.complete("lynxkv", "serve", "--listen", ""), [], "a value is none of ours")
        self.assertIn("--json", self.complete("lynxkv", "bench", "e2e", "--link-rate", "1gbit", "--j"))


if __name__ == "__main__":
    main()
