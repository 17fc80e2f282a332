"""kill -9 of either node at LYNX_KILLS seeded random moments: no wrong token, no hang, no leak.

A failure names its kill as "kill N"; LYNX_KILLS=N+1 LYNX_KILL_FIRST=N runs that one again.
"""
import os
import random
import time

from lynxkv import FAKE, Case, Decode, Prefill, main, run

KILLS = int(os.environ.get("LYNX_KILLS", "30"))
FIRST = int(os.environ.get("LYNX_KILL_FIRST", "0"))
TEXT = "the quick brown fox jumps over the lazy dog and runs away " * 30
REQUEST = ["-p", TEXT, "-n", "32", "--ignore-end"]
LINK = ["--link-rate", "6mbit"]
LONGEST_S = 0.9  # a whole request and a little more, on an idle machine
HANG_S = 20


def resources(pid):
    """Open descriptors and threads."""
    return len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task"))


class Kill(Case):
    @classmethod
    def setUpClass(cls):
        whole = run("generate", *FAKE, *REQUEST)
        assert whole.returncode == 0, whole.stderr
        cls.text = whole.stdout

    def assert_true_prefix(self, shown):
        """What was committed before the end is what the whole answer begins with."""
        self.assertTrue(self.text.startswith(shown.rstrip("\n")), (shown, self.text))

    def test_prefill_node(self):
        ends = {"answered": 0, "failed": 0}
        slowest = 0.0
        for kill in range(FIRST, KILLS):
            with self.subTest(f"kill {kill}"), Prefill(*LINK) as prefill:
                request = Decode(prefill.address, *REQUEST)
                time.sleep(random.Random(kill).uniform(0, LONGEST_S))
                prefill.process.kill()
                killed = time.monotonic()
                code, out, err = request.finish(HANG_S)
                slowest = max(slowest, time.monotonic() - killed)
                if code == 0:  # everything had arrived
                    ends["answered"] += 1
                    self.assertEqual(out, self.text)
                else:
                    ends["failed"] += 1
                    self.assert_one_line_error(code, err)
                    self.assert_true_prefix(out)
        print(f"{ends}, the slowest end {slowest:.2f} s after the kill", flush=True)
        self.assertGreater(ends["failed"], 0)

    def test_decode_node(self):
        with Prefill(*LINK, "--quiet") as prefill:
            self.whole_request(prefill)
            before = resources(prefill.process.pid)
            for kill in range(FIRST, KILLS):
                with self.subTest(f"kill {kill}"):
                    request = Decode(prefill.address, *REQUEST)
                    time.sleep(random.Random(kill).uniform(0, LONGEST_S))
                    request.process.kill()
                    _, out, _ = request.finish(HANG_S)
                    self.assert_true_prefix(out)
            self.whole_request(prefill)
            deadline = time.monotonic() + HANG_S  # peers' threads end on their own and are joined when the next one comes
            while time.monotonic() < deadline:
                after = resources(prefill.process.pid)
                if after[0] <= before[0] and after[1] <= before[1]:
                    break
                time.sleep(1)
                self.whole_request(prefill)
            self.assertLessEqual(after[0], before[0])
            self.assertLessEqual(after[1], before[1])

    def whole_request(self, prefill):
        code, out, err = Decode(prefill.address, *REQUEST).finish(HANG_S)
        self.assertEqual((code, out), (0, self.text), err)


if __name__ == "__main__":
    main()
