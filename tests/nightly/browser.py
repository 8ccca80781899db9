"""A headless Chromium, driven by its debugging protocol over pipes: types, clicks, reads."""

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import time

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="waits for a Chromium on the path")
KEYS = {"Tab": ("Tab", 9, ""), "Enter": ("Enter", 13, "\r"), " ": ("Space", 32, " ")}


class NavigatedError(Exception):
    """The page was left before it answered."""


class Browser:
    """One page of a browser that can reach only this machine.

    Attributes:
      complaints: the page's exceptions, errors on the console and violations of its policy.
    """

    def __init__(self, folder, width=1100, height=1000, dark=False):
        read, write = os.pipe(), os.pipe()
        # the browser's ends, with numbers other than 3 and 4, to which they are copied
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (read[0], write[1])]
        arguments = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu"]
        arguments += ["--remote-debugging-pipe", f"--user-data-dir={folder}"]
        arguments += ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "about:blank"]
        shell = 'exec "$@" 3<&{0} 4>&{1} {0}<&- {1}>&-'.format(*ends)
        self._process = subprocess.Popen(
            ["bash", "-c", shell, "chromium", *arguments],
            pass_fds=ends,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (read[0], write[1], *ends):
            os.close(end)
        self._out, self._in = os.fdopen(read[1], "wb"), os.fdopen(write[0], "rb")
        self._session, self._number, self.complaints = None, 0, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            **{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[theme])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._out.close()
        self._in.close()
        self._process.terminate()
        self._process.wait(20)

    def call(self, method, **params):
        """Sends a command; returns its result, and collects the complaints before it."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        self._out.flush()
        while True:
            received = self._receive()
            if received.get("id") == self._number:
                if "navigated" in received.get("error", {}).get("message", ""):
                    raise NavigatedError(method)
                assert "error" not in received, received
                return received["result"]
            self._note(received)

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait_for(
            f"location.href.startsWith({json.dumps(url)}) && document.readyState === 'complete'"
        )

    def evaluate(self, expression):
        result = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait_for(self, expression, seconds=20):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with contextlib.suppress(NavigatedError):
                if value := self.evaluate(expression):
                    return value
            time.sleep(0.05)
        raise AssertionError(f"waited in vain for {expression}")

    def click(self, selector):
        """Clicks the middle of an element with the mouse."""
        quoted = json.dumps(selector)
        x, y = self.evaluate(
            f"(() => {{ const one = document.querySelector({quoted}); one.scrollIntoView("
            "{block: 'center'}); const box = one.getBoundingClientRect();"
            "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            mouse = {"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1}
            self.call("Input.dispatchMouseEvent", **mouse)

    def type(self, selector, text):
        """Replaces the text of a box by typing."""
        self.click(selector)
        self.evaluate("document.activeElement.select()")
        self.call("Input.insertText", text=text)

    def press(self, key):
        name, code, text = KEYS[key]
        both = {"key": key, "code": name, "windowsVirtualKeyCode": code}
        down = {**both, "text": text} if text else both
        self.call("Input.dispatchKeyEvent", type="keyDown", **down)
        self.call("Input.dispatchKeyEvent", type="keyUp", **both)

    def text(self, selector):
        return self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")

    def _receive(self):
        data = bytearray()
        while (byte := self._in.read(1)) != b"\0":
            assert byte, "Chromium has ended"
            data += byte
        return json.loads(data)

    def _note(self, event):
        method, params = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(params["exceptionDetails"])
        if method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"])
        if method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.complaints.append(params["args"])


_READ = """(() => {
  const box = (element) => element.getBoundingClientRect();
  const root = document.documentElement;
  return {
    overflow: root.scrollWidth - root.clientWidth,
    text: document.body.innerText,
    figures: [...document.querySelectorAll("figure")].map((figure) => ({
      label: figure.getAttribute("aria-label"),
      width: box(figure).width,
      svg: box(figure.querySelector("svg")).height,
      marks: [...figure.querySelectorAll("path, use")].filter(
        (mark) => box(mark).width + box(mark).height > 0).length,
      words: [...figure.querySelectorAll("text")].map((text) => text.textContent),
      letter: Math.min(...[...figure.querySelectorAll("text")].map((text) => box(text).height)),
    })),
  };
})()"""


def look(text, folder, width):
    """The text, overflow and figures of a page at a width in pixels, and the page's complaints."""
    page = folder / "look.html"
    page.write_text(text, encoding="utf-8")
    with Browser(folder / "profile", width) as browser:
        browser.open(page.as_uri())
        return {**browser.evaluate(_READ), "console": [*map(json.dumps, browser.complaints)]}
