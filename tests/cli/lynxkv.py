"""Running the lynxkv binary in tests: processes that are always reaped, output that is always bounded in time."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest

BINARY = os.environ["LYNX_CLI"]
MODELS = os.environ.get("LYNX_MODELS_DIR", "")
FAKE = ["--model", "fake", "--context", "4096"]


def run(*args, timeout=60, stdin=None, via=()):
    """CompletedProcess of one lynxkv call, by the command `via` if there is one; a call that outlives `timeout` seconds fails the test."""
    return subprocess.run([*via, BINARY, *map(str, args)], capture_output=True, text=True, errors="replace", timeout=timeout, stdin=stdin)


class Prefill:
    """A prefill node as its own process, as a context manager; .address once it listens."""

    def __init__(self, *args, model=FAKE, listen="127.0.0.1:0", command=("prefill",), via=()):
        self.process = subprocess.Popen([*via, BINARY, *command, "--listen", listen, *model, *map(str, args)],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline().strip()
        assert line.startswith("listening on "), (line, self.process.stderr.read())
        self.address = line[len("listening on "):]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.communicate()


class LinkSource(Prefill):
    """A source of the link benchmark as its own process."""

    def __init__(self, *args, **options):
        super().__init__(*args, model=[], command=["bench", "link"], **options)


class Decode:
    """A decode request in the background."""

    def __init__(self, address, *args, model=FAKE):
        self.process = subprocess.Popen([BINARY, "decode", "--prefill", address, *model, *map(str, args)],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")

    def wait_for_progress(self):
        """Returns once the prefill of the request has been reported."""
        line = self.process.stderr.readline()
        assert line.startswith("prefill"), line

    def finish(self, timeout):
        out, err = self.process.communicate(timeout=timeout)
        return self.process.returncode, out, err


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        mode = "wb" if isinstance(content, bytes) else "w"
        with open(self.path(name), mode) as f:
            f.write(content)
        return self.path(name)

    def assert_one_line_error(self, code, err, *words):
        """Failed, for a reason that one line of stderr states."""
        self.assertNotEqual(code, 0, err)
        self.assertGreaterEqual(code, 0, f"killed by signal: {err}")
        lines = [line for line in err.strip().splitlines() if line.startswith("lynxkv: ")]
        self.assertEqual(len(lines), 1, err)
        for word in words:
            self.assertIn(word, lines[0])


def main():
    # The test proxies leave their sockets to the collector.
    unittest.main(argv=[sys.argv[0], "-v"], warnings="ignore")


def parse(out):
    return json.loads(out)
