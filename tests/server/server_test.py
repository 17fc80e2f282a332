#!/usr/bin/env python3
"""The server with the official OpenAI client and with raw HTTP: same tokens as one request alone, clear errors, clean ends."""
import concurrent.futures
import http.client
import json
import random
import subprocess
import time
import unittest

import openai

from lynx_server import PROMPT, Server, alone
from lynxkv import BINARY, FAKE, Prefill, run


class ServerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--sequences", 4, "--link-rate", "20mbit")
        cls.model = cls.server.client().models.list().data[0].id

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def test_completion_equals_a_lone_run(self):
        answer = self.server.client().completions.create(model=self.model, prompt=PROMPT, max_tokens=40, temperature=0)
        self.assertEqual(answer.choices[0].text, alone(PROMPT, 40))
        self.assertEqual(answer.usage.completion_tokens, 40)
        self.assertEqual(answer.choices[0].finish_reason, "length")

    def test_a_stream_has_the_same_text_and_ends_with_usage(self):
        client = self.server.client()
        whole = client.chat.completions.create(model=self.model, messages=[{"role": "user", "content": PROMPT}], max_tokens=30,
                                               temperature=0)
        parts, usage, reason = [], None, None
        for chunk in client.chat.completions.create(model=self.model, messages=[{"role": "user", "content": PROMPT}], max_tokens=30,
                                                    temperature=0, stream=True, stream_options={"include_usage": True},
                                                    extra_body={"lynx": {"provisional": True}}):
            usage = chunk.usage or usage
            for choice in chunk.choices:
                parts.append(choice.delta.content or "")
                reason = choice.finish_reason or reason
        self.assertEqual("".join(parts), whole.choices[0].message.content)
        self.assertEqual(usage.completion_tokens, whole.usage.completion_tokens)
        self.assertEqual(reason, whole.choices[0].finish_reason)

    def test_drafts_are_shown_only_to_those_who_ask(self):
        def events(body):
            text = self.server.http("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})[1]
            return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
        body = {"prompt": PROMPT * 4, "max_tokens": 30, "temperature": 0, "stream": True, "lynx": {"window": 8}}
        self.assertFalse(any("lynx" in e for e in events(body)))
        body["lynx"]["provisional"] = True
        shown = [e["lynx"] for e in events(body) if "lynx" in e]
        self.assertTrue(any(e["provisional"] for e in shown), shown)

    def test_a_seed_repeats_and_stop_strings_cut(self):
        client = self.server.client()
        ask = dict(model=self.model, prompt=PROMPT, max_tokens=40, temperature=0.9, seed=7)
        first = client.completions.create(**ask).choices[0].text
        self.assertEqual(client.completions.create(**ask).choices[0].text, first)
        stop = first[10:13]
        cut = client.completions.create(**ask, stop=[stop]).choices[0]
        self.assertEqual(cut.text, first[:first.index(stop)])
        self.assertEqual(cut.finish_reason, "stop")

    def test_many_at_once_get_what_each_gets_alone(self):
        prompts = [f"{i}: " + PROMPT[: 60 + 37 * i] for i in range(12)]

        def ask(prompt):
            return self.server.client().completions.create(model=self.model, prompt=prompt, max_tokens=32, temperature=0).choices[0].text
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            together = list(pool.map(ask, prompts))
        self.assertEqual(together, [ask(p) for p in prompts])

    def test_wrong_input_is_named(self):
        good = {"prompt": "x", "max_tokens": 4}
        for change, param in [({"prompt": None}, "prompt"), ({"prompt": ""}, "prompt"), ({"max_tokens": -1}, "max_tokens"),
                              ({"max_tokens": 1.5}, "max_tokens"), ({"temperature": "hot"}, "temperature"), ({"temperature": 3}, "temperature"),
                              ({"n": 2}, "n"), ({"stop": [1]}, "stop"), ({"stop": ["x"] * 100}, "stop"), ({"seed": "a"}, "seed"),
                              ({"logit_bias": {"1": 5}}, "logit_bias"), ({"logprobs": 6}, "logprobs"), ({"stream": "yes"}, "stream"),
                              ({"lynx": 3}, "lynx"), ({"prompt": ["a", "b"]}, "prompt"), ({"prompt": [1, -2]}, "prompt")]:
            status, body, _ = self.server.http("POST", "/v1/completions", json.dumps({**good, **change}))
            self.assertEqual((status, json.loads(body)["error"]["param"]), (400, param), (change, body))
        for raw in [b"", b"{", b"[]", b"[" * 100000, b"\xff\xfe", json.dumps({"prompt": "x" * 10000, "max_tokens": 4}).encode(),
                    json.dumps({"prompt": "x", "lynx": {"codec": "no-such"}}).encode(), json.dumps({"prompt": [10 ** 9]}).encode()]:
            status, body, _ = self.server.http("POST", "/v1/completions", raw)
            self.assertEqual(status, 400, body)
            self.assertIn("message", json.loads(body)["error"])
        self.assertEqual(self.server.http("POST", "/v1/completions", json.dumps({**good, "model": "gpt"}))[0], 404)
        self.assertEqual(self.server.http("GET", "/v1/nothing")[0], 404)
        self.assertEqual(self.server.http("POST", "/v1/completions", b"x" * (17 << 20))[0], 413)

    def test_malformed_requests_leave_it_standing(self):
        rng = random.Random(5)
        body = json.dumps({"prompt": "x", "max_tokens": 2, "temperature": 0, "stop": ["a"], "lynx": {"window": 2}}).encode()
        for _ in range(300):
            damaged = bytearray(body)
            for _ in range(rng.randrange(1, 6)):
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
            status, _, _ = self.server.http("POST", rng.choice(["/v1/completions", "/v1/chat/completions"]), bytes(damaged))
            self.assertIn(status, (200, 400, 404))
        self.assertEqual(self.server.http("GET", "/health")[0], 200)

    def test_a_client_that_leaves_frees_its_sequence(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30)
        connection.request("POST", "/v1/completions", json.dumps({"prompt": PROMPT, "max_tokens": 3000, "stream": True, "temperature": 0}))
        connection.getresponse().read(50)
        connection.close()
        deadline = time.monotonic() + 10
        while self.server.metric("lynx:num_requests_running ") > 0:
            self.assertLess(time.monotonic(), deadline, "it runs on")
            time.sleep(0.1)

    def test_metrics_count(self):
        before = self.server.metric("lynx:generation_tokens_total ")
        self.server.client().completions.create(model=self.model, prompt=PROMPT, max_tokens=5, temperature=0)
        self.assertEqual(self.server.metric("lynx:generation_tokens_total ") - before, 5)
        self.assertGreater(self.server.metric('lynx:transfer_bytes_total{tier="0"}'), 0)
        self.assertEqual(self.server.metric("lynx:prefill_node_up "), 1)


class LifecycleTest(unittest.TestCase):
    def test_keys(self):
        with Server("--api-key", "secret") as server:
            with self.assertRaises(openai.AuthenticationError):
                server.client("wrong").models.list()
            self.assertEqual(len(server.client("secret").models.list().data), 1)
            self.assertEqual(server.http("GET", "/health")[0], 200)
            code, _, err = server.stop()
            self.assertEqual(code, 0)
            self.assertNotIn("secret", err)

    def test_a_full_queue_answers_429(self):
        with Server("--sequences", 1, "--queue", 1, "--link-rate", "1mbit") as server:
            body = json.dumps({"prompt": PROMPT * 3, "max_tokens": 50, "temperature": 0})
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                answers = list(pool.map(lambda _: server.http("POST", "/v1/completions", body), range(8)))
            codes = [a[0] for a in answers]
            self.assertIn(429, codes)
            self.assertIn(200, codes)
            refused = answers[codes.index(429)]
            self.assertEqual(refused[2]["Retry-After"], "1")
            self.assertEqual(json.loads(refused[1])["error"]["type"], "rate_limit_error")

    def test_a_dead_prefill_node_is_told_and_its_return_noticed(self):
        with Prefill() as prefill:
            address = prefill.address
            with Server("--prefill", address) as server:
                self.assertEqual(server.http("GET", "/ready")[0], 200)
                prefill.process.kill()
                prefill.process.wait()
                deadline = time.monotonic() + 2
                while server.http("GET", "/ready")[0] == 200:
                    self.assertLess(time.monotonic(), deadline, "not told within 2 s")
                self.assertEqual(server.metric("lynx:prefill_node_up "), 0)
                status, body, _ = server.http("POST", "/v1/completions", json.dumps({"prompt": "x"}))
                self.assertEqual(status, 503, body)
                again = subprocess.Popen([BINARY, "prefill", "--listen", address, *FAKE], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                try:
                    again.stdout.readline()
                    deadline = time.monotonic() + 5
                    while server.http("GET", "/ready")[0] != 200:
                        self.assertLess(time.monotonic(), deadline, "its return is not noticed")
                        time.sleep(0.1)
                    self.assertEqual(server.http("POST", "/v1/completions", json.dumps({"prompt": "x"}))[0], 200)
                finally:
                    again.kill()
                    again.communicate()

    def test_sigterm_drains(self):
        with Server("--link-rate", "2mbit") as server:
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                body = json.dumps({"prompt": PROMPT * 3, "max_tokens": 200, "temperature": 0})
                running = pool.submit(server.http, "POST", "/v1/completions", body)
                deadline = time.monotonic() + 10
                while server.metric("lynx:num_requests_running ") == 0 and not running.done():
                    self.assertLess(time.monotonic(), deadline)
                code, _, err = server.stop()
                self.assertEqual((running.result()[0], code), (200, 0), err)

    def test_what_cannot_start_says_why(self):
        done = run("serve", *FAKE, "--listen", "0.0.0.0:0")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("loopback", done.stderr)


if __name__ == "__main__":
    unittest.main()
