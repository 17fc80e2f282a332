"""Nodes that must prove who they are: the commands of docs/SECURITY.md, and everybody who is to be kept out."""
import os
import re
import subprocess

from lynxkv import FAKE, Case, Decode, Prefill, main, parse, run

TEXT = "It was the best of times, it was the worst of times. " * 10
GUIDE = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "SECURITY.md")
REQUEST = ["-p", TEXT, "-n", 16, "--ignore-end", "--json"]


class Secured(Case):
    def setUp(self):
        super().setUp()
        with open(GUIDE) as f:
            for block in re.findall(r"```bash\n(.*?)```", f.read(), re.DOTALL):
                subprocess.run(["bash", "-euc", block], cwd=self.folder, check=True, capture_output=True, timeout=60)

    def certificates(self, node, authority="authority"):
        return ["--tls-cert", self.path(node + ".pem"), "--tls-key", self.path(node + ".key"), "--tls-ca", self.path(authority + ".pem")]

    def keys(self):
        return ["--key-file", self.path("keys")]

    def refused(self, prefill, arguments, *words):
        code, out, err = Decode(prefill.address, *REQUEST, "--connect-timeout", 5, *arguments).finish(30)
        self.assert_one_line_error(code, err, *words)
        self.assertEqual(out, "")

    def ended(self, prefill):
        """The prefill node's log, once it has been told to stop."""
        prefill.process.terminate()
        return prefill.process.communicate(timeout=10)[1]

    def test_both_ways_answer_what_plaintext_answers_and_name_the_peer(self):
        with Prefill() as prefill:
            code, out, err = Decode(prefill.address, *REQUEST).finish(30)
            self.assertEqual(code, 0, err)
            expected = parse(out)["tokens"]
        for server, client, who in ((self.certificates("prefill-1"), self.certificates("decode-1"), "peer CN=decode-1 sha256:"),
                                    (self.keys(), self.keys(), "peer key decode-1 left")):
            with self.subTest(who=who), Prefill(*server) as prefill:
                code, out, err = Decode(prefill.address, *REQUEST, *client).finish(30)
                self.assertEqual(code, 0, err)
                self.assertEqual(parse(out)["tokens"], expected)
                self.assertIn(who, self.ended(prefill))

    def test_every_interface_with_tls_and_by_name(self):
        with Prefill(*self.keys(), listen="0.0.0.0:0") as prefill:
            port = prefill.address.rsplit(":", 1)[1]
            code, _, err = Decode("localhost:" + port, *REQUEST, *self.keys()).finish(30)
            self.assertEqual(code, 0, err)

    def test_strangers_are_refused_and_the_node_goes_on(self):
        other = self.write("other", "decode-1:" + "5" * 64 + "\n")
        with Prefill(*self.certificates("prefill-1")) as prefill:
            self.refused(prefill, [], "peer_lost", "may expect TLS")
            self.refused(prefill, self.keys(), "unauthenticated")
            self.refused(prefill, [*self.certificates("decode-1"), "--tls-name", "elsewhere.example"], "unauthenticated", "ostname mismatch")
            code, _, err = Decode(prefill.address, *REQUEST, *self.certificates("decode-1")).finish(30)
            self.assertEqual(code, 0, err)
            self.assertIn("connection refused: unauthenticated: TLS", self.ended(prefill))
        with Prefill(*self.keys()) as prefill:
            self.refused(prefill, ["--key-file", other], "unauthenticated")
            self.refused(prefill, self.certificates("decode-1"), "unauthenticated")
            self.assertNotIn("5" * 16, self.ended(prefill))
        with Prefill() as prefill:
            self.refused(prefill, self.keys(), "peer_lost", "may not expect TLS")

    def test_wrong_options(self):
        def fails(words, *arguments, listen="127.0.0.1:0"):
            r = run("prefill", *FAKE, "--listen", listen, *arguments, timeout=30)
            self.assert_one_line_error(r.returncode, r.stderr, *words)
        fails(["only loopback", "TLS"], listen="0.0.0.0:0")
        fails(["go together"], "--tls-cert", self.path("prefill-1.pem"))
        fails(["exclude each other"], *self.keys(), "--tls-ca", self.path("authority.pem"))
        fails(["io", "nothere"], "--key-file", self.path("nothere"))
        fails(["line 1"], "--key-file", self.write("short", "decode-1:1234\n"))
        os.replace(self.path("decode-1.key"), self.path("prefill-1.key"))
        fails(["private key", "mismatch"], *self.certificates("prefill-1"))
        fails(["go together"], "--tls-name", "decode-1.example")
        for option in ("--tls-cert", "--tls-key", "--tls-ca", "--tls-name", "--key-file"):  # an unset variable of a script
            r = run("prefill", *FAKE, "--listen", "127.0.0.1:0", option, "", timeout=30)
            self.assertEqual((r.returncode, r.stdout), (2, ""), option)
        r = run("prefill", *FAKE, "--listen", "127.0.0.1:0", "--allow-plaintext", *self.keys())
        self.assertEqual(r.returncode, 2)
        r = run("serve", *FAKE, "--listen", "127.0.0.1:0", *self.keys())
        self.assert_one_line_error(r.returncode, r.stderr, "--prefill")

    def test_plaintext_beyond_loopback_is_asked_for_and_warned_of(self):
        with Prefill("--allow-plaintext", listen="0.0.0.0:0") as prefill:
            port = prefill.address.rsplit(":", 1)[1]
            code, _, err = Decode("127.0.0.1:" + port, *REQUEST).finish(30)
            self.assertEqual(code, 0, err)
            self.assertIn("warning: --allow-plaintext", self.ended(prefill))


if __name__ == "__main__":
    main()
