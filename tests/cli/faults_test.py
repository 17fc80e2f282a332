"""Nodes that die, stop or lie, at any moment: a clear one-line error within the stated timeout, and never a wrong answer."""
import os
import random
import signal
import socket
import threading
import time
import unittest

from lynxkv import FAKE, Case, Decode, Prefill, main, parse, run

TEXT = "the quick brown fox jumps over the lazy dog and runs away " * 30
# The default dead-peer time is 5 s; the rest is for a loaded test machine.
DEAD_PEER_S = 5 + 15


class NodeDeath(Case):
    def request(self, prefill, *extra):
        return Decode(prefill.address, "-p", TEXT, "-n", 32, "--ignore-end", "--json", *extra)

    def reference(self):
        r = run("generate", *FAKE, "-p", TEXT, "-n", 32, "--ignore-end", "--json")
        self.assertEqual(r.returncode, 0, r.stderr)
        return parse(r.stdout)["tokens"]

    def test_prefill_killed_at_any_moment(self):
        tokens = self.reference()
        finished = 0
        for delay in (0, 0.02, 0.1, 0.3, 0.6, 1.0):
            with self.subTest(delay=delay), Prefill("--link-rate", "3mbit") as prefill:
                decode = self.request(prefill)
                time.sleep(delay)
                prefill.process.kill()
                code, out, err = decode.finish(DEAD_PEER_S)
                if code == 0:  # everything had arrived
                    finished += 1
                    self.assertEqual(parse(out)["tokens"], tokens)
                else:
                    self.assert_one_line_error(code, err)
                    self.assertEqual(out, "")
        self.assertLess(finished, 6)

    def test_prefill_stopped_is_noticed(self):
        with Prefill("--link-rate", "1mbit") as prefill:
            decode = self.request(prefill)
            decode.wait_for_progress()
            prefill.process.send_signal(signal.SIGSTOP)
            code, out, err = decode.finish(DEAD_PEER_S)
            self.assert_one_line_error(code, err, "peer_lost")
            self.assertEqual(out, "")

    def test_decode_killed_leaves_the_prefill_node_serving(self):
        tokens = self.reference()
        with Prefill("--link-rate", "3mbit") as prefill:
            for delay in (0.05, 0.2, 0.5):
                decode = self.request(prefill)
                time.sleep(delay)
                decode.process.kill()
                decode.finish(5)
            code, out, err = self.request(prefill).finish(60)
            self.assertEqual(code, 0, err)
            self.assertEqual(parse(out)["tokens"], tokens)

    def test_interrupt_ends_cleanly(self):
        with Prefill("--link-rate", "200kbit") as prefill:
            decode = self.request(prefill)
            decode.wait_for_progress()
            decode.process.send_signal(signal.SIGINT)
            code, out, err = decode.finish(10)
            self.assertEqual(code, 130, err)
            self.assertEqual(out, "")
            prefill.process.send_signal(signal.SIGINT)
            self.assertEqual(prefill.process.wait(10), 0)

    def test_interrupting_generate_leaves_no_process(self):
        import subprocess
        from lynxkv import BINARY
        p = subprocess.Popen([BINARY, "generate", *FAKE, "-p", TEXT, "--link-rate", "200kbit"], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.assertTrue(p.stderr.readline().startswith("prefill"))
        p.send_signal(signal.SIGINT)
        _, err = p.communicate(timeout=15)
        self.assertEqual(p.returncode, 130, err)
        session = [pid for pid in filter(str.isdigit, os.listdir("/proc")) if self.session_of(pid) == p.pid]
        self.assertEqual(session, [])

    @staticmethod
    def session_of(pid):
        try:
            with open(f"/proc/{pid}/stat") as f:
                return int(f.read().rsplit(")", 1)[1].split()[3])
        except OSError:
            return None

    def test_another_model_is_refused(self):
        with Prefill(model=["--model", "fake:2", "--context", "4096"]) as prefill:
            code, out, err = self.request(prefill).finish(20)
            self.assert_one_line_error(code, err, "fingerprint")


class LyingPeer(Case):
    def serve(self, answer):
        """A server on loopback that answers every connection with `answer(connection)`; returns HOST:PORT."""
        server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(server.close)

        def loop():
            for _ in range(8):
                try:
                    connection, _peer = server.accept()
                except OSError:
                    return
                threading.Thread(target=self.guard, args=(answer, connection), daemon=True).start()

        threading.Thread(target=loop, daemon=True).start()
        return "127.0.0.1:%d" % server.getsockname()[1]

    @staticmethod
    def guard(answer, connection):
        try:
            with connection:
                answer(connection)
        except OSError:
            pass

    def expect_failure(self, address, timeout=DEAD_PEER_S):
        code, out, err = Decode(address, "-p", TEXT, "--json").finish(timeout)
        self.assert_one_line_error(code, err)
        self.assertEqual(out, "")

    def test_garbage(self):
        rng = random.Random(3)
        self.expect_failure(self.serve(lambda c: c.sendall(rng.randbytes(4096))))

    def test_silence(self):
        self.expect_failure(self.serve(lambda c: time.sleep(30)))

    def test_immediate_close(self):
        self.expect_failure(self.serve(lambda c: None))

    def test_garbage_to_the_prefill_node_does_not_hurt_it(self):
        with Prefill() as prefill:
            host, port = prefill.address.rsplit(":", 1)
            rng = random.Random(4)
            for n in (0, 1, 63, 64, 5000):
                with socket.create_connection((host, int(port))) as c:
                    try:
                        c.sendall(rng.randbytes(n))
                    except OSError:
                        pass
            code, out, err = Decode(prefill.address, "-p", TEXT, "-n", 8, "--ignore-end", "--json").finish(30)
            self.assertEqual(code, 0, err)


class Corruption(Case):
    """A proxy between real nodes that flips one byte of what the prefill node sends."""

    def proxied(self, prefill, flip_at):
        server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(server.close)
        host, port = prefill.address.rsplit(":", 1)

        def pump(source, target, flip):
            seen = 0
            try:
                while chunk := source.recv(65536):
                    if flip is not None and seen <= flip < seen + len(chunk):
                        damaged = bytearray(chunk)
                        damaged[flip - seen] ^= 0x10
                        chunk = bytes(damaged)
                    seen += len(chunk)
                    target.sendall(chunk)
            except OSError:
                pass
            finally:
                for s in (source, target):
                    try:
                        s.shutdown(socket.SHUT_RDWR)
                    except OSError:
                        pass

        def loop():
            for lane in range(2):
                try:
                    client, _peer = server.accept()
                except OSError:
                    return
                upstream = socket.create_connection((host, int(port)))
                threading.Thread(target=pump, args=(client, upstream, None), daemon=True).start()
                threading.Thread(target=pump, args=(upstream, client, flip_at[lane]), daemon=True).start()

        threading.Thread(target=loop, daemon=True).start()
        return "127.0.0.1:%d" % server.getsockname()[1]

    def test_every_flip_is_an_error_and_never_an_answer(self):
        rng = random.Random(5)
        with Prefill("--link-rate", "100mbit") as prefill:
            for _ in range(12):
                lane = rng.randrange(2)
                at = rng.randrange(0, 60000)
                flips = [None, None]
                flips[lane] = at
                with self.subTest(lane=lane, at=at):
                    code, out, err = Decode(self.proxied(prefill, flips), "-p", TEXT, "-n", 32, "--ignore-end", "--json").finish(DEAD_PEER_S + 10)
                    self.assert_one_line_error(code, err)
                    self.assertEqual(out, "")

    def test_the_proxy_itself_is_transparent(self):
        with Prefill() as prefill:
            code, out, err = Decode(self.proxied(prefill, [None, None]), "-p", TEXT, "-n", 8, "--ignore-end", "--json").finish(30)
            self.assertEqual(code, 0, err)


if __name__ == "__main__":
    main()
