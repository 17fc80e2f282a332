#!/usr/bin/env python3
"""The event stream behind the live page: what it tells of a request, to whom, and what bounds it."""
import http.client
import json
import threading
import time
import unittest

from lynx_server import PROMPT, Server

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Watcher:
    """Reads /lynx/events on a thread of its own."""

    def __init__(self, server, headers=None):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        self.connection.request("GET", "/lynx/events", headers=headers or {})
        self.response = self.connection.getresponse()
        self.socket = self.connection.sock
        self.events, self.ids, self.ended = [], [], False
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        try:
            for line in self.response:
                if line.startswith(b"data: "):
                    self.events.append(json.loads(line[6:]))
                elif line.startswith(b"id: "):
                    self.ids.append(int(line[4:]))
        except (OSError, ValueError, http.client.HTTPException, AttributeError):
            pass
        self.ended = True

    def wait(self, condition, timeout=15):
        deadline = time.monotonic() + timeout
        while not any(condition(e) for e in list(self.events)):
            assert time.monotonic() < deadline, self.events
            time.sleep(0.02)

    def requests(self, request_id):
        return [e for e in self.events if e["type"] == "request" and e["id"] == request_id]

    def close(self):
        self.response.close()
        self.connection.close()


def ask(server, **more):
    body = {"prompt": PROMPT * 4, "max_tokens": 24, "temperature": 0, "lynx": {"window": 8}, **more}
    status, answer, headers = server.http("POST", "/v1/completions", json.dumps(body), {"traceparent": TRACE})
    assert status == 200, answer
    return json.loads(answer)["id"], headers


class LiveEventsTest(unittest.TestCase):
    def test_a_request_is_told_from_the_queue_to_its_end(self):
        with Server("--sequences", 2, "--link-rate", "2mbit") as server:
            watcher = Watcher(server)
            watcher.wait(lambda e: e["type"] == "server" and e["prefill_up"] and e["sequences"] == 2)
            request, headers = ask(server)
            self.assertEqual(headers["X-Request-Id"], request)
            watcher.wait(lambda e: e.get("id") == request and e["state"] == "done")
            told = watcher.requests(request)
            self.assertEqual(told[0]["state"], "queued")
            self.assertIn("running", [e["state"] for e in told])
            last = told[-1]
            self.assertEqual((last["committed"], last["drafted"], last["provisional"]), (24, 8, 0))
            lanes = last["lanes"]
            for lane in ("prefill", "anchor", "residual", "draft", "verify", "committed"):
                self.assertLessEqual(0, lanes[lane][0], lane)
                self.assertLessEqual(lanes[lane][0], lanes[lane][1], lane)
            self.assertLessEqual(lanes["anchor"][1], lanes["draft"][0] + 1e-6, "drafts need the anchor")
            self.assertLessEqual(lanes["residual"][1], lanes["verify"][1] + 1e-6, "what is verified needs the residual")
            for earlier, later in zip(told[1:], told[2:]):
                for member in ("committed", "drafted", "prefilled_tokens"):
                    self.assertLessEqual(earlier.get(member, 0), later.get(member, 0), member)
            sent = [server.metric(f'lynx:transfer_bytes_total{{tier="{t}"}}') for t in (0, 1)]
            self.assertEqual(last["tiers"], sent)
            self.assertNotIn("word", json.dumps(watcher.events), "an event holds no text")
            watcher.close()

    def test_a_late_watcher_sees_what_was_and_goes_on_where_it_stopped(self):
        with Server() as server:
            request, _ = ask(server)
            first = Watcher(server)
            first.wait(lambda e: e.get("id") == request and e["state"] == "done")
            seen = max(first.ids)
            first.close()
            again = Watcher(server, {"Last-Event-ID": str(seen)})
            second, _ = ask(server)
            again.wait(lambda e: e.get("id") == second and e["state"] == "done")
            self.assertEqual(again.requests(request), [])
            self.assertEqual(again.ids, list(range(seen + 1, max(again.ids) + 1)))
            again.close()
            for strange in ("99999999999999999999999", "-1", "x", "1e3", "18446744073709551615"):
                other = Watcher(server, {"Last-Event-ID": strange})
                other.wait(lambda e: e["type"] == "server")
                other.close()

    def test_a_failed_request_is_told(self):
        with Server("--sequences", 1, "--queue", 1, "--link-rate", "100kbit") as server:
            watcher = Watcher(server)
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
            connection.request("POST", "/v1/completions", json.dumps({"prompt": PROMPT, "max_tokens": 900, "stream": True, "temperature": 0}))
            answer = connection.getresponse()
            watcher.wait(lambda e: e.get("state") == "running")
            answer.close()
            connection.close()
            watcher.wait(lambda e: e.get("state") == "failed")
            watcher.close()

    def test_watchers_are_bounded_and_end_with_the_server(self):
        with Server() as server:
            watchers = [Watcher(server) for _ in range(8)]
            self.assertEqual([w.response.status for w in watchers], [200] * 8)
            status, body, _ = server.http("GET", "/lynx/events")
            self.assertEqual((status, json.loads(body)["error"]["code"]), (429, "too_many_watchers"))
            ask(server)  # and they are in nobody's way
            watchers[0].socket.shutdown(2)
            watchers[0].close()
            deadline = time.monotonic() + 5
            while server.http("GET", "/ready")[0] != 200 or (late := Watcher(server)).response.status != 200:
                self.assertLess(time.monotonic(), deadline, "a place is not given back")
                time.sleep(0.1)
            begin = time.monotonic()
            code, _, err = server.stop()
            self.assertEqual(code, 0, err)
            self.assertLess(time.monotonic() - begin, 8, "watchers held the server up")
            late.thread.join(5)
            self.assertTrue(late.ended)

    def test_keys_guard_events_and_not_the_page(self):
        with Server("--api-key", "secret") as server:
            self.assertEqual(server.http("GET", "/lynx/events")[0], 401)
            self.assertEqual(server.http("GET", "/lynx/anything")[0], 401)
            status, page, headers = server.http("GET", "/")
            self.assertEqual((status, headers["Content-Type"]), (200, "text/html; charset=utf-8"))
            self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
            self.assertNotIn("secret", page)
            watcher = Watcher(server, {"Authorization": "Bearer secret"})
            watcher.wait(lambda e: e["type"] == "server")
            watcher.close()


if __name__ == "__main__":
    unittest.main()
