"""`lynxkv serve` for the tests of this folder: started on a free port, asked over HTTP or with the OpenAI client, stopped."""
import http.client
import json
import signal
import subprocess

import openai

from lynxkv import BINARY, FAKE, run

PROMPT = "In the beginning was the word, and the word was sent in pages. " * 8


class Server:
    """`lynxkv serve` on a free port, as a context manager."""

    def __init__(self, *args, scheme="http"):
        self.process = subprocess.Popen([BINARY, "serve", "--listen", "127.0.0.1:0", *FAKE, *map(str, args)],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline().strip()
        assert line.startswith(f"serving on {scheme}://127.0.0.1:"), (line, self.process.stderr.read())
        self.port = int(line.rsplit(":", 1)[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self, timeout=20):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        out, err = self.process.communicate(timeout=timeout)
        return self.process.returncode, out, err

    def client(self, key="none"):
        return openai.OpenAI(base_url=f"http://127.0.0.1:{self.port}/v1", api_key=key, max_retries=0, timeout=60)

    def http(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, response.read().decode(errors="replace"), dict(response.getheaders())
        finally:
            connection.close()

    def metric(self, line_start):
        for line in self.http("GET", "/metrics")[1].splitlines():
            if line.startswith(line_start):
                return float(line.rsplit(" ", 1)[1])
        raise AssertionError(line_start)


def alone(prompt, tokens):
    """What one request alone answers, without a server."""
    done = run("generate", *FAKE, "--prompt", prompt, "--max-tokens", tokens, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["text"]
