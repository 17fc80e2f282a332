#!/usr/bin/env python3
"""The HTTP port: TLS, CORS, who may reach it from where, and what the log says."""
import http.client
import json
import os
import ssl
import subprocess
import tempfile
import unittest

from lynx_server import PROMPT, Server
from lynxkv import FAKE, run

ASK = json.dumps({"prompt": PROMPT, "max_tokens": 4, "temperature": 0})
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class TlsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.names = {name: os.path.join(folder.name, name) for name in ("cert", "key", "other")}
        for key, cert in (("key", "cert"), ("other", "other.cert")):
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=lynx",
                            "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", cls.names[key], "-out", os.path.join(folder.name, cert)],
                           check=True, capture_output=True)

    def test_https_and_nothing_else(self):
        with Server("--http-cert", self.names["cert"], "--http-key", self.names["key"], scheme="https") as server:
            context = ssl.create_default_context(cafile=self.names["cert"])
            connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=20, context=context)
            connection.request("POST", "/v1/completions", ASK)
            answer = json.loads(connection.getresponse().read())
            self.assertEqual(answer["usage"]["completion_tokens"], 4)
            self.assertIn(connection.sock.version(), ("TLSv1.2", "TLSv1.3"))
            connection.close()
            stream = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=20, context=context)
            stream.request("POST", "/v1/completions", json.dumps({**json.loads(ASK), "stream": True}))
            self.assertTrue(stream.getresponse().read().endswith(b"data: [DONE]\n\n"))
            stream.close()
            with self.assertRaises((OSError, http.client.HTTPException)):
                server.http("GET", "/health")
            with self.assertRaises(ssl.SSLError):
                http.client.HTTPSConnection("127.0.0.1", server.port, timeout=20, context=ssl.create_default_context()).request("GET", "/health")

    def test_what_cannot_be_used_says_so(self):
        for args, code, word in [(["--http-cert", self.names["cert"], "--http-key", self.names["other"]], 1, "certificate"),
                                 (["--http-cert", self.names["key"], "--http-key", self.names["key"]], 1, "certificate"),
                                 (["--http-cert", self.names["cert"]], 2, "--http-key"), (["--http-cert", "", "--http-key", ""], 2, "empty"),
                                 (["--listen", "0.0.0.0:0"], 1, "API key"), (["--listen", "0.0.0.0:0", "--api-key", "k"], 1, "API key"),
                                 (["--listen", "0.0.0.0:0", "--http-cert", self.names["cert"], "--http-key", self.names["key"]], 1, "API key")]:
            done = run("serve", *FAKE, *args)
            self.assertEqual(done.returncode, code, (args, done.stderr))
            self.assertIn(word, done.stderr, args)


class CorsTest(unittest.TestCase):
    HEADERS = {"Origin": "https://page.example", "Access-Control-Request-Method": "POST"}

    def test_off_unless_asked_for(self):
        with Server() as server:
            for method, path in (("GET", "/v1/models"), ("OPTIONS", "/v1/completions")):
                headers = server.http(method, path, headers=self.HEADERS)[2]
                self.assertEqual([h for h in headers if h.lower().startswith("access-control")], [])

    def test_named_origins_may_ask_and_others_not(self):
        with Server("--cors-origin", "https://page.example", "--cors-origin", "http://localhost:3000", "--api-key", "k") as server:
            status, _, headers = server.http("OPTIONS", "/v1/completions", headers=self.HEADERS)
            self.assertEqual((status, headers["Access-Control-Allow-Origin"]), (204, "https://page.example"))
            self.assertIn("Authorization", headers["Access-Control-Allow-Headers"])
            status, _, headers = server.http("POST", "/v1/completions", ASK, {**self.HEADERS, "Authorization": "Bearer k"})
            self.assertEqual((status, headers["Access-Control-Allow-Origin"]), (200, "https://page.example"))
            self.assertEqual(server.http("POST", "/v1/completions", ASK, self.HEADERS)[0], 401, "an origin is no key")
            for origin in ("https://page.example.evil.example", "null", "https://PAGE.example", ""):
                headers = server.http("GET", "/health", headers={"Origin": origin})[2]
                self.assertNotIn("Access-Control-Allow-Origin", headers, origin)
        with Server("--cors-origin", "*") as server:
            self.assertEqual(server.http("GET", "/v1/models", headers=self.HEADERS)[2]["Access-Control-Allow-Origin"], "*")


class LogTest(unittest.TestCase):
    def test_json_lines_with_ids_and_without_words(self):
        with Server("--log", "json", "--api-key", "hush") as server:
            ids = []
            for trace in (TRACE, "00-nonsense", ""):
                status, body, headers = server.http("POST", "/v1/completions", ASK, {"Authorization": "Bearer hush", "traceparent": trace})
                self.assertEqual(status, 200, body)
                ids.append(json.loads(body)["id"])
                self.assertEqual(headers["X-Request-Id"], ids[-1])
            _, _, err = server.stop()
        entries = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
        self.assertEqual([e["request_id"] for e in entries], ids)
        self.assertEqual([(e.get("trace_id"), e.get("parent_id")) for e in entries], [(TRACE[3:35], TRACE[36:52]), (None, None), (None, None)])
        self.assertEqual([(e["event"], e["tokens"], e["codec"]) for e in entries], [("answered", 4, "nested44")] * 3)
        for word in ("hush", "beginning", "nonsense"):
            self.assertNotIn(word, err)


if __name__ == "__main__":
    unittest.main()
