"""Anchors before residuals on a real queue: two hosts, one shaped link, the bench's source and sink on either end.

What is asserted is structure: marks on the packets, which class carried which bytes, that anchors overtake the backlog. The timings are
printed; LYNX_NETWORK=full measures longer, with delays and several peers, and LYNX_NETWORK_JSON names a file for the figures.
"""
import json
import os
import sys
import unittest

from hosts import DSCP_HIGH, DSCP_LOW, HIGH_CLASS, LOW_CLASS, SOURCE_ADDRESS, Hosts, Unsupported, inside
from lynxkv import LinkSource, parse, run

FULL = os.environ.get("LYNX_NETWORK") == "full"
SKIPPED = 77
SO_PRIORITY_HIGH, SO_PRIORITY_LOW = 6, 2
REQUESTS = 4
LOAD_REQUEST_BYTES = 256 << 20
FRAME_KIB = 128
MSS, PACKET = 1448, 1514  # of 1,500-byte IP packets with TCP timestamps, and their Ethernet frames, which HTB counts

# rate in Mbit/s, one-way delay in ms, peers
CASES = [(rate, delay, peers) for rate in (100, 1000, 10000) for delay in (0, 1, 10, 40) for peers in (1, 3)] if FULL else \
        [(100, 0, 1), (1000, 0, 1), (1000, 0, 3), (10000, 0, 1)]
PROBES, SECONDS, ROUNDS, ANCHOR_FRAMES = (20, 3, 2, 32) if FULL else (4, 0.5, 1, 16)


def measure(hosts, delay_ms, peers):
    """The bench's report: source on one host, sink on the other."""
    with LinkSource("--allow-plaintext", "--link-delay", f"{delay_ms}ms", listen=f"{SOURCE_ADDRESS}:0", via=inside(hosts.source)) as source:
        done = run("bench", "link", "--connect", source.address, "--allow-plaintext", "--json", "--peers", peers, "--requests", REQUESTS,
                   "--frame-kib", FRAME_KIB, "--probes", PROBES, "--seconds", SECONDS, "--rounds", ROUNDS, "--anchor-frames", ANCHOR_FRAMES,
                   via=inside(hosts.sink), timeout=300)
    assert done.returncode == 0, done.stderr
    return parse(done.stdout)


class Priority(unittest.TestCase):
    figures = []

    @classmethod
    def setUpClass(cls):
        try:
            cls.hosts = cls.enterClassContext(Hosts())
            cls.hosts.shape(CASES[0][0])
        except Unsupported as why:
            raise unittest.SkipTest(str(why)) from None

    @classmethod
    def tearDownClass(cls):
        if path := os.environ.get("LYNX_NETWORK_JSON"):
            with open(path, "w", encoding="utf-8") as out:
                json.dump({"machine": cls.machine, "rows": cls.figures}, out, indent=1)

    def test_anchors_pass_residuals_in_the_network(self):
        for rate, delay, peers in CASES:
            with self.subTest(rate=rate, delay=delay, peers=peers):
                self.check(rate, delay, peers)

    def check(self, rate_mbit, delay_ms, peers):
        self.hosts.shape(rate_mbit)
        with self.hosts.capture(SO_PRIORITY_HIGH) as high, self.hosts.capture(SO_PRIORITY_LOW) as low:
            report = measure(self.hosts, delay_ms, peers)
        row = report["rows"][0]
        self.assertEqual(list(high), [DSCP_HIGH], "packets of the high lane's priority, by DSCP")
        self.assertEqual(list(low), [DSCP_LOW], "packets of the low lane's priority, by DSCP")

        anchors = 2 * ROUNDS * PROBES * ANCHOR_FRAMES * FRAME_KIB * 1024
        residuals = row["goodput_mbit"] * 1e6 / 8 * SECONDS * ROUNDS
        carried = self.hosts.class_bytes()
        self.assertGreaterEqual(carried[HIGH_CLASS], anchors)
        self.assertGreaterEqual(carried[LOW_CLASS], 0.9 * residuals)

        idle, loaded = row["anchors_idle_ms"]["p50"], row["anchors_loaded_ms"]["p50"]
        backlog_ms = REQUESTS * LOAD_REQUEST_BYTES * 8 / (rate_mbit * 1e3)
        self.assertLess(loaded, backlog_ms / 4, "anchors waited for residuals that were queued before them")

        allowed = 1.05 * idle + row["frame_ms"]
        share = row["goodput_mbit"] / (rate_mbit * MSS / PACKET)
        type(self).machine = report["machine"]
        self.figures.append({"rate_mbit": rate_mbit, "delay_ms": delay_ms, "peers": peers, "share_of_payload_rate": share,
                             "share_of_rate": row["goodput_mbit"] / rate_mbit, "loaded_over_allowed": loaded / allowed, **row})
        print(f"{rate_mbit:6} Mbit/s {delay_ms:3} ms {peers} peer(s): goodput {share:.3f} of what TCP's headers leave of the rate; anchors "
              f"{idle:.2f} ms idle, {loaded:.2f} ms loaded (p99 {row['anchors_loaded_ms']['p99']:.2f}), "
              f"{loaded / allowed:.2f} of 1.05 x idle + one frame; Jain's index {row['fairness']:.3f}", flush=True)


if __name__ == "__main__":
    result = unittest.main(verbosity=2, exit=False).result
    sys.exit(SKIPPED if result.skipped else not result.wasSuccessful())
