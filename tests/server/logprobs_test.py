#!/usr/bin/env python3
"""Log probabilities as OpenAI's clients get them: of committed tokens only, the same whatever was drafted, and changing no token."""
import json
import math
import subprocess
import unittest

from lynx_server import PROMPT, Server

MESSAGES = [{"role": "user", "content": PROMPT}]


class LogprobsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--sequences", 2, "--link-rate", "20mbit")
        cls.openai = cls.server.client()
        cls.model = cls.openai.models.list().data[0].id

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def complete(self, **ask):
        lynx = {key: ask.pop(key) for key in ("window", "codec", "provisional") if key in ask}
        return self.openai.completions.create(**{"model": self.model, "prompt": PROMPT, "max_tokens": 24, "temperature": 0, **ask},
                                              extra_body={"lynx": lynx})

    def chat(self, **ask):
        return self.openai.chat.completions.create(**{"model": self.model, "messages": MESSAGES, "max_tokens": 24, "temperature": 0, **ask})

    def test_completions_have_one_entry_per_token_of_the_text(self):
        choice = self.complete(logprobs=5).choices[0]
        got = choice.logprobs
        self.assertEqual("".join(got.tokens), choice.text)
        self.assertEqual(len(got.tokens), 24)
        self.assertEqual(got.text_offset, [sum(map(len, got.tokens[:i])) for i in range(24)])
        for token, logprob, top in zip(got.tokens, got.token_logprobs, got.top_logprobs):
            self.assertEqual(top[token], logprob)
            self.assertIn(len(top), (5, 6))  # the chosen one is there even if it is not one of the five
            self.assertLessEqual(sum(map(math.exp, top.values())), 1 + 1e-5)
        # Greedy: what was chosen is the likeliest. Token 1 was chosen by the prefill node, on KV that no codec touched.
        for logprob, top in list(zip(got.token_logprobs, got.top_logprobs))[1:]:
            self.assertEqual(logprob, max(top.values()))

    def test_chat_has_bytes_and_alternatives(self):
        choice = self.chat(logprobs=True, top_logprobs=20).choices[0]
        self.assertEqual("".join(t.token for t in choice.logprobs.content), choice.message.content)
        self.assertEqual(bytes(b for t in choice.logprobs.content for b in t.bytes).decode(), choice.message.content)
        for token in choice.logprobs.content:
            self.assertEqual(len(token.top_logprobs), 20)
            self.assertEqual(sorted((t.logprob for t in token.top_logprobs), reverse=True), [t.logprob for t in token.top_logprobs])
        without = self.chat(logprobs=True).choices[0].logprobs.content
        self.assertEqual([(t.token, t.logprob) for t in without], [(t.token, t.logprob) for t in choice.logprobs.content])
        self.assertEqual([t.top_logprobs for t in without], [[]] * 24)
        self.assertIsNone(self.chat().choices[0].logprobs)

    def test_asking_changes_no_token_and_the_window_no_number(self):
        for ask in ({}, {"temperature": 0.9, "seed": 3}):
            for codec in ("nested44", "int8", "nested44-exact"):
                plain = self.complete(codec=codec, window=8, **ask).choices[0].text
                drafted = self.complete(codec=codec, window=8, logprobs=3, **ask).choices[0]
                alone = self.complete(codec=codec, window=0, logprobs=3, **ask).choices[0]
                self.assertEqual(drafted.text, plain, (codec, ask))
                self.assertEqual(drafted.logprobs, alone.logprobs, (codec, ask))

    def test_on_exact_kv_token_1_is_the_likeliest(self):
        got = self.complete(codec="nested44-exact", max_tokens=1, logprobs=5).choices[0].logprobs
        self.assertEqual(len(got.tokens), 1)
        self.assertEqual(got.token_logprobs[0], max(got.top_logprobs[0].values()))

    def test_a_stream_adds_up_to_the_whole(self):
        whole = self.complete(logprobs=2).choices[0]
        tokens, logprobs, offsets, text = [], [], [], ""
        for chunk in self.complete(logprobs=2, stream=True, provisional=True):
            for choice in chunk.choices:
                text += choice.text
                self.assertEqual(choice.logprobs is None, not choice.text)
                if choice.logprobs:
                    tokens += choice.logprobs.tokens
                    logprobs += choice.logprobs.token_logprobs
                    offsets += choice.logprobs.text_offset
        self.assertEqual((text, tokens, logprobs, offsets),
                         (whole.text, whole.logprobs.tokens, whole.logprobs.token_logprobs, whole.logprobs.text_offset))

    def test_what_a_stop_string_cut_away_has_none(self):
        text = self.complete().choices[0].text
        for ask in ({"stop": text[10:13]}, {"stop": text[10:13], "stream": True}):
            answer = self.complete(logprobs=0, **ask)
            parts = [c for chunk in (answer if "stream" in ask else [answer]) for c in chunk.choices]
            tokens = [t for part in parts if part.logprobs for t in part.logprobs.tokens]
            self.assertEqual("".join(tokens), text[:text.index(text[10:13])])

    def test_by_curl(self):
        body = {"messages": MESSAGES, "max_tokens": 3, "temperature": 0, "logprobs": True, "top_logprobs": 1}
        done = subprocess.run(["curl", "-sS", f"http://127.0.0.1:{self.server.port}/v1/chat/completions", "-d", json.dumps(body)],
                              capture_output=True, text=True, check=True)
        content = json.loads(done.stdout)["choices"][0]["logprobs"]["content"]
        self.assertEqual([set(t) for t in content], [{"token", "logprob", "bytes", "top_logprobs"}] * 3)

    def test_bounds(self):
        for path, change, param in [("completions", {"logprobs": 6}, "logprobs"), ("completions", {"logprobs": -1}, "logprobs"),
                                    ("completions", {"logprobs": True}, "logprobs"), ("completions", {"logprobs": 1.5}, "logprobs"),
                                    ("completions", {"echo": True}, "echo"),
                                    ("chat/completions", {"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
                                    ("chat/completions", {"logprobs": 3}, "logprobs"), ("chat/completions", {"top_logprobs": 3}, "top_logprobs")]:
            body = {"prompt": "x", "messages": [{"role": "user", "content": "x"}], **change}
            status, answer, _ = self.server.http("POST", "/v1/" + path, json.dumps(body))
            self.assertEqual((status, json.loads(answer)["error"]["param"]), (400, param), (change, answer))


if __name__ == "__main__":
    unittest.main()
