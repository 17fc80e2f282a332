"""A headless Chromium, driven over its DevTools pipe: just enough to look at one page, press keys and take pictures."""
import base64
import json
import os
import shutil
import subprocess
import tempfile
import time

BINARY = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """One page of its own browser with its own empty profile, as a context manager."""

    def __init__(self, width=1280, height=1180):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        there_read, self.to = os.pipe()
        self.back, there_write = os.pipe()
        # Chromium talks on descriptors 3 and 4.
        command = f'exec "$@" 3<&{there_read} 4>&{there_write}'
        self.process = subprocess.Popen(
            ["sh", "-c", command, "sh", BINARY, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe", "--force-device-scale-factor=1",
             f"--window-size={width},{height}", f"--user-data-dir={self.profile.name}", "about:blank"],
            pass_fds=(there_read, there_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(there_read)
        os.close(there_write)
        self.number, self.rest, self.session, self.seen = 0, b"", None, []
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Accessibility"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.session = None
        self.call("Browser.close")
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.to)
        os.close(self.back)
        self.profile.cleanup()

    def call(self, method, **params):
        """A DevTools command; its result. Events that come in between are kept in `seen`."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params, **({"sessionId": self.session} if self.session else {})}
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.rest:
                got = os.read(self.back, 1 << 20)
                assert got, "the browser ended"
                self.rest += got
            line, self.rest = self.rest.split(b"\0", 1)
            answer = json.loads(line)
            if answer.get("id") == self.number:
                assert "error" not in answer, (method, answer)
                return answer["result"]
            self.seen.append(answer)

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def js(self, expression):
        """The value of an expression in the page; promises are awaited."""
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def wait(self, condition, timeout=20):
        deadline = time.monotonic() + timeout
        while not (value := self.js(condition)):
            assert time.monotonic() < deadline, f"{condition}: not within {timeout} s"
            time.sleep(0.05)
        return value

    def press(self, key, code=0, text="", modifiers=0):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, modifiers=modifiers,
                      **({"text": text} if text and kind == "keyDown" else {}))

    def scheme(self, name):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def picture(self, path):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                         clip={"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1})
        with open(path, "wb") as out:
            out.write(base64.b64decode(shot["data"]))

    def accessibility(self):
        """(role, name) of every node that assistive technology sees."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [(n["role"]["value"], n.get("name", {}).get("value", "")) for n in nodes if not n.get("ignored") and "role" in n]
