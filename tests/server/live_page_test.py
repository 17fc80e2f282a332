#!/usr/bin/env python3
"""The live page in a headless Chromium: a real request's lanes and text, drafts and withdrawals, the keyboard, what screen readers get, contrast.

Exit status 77 (skipped) where no Chromium is installed; ./dev ci installs one.
"""
import json
import re
import sys
import unittest

from browser import BINARY, Browser
from lynx_server import PROMPT, Server, alone

# Of each text in sight: its colour against what is behind it (WCAG 2 contrast ratio, https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio).
CONTRAST = """(() => {
  const parse = c => c.match(/[\\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => [r, g, b].map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
  const poor = [];
  for (const e of document.querySelectorAll('body *')) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) || !e.checkVisibility() || e.closest('script,style,:disabled')) continue;
    const style = getComputedStyle(e);
    const [a, b] = [luminance(parse(e.namespaceURI.endsWith('svg') ? style.fill : style.color)), luminance(behind(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) poor.push([e.tagName, e.className.toString(), e.textContent.slice(0, 30), ratio]);
  }
  return poor;
})()"""


class LivePageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--sequences", 2, "--link-rate", "1mbit")
        cls.url = f"http://127.0.0.1:{cls.server.port}/"

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def setUp(self):
        self.browser = Browser()
        self.addCleanup(self.browser.__exit__)
        self.browser.open(self.url)
        self.browser.wait("document.getElementById('status').textContent === 'Prefill node connected'")

    def ask(self, prompt, tokens=40, window="16", temperature=0):
        for name, value in {"prompt": prompt, "tokens": str(tokens), "window": window, "temperature": str(temperature)}.items():
            self.browser.js(f"document.getElementById('{name}').value = {json.dumps(value)}")
        self.browser.js("document.getElementById('form').requestSubmit()")

    def done(self):
        return self.browser.wait("(t => t.startsWith('Done') && t)(document.getElementById('said').textContent)")

    def committed(self):
        """The answer as it stands for good: without drafts and what was withdrawn."""
        return self.browser.js("""(box => { box = box.cloneNode(true); box.querySelectorAll('.drafted,.withdrawn').forEach(e => e.remove()); return box.textContent; })
                                  (document.getElementById('answer'))""")

    def lanes(self):
        return self.browser.js("""Object.fromEntries([...document.querySelector('#list > li').querySelectorAll('.lanes li')].map(li =>
            [li.dataset.lane, {name: li.firstChild.textContent, note: li.querySelector('.note').textContent, shown: !li.querySelector('.bar').hidden,
              left: parseFloat(li.querySelector('.bar').style.left), width: parseFloat(li.querySelector('.bar').style.width)}]))""")

    def test_text_and_lanes_of_a_real_request(self):
        # Drafts may stand for less time than it takes to look: every state of theirs is noted down.
        self.browser.js("""window.drafts = [], window.badges = new Set();
            const draft = Answer.prototype.draft;
            Answer.prototype.draft = function(...args) { draft.apply(this, args); drafts.push(this.box.querySelector('.drafted').textContent); };
            new MutationObserver(() => badges.add(document.querySelector('.badge').textContent)).observe(document.getElementById('list'), {subtree: true, childList: true}); 0""")
        self.ask(PROMPT * 3)
        self.done()
        shown = self.browser.js("drafts")
        self.assertEqual(max(map(len, shown)), 16)
        self.assertEqual(shown[-1], "")
        self.assertIn("running", self.browser.js("[...badges]"))
        self.assertEqual(self.committed(), alone(PROMPT * 3, 40))
        self.browser.wait("document.querySelector('.badge').textContent === 'done'")
        self.browser.wait("document.querySelector('[data-lane=committed] .note').textContent.includes('40 tokens')")
        lanes = self.lanes()
        self.assertEqual([lane["name"] for lane in lanes.values()], ["Prefill", "Anchor", "Residual", "Draft", "Verify", "Committed"])
        self.assertTrue(all(lane["shown"] for lane in lanes.values()), lanes)
        self.assertRegex(lanes["prefill"]["note"], r"\d (ms|s) · (\d+) of \2 tokens")
        self.assertRegex(lanes["draft"]["note"], r"· 16 drafts$")
        self.assertRegex(lanes["verify"]["note"], r"· \d+ of 16 held$")
        for lane in ("anchor", "residual"):
            self.assertRegex(lanes[lane]["note"], r"· \d+ (kB|B)$")
        self.assertGreaterEqual(lanes["draft"]["left"], lanes["anchor"]["left"] + lanes["anchor"]["width"] - 1)
        for lane in lanes.values():
            self.assertTrue(0 <= lane["left"] <= 100 and 0 <= lane["width"] <= 100, lanes)
        self.assertEqual(self.browser.js("document.querySelectorAll('[data-lane=committed] .mark').length > 0"), True)
        tiers = [self.server.metric(f'lynx:transfer_bytes_total{{tier="{t}"}}') for t in (0, 1)]
        chart = self.browser.js("document.getElementById('chart-text').textContent")
        self.assertRegex(chart, r"^Busiest second [\d.]+ Mbit/s\. Anchor \d+ kB, residual \d+ kB\.$", tiers)

    def test_withdrawn_drafts_are_struck_and_the_answer_is_right(self):
        self.ask(PROMPT * 3, temperature=0.9)  # sampling without a seed: some draft of 16 fails, here or the next time
        for _ in range(10):
            said = self.done()
            accepted, drafted = map(int, re.search(r"(\d+) of (\d+) drafts? accepted", said).groups())
            drafted -= drafted < 16  # the last was an end token, which has no text
            struck = self.browser.js("[...document.querySelectorAll('.withdrawn')].slice(0, -1).map(e => [e.tagName, getComputedStyle(e).textDecorationLine])")
            self.assertEqual(struck, [["DEL", "line-through"]] * (1 if accepted < drafted else 0), said)
            self.assertEqual(self.browser.js("document.querySelector('#answer .drafted').textContent"), "")
            if struck:
                break
            self.ask(PROMPT * 3, temperature=0.9)
        self.assertTrue(struck)
        self.browser.js("document.getElementById('show-withdrawn').click()")
        self.assertFalse(self.browser.js("document.querySelector('#answer .withdrawn').checkVisibility()"))

    def test_the_keyboard_is_enough(self):
        self.browser.js("document.body.focus()")
        order = []
        for _ in range(10):
            self.browser.press("Tab", 9)
            order.append(self.browser.js("document.activeElement.id || document.activeElement.className || document.activeElement.tagName.toLowerCase()"))
            self.assertTrue(self.browser.js("getComputedStyle(document.activeElement).outlineStyle !== 'none' || document.activeElement.matches('.skip')"), order)
        self.assertEqual(order, ["skip", "prompt", "mode", "tokens", "temperature", "window", "go", "summary", "answer", "show-withdrawn"])
        self.browser.js("document.getElementById('prompt').focus(); document.getElementById('tokens').value = 900")
        self.browser.press("Enter", 13, modifiers=2)
        self.browser.wait("document.getElementById('said').textContent === 'Generating' && !document.getElementById('stop').disabled")
        self.browser.press("Escape", 27)
        self.browser.wait("document.getElementById('said').textContent === 'Stopped.'")
        self.browser.wait("document.querySelector('.badge').textContent === 'failed'")

    def test_what_assistive_technology_gets(self):
        self.ask(PROMPT, tokens=8, window="4")
        self.done()
        nodes = self.browser.accessibility()
        for role in ("textbox", "spinbutton", "combobox", "button", "checkbox", "region", "article", "list", "image"):
            names = [name for r, name in nodes if r == role]
            self.assertTrue(names, role)
            if role not in ("list",):
                self.assertTrue(all(names), (role, names))
        self.assertIn(("textbox", "Prompt"), nodes)
        self.assertIn(("region", "Answer"), nodes)
        live = self.browser.js("[...document.querySelectorAll('[aria-live],[role=status],[role=alert]')].map(e => e.id)")
        self.assertEqual(live, ["status", "alarm", "answer", "said"])
        self.assertEqual(self.browser.js("document.documentElement.lang"), "en")
        self.assertEqual(self.browser.js("document.getElementById('answer').getAttribute('aria-busy')"), "false")

    def test_contrast_in_light_and_dark(self):
        self.ask(PROMPT, tokens=8, window="4")
        self.done()
        grounds = set()
        for scheme in ("light", "dark"):
            self.browser.scheme(scheme)
            self.assertEqual(self.browser.js(CONTRAST), [], scheme)
            grounds.add(self.browser.js("getComputedStyle(document.body).backgroundColor"))
        self.assertEqual(len(grounds), 2, "the schemes look the same")

    def test_it_asks_nobody_else_and_nothing_throws(self):
        self.ask(PROMPT, tokens=8)
        self.done()
        asked = {e["params"]["request"]["url"] for e in self.browser.seen if e.get("method") == "Network.requestWillBeSent"}
        self.assertTrue(asked)
        self.assertEqual([u for u in asked if not u.startswith((self.url, "data:", "about:"))], [])
        self.assertEqual([e for e in self.browser.seen if e.get("method") == "Runtime.exceptionThrown"], [])

    def test_a_narrow_window_needs_no_sideways_scrolling(self):
        self.browser.call("Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=1, mobile=False)
        self.ask(PROMPT, tokens=8)
        self.done()
        self.assertLessEqual(self.browser.js("document.documentElement.scrollWidth"), 390)

    def test_errors_are_told(self):
        self.ask("x" * 9000)
        self.browser.wait("document.getElementById('alarm').textContent.length > 0")
        self.assertFalse(self.browser.js("document.getElementById('go').disabled"))


class KeyTest(unittest.TestCase):
    def test_a_key_is_asked_for_and_used(self):
        with Server("--api-key", "secret") as server, Browser() as browser:
            browser.open(f"http://127.0.0.1:{server.port}/")
            browser.wait("document.getElementById('key-box').open && document.getElementById('status').textContent === 'An API key is needed'")
            browser.js("document.getElementById('key').value = 'secret'")
            browser.wait("document.getElementById('status').textContent === 'Prefill node connected'")
            browser.js("document.getElementById('tokens').value = 8; document.getElementById('form').requestSubmit()")
            browser.wait("document.getElementById('said').textContent.startsWith('Done')")


if __name__ == "__main__":
    if BINARY is None:
        print("SKIPPED: there is no Chromium here")
        sys.exit(77)
    unittest.main()
