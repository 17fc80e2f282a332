"""The command line on the fake engine: what it prints, and what it says to bad input."""
import os
import signal
import subprocess
import time
import unittest

from lynxkv import BINARY, FAKE, Case, LinkSource, Prefill, main, parse, run

TEXT = "It was the best of times, it was the worst of times, it was the age of wisdom. " * 12


class Good(Case):
    def test_version(self):
        r = run("--version", "--json")
        self.assertEqual(r.returncode, 0)
        v = parse(r.stdout)
        self.assertEqual(v["name"], "lynxkv")
        for key in ("version", "commit", "formats", "codecs", "backends", "transports", "engines"):
            self.assertIn(key, v)
        self.assertIn("nested44", v["codecs"])

    def test_no_command_shows_help_and_fails(self):
        r = run()
        self.assertEqual(r.returncode, 2)
        self.assertIn("generate", r.stderr)

    def test_generate_runs_two_processes_and_reports(self):
        r = run("generate", *FAKE, "-p", TEXT, "-n", 40, "--ignore-end", "--link-rate", "20mbit", "--link-delay", "1ms", "--window", 8, "--json")
        self.assertEqual(r.returncode, 0, r.stderr)
        report = parse(r.stdout)
        self.assertEqual(len(report["tokens"]), 40)
        self.assertEqual(len(report["committed_s"]), 40)
        self.assertEqual(report["committed_s"], sorted(report["committed_s"]))
        self.assertEqual(report["drafted"], 8)
        self.assertEqual(len(report["tiers"]), 2)
        self.assertGreater(report["verified_s"], report["last_tier_s"])
        self.assertIn("prefill", r.stderr)

    def test_text_and_timeline(self):
        r = run("generate", *FAKE, "-p", TEXT, "-n", 16, "--ignore-end", "--window", 4)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertTrue(r.stdout.strip())
        for word in ("prefill", "anchor", "residual", "draft", "verify", "committed", "mbit/s", "accepted"):
            self.assertIn(word, r.stderr)

    def test_provisional_shows_drafts(self):
        r = run("generate", *FAKE, "-p", TEXT, "-n", 40, "--ignore-end", "--window", 16, "--provisional")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("[draft]", r.stdout)
        self.assertIn("[committed]", r.stdout)

    def test_every_window_and_codec_parameter_gives_the_same_tokens_for_a_seed(self):
        seen = set()
        for extra in (["--window", 1], ["--window", 8], ["--window", 64], []):
            r = run("generate", *FAKE, "-p", TEXT, "-n", 32, "--ignore-end", "--temperature", 0.9, "--seed", 5, "--json", *extra)
            self.assertEqual(r.returncode, 0, r.stderr)
            seen.add(tuple(parse(r.stdout)["tokens"]))
        self.assertEqual(len(seen), 1)

    def test_bench_prints_one_row_per_system(self):
        r = run("bench", "e2e", *FAKE, "-p", TEXT, "--systems", "f16,int8,nested44,nested44-mono", "--link-rate", "50mbit", "--repeats", 1, "--json")
        self.assertEqual(r.returncode, 0, r.stderr)
        rows = parse(r.stdout)["rows"]
        self.assertEqual([row["codec"] for row in rows], ["f16", "int8", "nested44", "nested44-mono"])
        for row in rows:
            self.assertTrue(row["tokens_equal_full"], row["codec"])
            self.assertEqual(len(row["tokens"]), 65)
            for key in ("system", "link_mbit", "threads", "bits_anchor", "bits_full", "token1_from_prefill_s", "ttft_provisional_s",
                        "ttft_committed_s", "tt32t_committed_s", "tt64t_committed_s", "tpot_ms", "verify_ms_per_token",
                        "verify_exposed_ms", "window", "drafted", "accepted", "acceptance", "p_full_accept",
                        "kl_anchor_vs_full", "model_tt32t_s"):
                self.assertIn(key, row)

    def test_bench_codec_prints_one_row_per_codec_and_threads(self):
        r = run("bench", "codec", *FAKE, "-p", TEXT, "--prompt-tokens", 300, "--working-set", 1, "--repeats", 1, "--threads", "1,2",
                "--backends", "scalar", "--codecs", "nested44,int8,f16,nested44-exact,lynxt-exact-mono", "--json")
        self.assertEqual(r.returncode, 0, r.stderr)
        report = parse(r.stdout)
        self.assertEqual(report["prompt_tokens"], 300)
        self.assertGreaterEqual(report["working_set_mib"], 1)
        rows = report["rows"]
        self.assertEqual([(row["codec"], row["threads"]) for row in rows], [(c, t) for c in ("nested44", "int8", "f16", "nested44-exact", "lynxt-exact-mono") for t in (1, 2)])
        for row in rows:
            self.assertEqual(list(row), ["codec", "backend", "threads", "encode_gbps", "decode_anchor_gbps", "decode_full_gbps",
                                         "decode_exact_gbps", "memcpy_gbps", "bits_anchor", "bits_full", "bits_exact", "nmse_anchor_k", "nmse_anchor_v", "nmse_full_k",
                                         "nmse_full_v", "peak_mib"])
            for key in ("encode_gbps", "decode_anchor_gbps", "decode_full_gbps", "memcpy_gbps", "peak_mib"):
                self.assertGreater(row[key], 0, key)
        nested, int8, f16, exact, mono = rows[::2]
        self.assertIsNone(nested["bits_exact"])
        self.assertIsNone(nested["decode_exact_gbps"])
        for key in ("bits_anchor", "bits_full", "nmse_anchor_k", "nmse_full_k", "nmse_full_v"):
            self.assertEqual(exact[key], nested[key])
        self.assertTrue(exact["bits_full"] < exact["bits_exact"] < 16)
        self.assertGreater(exact["decode_exact_gbps"], 0)
        self.assertEqual((mono["bits_exact"], mono["nmse_full_k"]), (mono["bits_full"], 0))
        self.assertLess(nested["bits_anchor"], nested["bits_full"])
        self.assertLess(nested["nmse_full_k"], nested["nmse_anchor_k"] / 20)
        self.assertTrue(0 < int8["nmse_full_v"] < 1e-3)
        # 16 bits an element and, per page of 256 and 44 tokens times 32 channels, the headers of payload and frame.
        self.assertAlmostEqual(f16["bits_exact"], 16 + 8 * 2 * (64 + 64) / (300 * 32), places=3)
        self.assertEqual(f16["nmse_full_k"], 0)

    def test_bench_codec_measures_bfloat16_as_well(self):
        rows = {}
        for options in ([], ["--bf16"]):
            r = run("bench", "codec", *FAKE, "-p", TEXT, "--prompt-tokens", 300, "--working-set", 1, "--threads", "1", "--backends", "scalar",
                    "--codecs", "nested44-exact,f16", "--json", *options)
            self.assertEqual(r.returncode, 0, r.stderr)
            report = parse(r.stdout)
            rows[report["dtype"]] = report["rows"]
        self.assertEqual(list(rows), ["f16", "bf16"])
        self.assertLess(rows["bf16"][0]["bits_exact"], rows["f16"][0]["bits_exact"] - 2)

    def test_bench_accept_prints_one_row_per_tier(self):
        text = self.write("text.txt", TEXT)
        r = run("bench", "accept", *FAKE, "-f", text, "-f", text, "--places", 3, "--tokens", 12, "--codecs", "nested44,f16,nested44-exact", "--json")
        self.assertEqual(r.returncode, 0, r.stderr)
        report = parse(r.stdout)
        self.assertEqual(report["places"], 6)
        self.assertEqual(report["prefix_tokens"][:3], report["prefix_tokens"][3:])
        self.assertEqual([(row["codec"], row["tier"]) for row in report["rows"]], [("nested44", "anchor"), ("nested44", "full"), ("f16", "full"),
                          ("nested44-exact", "anchor"), ("nested44-exact", "full"), ("nested44-exact", "exact")])
        figures = ("kl", "top1", "expected_accept", "accepted_prefix_mean", "p_accept_10", "p_accept_20")
        anchor, full, f16, _, before_exact, exact = report["rows"]
        self.assertEqual([round(exact[key], 9) for key in figures[:-1]], [0, 1, 1, 12, 1])
        self.assertEqual(before_exact["kl"], full["kl"])
        for row in (anchor, full, f16, anchor["vs_full"]):
            for key in figures:
                self.assertIn(key, row)
                self.assertIn(key + "_se", row)
            self.assertIsNone(row["p_accept_20"])
            self.assertTrue(0 <= row["accepted_prefix_mean"] <= 12)
        self.assertEqual([round(f16[key], 9) for key in figures[:-1]], [0, 1, 1, 12, 1])
        self.assertGreater(anchor["kl"], full["kl"])
        self.assertLess(anchor["bits"], full["bits"])
        self.assertIsNone(full["vs_full"])


    def test_bench_link_prints_one_row_per_transport(self):
        r = run("bench", "link", "--seconds", 0.1, "--rounds", 1, "--probes", 2, "--anchor-frames", 4, "--frame-kib", 64, "--json")
        self.assertEqual(r.returncode, 0, r.stderr)
        report = parse(r.stdout)
        self.assertEqual([row["transport"] for row in report["rows"]], ["socket", "tcp", "tls"])
        for row in report["rows"]:
            self.assertGreater(row["goodput_mbit"], 0, row)
            self.assertGreater(row["vs_socket"], 0, row)
            self.assertGreater(row["sender_cpu_s_per_gb"], 0, row)
            self.assertEqual(row["anchors_idle_ms"] is None, row["transport"] == "socket", row)
        self.assertEqual(report["frame_kib"], 64)

    def test_bench_link_lets_anchors_pass_on_an_emulated_link(self):
        r = run("bench", "link", "--link-rate", "200mbit", "--link-delay", "2ms", "--peers", 2, "--seconds", 0.3, "--rounds", 1, "--probes", 3,
                "--anchor-frames", 4, "--json")
        self.assertEqual(r.returncode, 0, r.stderr)
        rows = parse(r.stdout)["rows"]
        self.assertEqual([row["transport"] for row in rows], ["tcp", "tls"])  # a plain socket isn't behind the emulated link
        for row in rows:
            self.assertLess(row["goodput_mbit"], 2.2 * 200, row)  # each peer has its own
            # Queued before them: 4 requests of 256 MiB, 43 s.
            self.assertLess(row["anchors_loaded_ms"]["p99"], 10000, row)

    def test_bench_link_between_two_processes(self):
        with LinkSource() as source:
            r = run("bench", "link", "--connect", source.address, "--seconds", 0.1, "--rounds", 1, "--probes", 2, "--anchor-frames", 4, "--json")
            self.assertEqual(r.returncode, 0, r.stderr)
            (row,) = parse(r.stdout)["rows"]
            self.assertEqual((row["transport"], row["vs_socket"], row["sender_cpu_s_per_gb"]), ("tcp", None, None))
            source.process.send_signal(signal.SIGTERM)
            self.assertEqual(source.process.wait(10), 0)


class Bad(Case):
    def check(self, words, *args, usage=False):
        r = run(*args, timeout=30)
        if usage:
            self.assertEqual(r.returncode, 2, r.stderr)
        else:
            self.assert_one_line_error(r.returncode, r.stderr, *words)
        self.assertEqual(r.stdout, "")

    def test_models(self):
        self.check(["io", "nothere.gguf"], "prefill", "-m", self.path("nothere.gguf"), "--listen", "127.0.0.1:0")
        self.check(["corrupt"], "prefill", "-m", self.write("text.gguf", "this is not a model"), "--listen", "127.0.0.1:0")
        self.check(["fake:SEED"], "prefill", "-m", "fake:abc", "--listen", "127.0.0.1:0")

    def test_prompts(self):
        self.check(["empty"], "generate", *FAKE, "-f", self.write("empty.txt", ""))
        self.check(["cannot read"], "generate", *FAKE, "-f", self.path("nothere.txt"))
        self.check(["cannot read"], "generate", *FAKE, "-f", self.folder)
        self.check(["do not fit the context"], "generate", *FAKE, "-f", self.write("long.txt", "x" * 5000))
        self.check([], "generate", *FAKE, usage=True)
        self.check([], "generate", *FAKE, "-p", "a", "-f", "b", usage=True)

    def test_options(self):
        for words, extra in ((["nested44"], ["--codec", "zip"]), (["page"], ["--page", "0"]), (["chunk"], ["--chunk", "0"]),
                             (["alpha"], ["--alpha", "-1"]), (["rate"], ["--link-rate", "fast"]), (["rate"], ["--link-rate", "-5mbit"]),
                             (["meta"], ["--meta", "f64"]), (["temperature"], ["--temperature", "-1"]), (["top_p"], ["--top-p", "0"]),
                             (["max tokens"], ["-n", "0"])):
            with self.subTest(extra=extra):
                self.check(words, "generate", *FAKE, "-p", TEXT, *extra)
        self.check([], "generate", *FAKE, "-p", TEXT, "--windows", "3", usage=True)
        self.check([], "generate", *FAKE, "-p", TEXT, "-n", "many", usage=True)

    def test_benches(self):
        text = self.write("text.txt", TEXT)
        for words, extra in ((["nested44"], ["--codecs", "zip"]), (["backend"], ["--backends", "abacus"]), (["threads"], ["--threads", "0"]),
                             (["repeat"], ["--repeats", "0"]), (["working set"], ["--working-set", "16000000"])):
            with self.subTest(extra=extra):
                self.check(words, "bench", "codec", *FAKE, "-f", text, *extra)
        self.check(["empty"], "bench", "codec", *FAKE, "-f", self.write("empty.txt", ""))
        self.check(["nothere.gguf"], "bench", "codec", "-m", self.path("nothere.gguf"), "-f", text)
        self.check([], "bench", "codec", *FAKE, "-f", text, "--working-set", "0", usage=True)
        self.check([], "bench", "e2e", *FAKE, "-f", text, "--chat", usage=True)
        for words, extra in ((["nested44"], ["--codecs", "zip"]), (["place"], ["--places", "0"]), (["at least", "context"], ["--tokens", "5000"])):
            with self.subTest(extra=extra):
                self.check(words, "bench", "accept", *FAKE, "-f", text, *extra)
        self.check(["empty.txt", "empty"], "bench", "accept", *FAKE, "-f", text, "-f", self.path("empty.txt"))
        self.check(["short.txt", "at least"], "bench", "ablation", *FAKE, "-f", self.write("short.txt", "a few words"))
        self.check(["nothere.gguf"], "bench", "accept", "-m", self.path("nothere.gguf"), "-f", text)
        self.check(["cannot read"], "bench", "accept", *FAKE, "-f", self.path("nothere.txt"))
        self.check([], "bench", "accept", *FAKE, usage=True)

    def test_bench_link(self):
        for words, extra in ((["peers"], ["--peers", "0"]), (["requests"], ["--requests", "61"]), (["frame"], ["--frame-kib", "1025"]),
                             (["anchor frames"], ["--anchor-frames", "1"]), (["probes"], ["--probes", "0"]), (["rounds"], ["--rounds", "0"]),
                             (["seconds"], ["--seconds", "0"]), (["seconds"], ["--seconds", "nan"]), (["rate"], ["--link-rate", "fast"]),
                             (["HOST:PORT"], ["--connect", "7070"]), (["127.0.0.1"], ["--connect", "127.0.0.1:1"]),
                             (["loopback"], ["--listen", "0.0.0.0:0"])):
            with self.subTest(extra=extra):
                self.check(words, "bench", "link", *extra)
        self.check([], "bench", "link", "--listen", "127.0.0.1:0", "--connect", "127.0.0.1:1", usage=True)
        for emulation in (["--link-rate", "1gbit"], ["--link-delay", "1ms"]):  # of what the source sends: its business
            self.check([], "bench", "link", "--connect", "127.0.0.1:1", *emulation, usage=True)
        keys = self.write("keys", "a:" + "5" * 64 + "\n")
        for security in (["--key-file", keys], ["--tls-name", "x"]):
            self.check(["--connect", "--listen"], "bench", "link", "--seconds", "0.1", "--rounds", "1", *security)
        self.assertEqual(run("bench", "link", "--seconds", "0.1", "--rounds", "1", "--allow-plaintext").returncode, 1)

    def test_bench_link_does_not_speak_with_nodes(self):
        with LinkSource() as source:
            self.check(["fingerprint"], "decode", *FAKE, "-p", "x", "--prefill", source.address)
        with Prefill() as node:
            self.check(["fingerprint"], "bench", "link", "--connect", node.address)

    def test_bench_link_with_a_source_that_dies(self):
        with LinkSource("--link-rate", "50mbit") as source:
            sink = subprocess.Popen([BINARY, "bench", "link", "--connect", source.address, "--seconds", "30"], stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True)
            self.assertIn("round", sink.stderr.readline())
            time.sleep(1.5)  # connected, and measuring for 30 s
            source.process.kill()
            out, err = sink.communicate(timeout=20)
            self.assert_one_line_error(sink.returncode, err, "peer_lost")
            self.assertEqual(out, "")

    def test_addresses(self):
        self.check(["loopback"], "prefill", *FAKE, "--listen", "0.0.0.0:0")
        self.check(["loopback"], "prefill", *FAKE, "--listen", "192.0.2.1:0")
        self.check(["loopback"], "prefill", *FAKE, "--listen", "[::]:0")
        self.check(["HOST:PORT"], "prefill", *FAKE, "--listen", "7070")
        self.check(["HOST:PORT"], "decode", *FAKE, "-p", "x", "--prefill", "127.0.0.1:99999")
        self.check([], "decode", *FAKE, "-p", "x", "--prefill", "127.0.0.1:1")

    def test_binary_is_where_the_readme_says(self):
        self.assertEqual(os.path.basename(BINARY), "lynxkv")


if __name__ == "__main__":
    main()
