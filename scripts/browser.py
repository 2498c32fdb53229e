"""Chromium without a window, for the scripts beside this file: opens pages, looks at them, and takes pictures."""
import base64
import json
import os
import subprocess
import sys
import time

QUIET = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]


def fail(message):
    sys.exit(f"{os.path.basename(sys.argv[0])}: {message}")


class Browser:
    """Chromium, spoken to through pipes: texts of JSON that end in a zero byte."""

    def __init__(self, folder, arguments):
        read_by_it, self.out = os.pipe()
        self.input, written_by_it = os.pipe()

        def arrange():
            # The numbers that it expects; from high ones, so that neither overwrites the other.
            high = [os.dup2(read_by_it, 63), os.dup2(written_by_it, 64)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        log = open(folder / "chromium.log", "wb")
        self.process = subprocess.Popen(
            ["chromium", *QUIET, "--remote-debugging-pipe", f"--user-data-dir={folder / 'profile'}", *arguments],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, close_fds=False, preexec_fn=arrange,
        )
        os.close(read_by_it)
        os.close(written_by_it)
        self.number = 0
        self.rest = b""

    def call(self, method, session=None, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params} | ({"sessionId": session} if session else {})
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.rest:
                part = os.read(self.input, 1 << 20)
                if not part:
                    fail("chromium ended")
                self.rest += part
            text, _, self.rest = self.rest.partition(b"\0")
            answer = json.loads(text)
            if answer.get("id") == self.number:
                if "error" in answer:
                    fail(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def end(self):
        """Asks it to close, so that its processes write nothing behind."""
        try:
            self.call("Browser.close")
            self.process.wait(timeout=20)
        except (OSError, SystemExit, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()


class Page:
    """A page of the browser. `look` is an expression in JavaScript that gives a text of JSON: what the page shows."""

    def __init__(self, browser, address, size, look, on_start=""):
        self.browser = browser
        self.look_at = look
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        width, height = size
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Page.enable")
        self.call("Page.addScriptToEvaluateOnNewDocument", source=on_start)
        self.call("Page.navigate", url=address)

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def look(self):
        """What the page shows, or `None` while it has not begun."""
        value = self.call("Runtime.evaluate", expression=self.look_at)["result"].get("value")
        return json.loads(value) if value else None

    def settle(self, is_done, seconds=60):
        """Waits until the page is as it is wanted, and shows the same twice. Gives what it shows."""
        end = time.monotonic() + seconds
        last = None
        while time.monotonic() < end:
            now = self.look()
            if now and is_done(now) and now == last:
                return now
            last = now
            time.sleep(0.5)
        fail(f"the page does not show what it should within {seconds} s: {json.dumps(last)}")

    def click(self, text):
        """Clicks on the innermost element with that text."""
        place = f"""(() => {{
          const elements = [...document.querySelectorAll("body *")].filter((element) => element.textContent.trim() === {json.dumps(text)});
          const element = elements.at(-1);
          if (!element) return "";
          element.scrollIntoView({{block: "nearest"}});
          const box = element.getBoundingClientRect();
          return JSON.stringify([box.x + box.width / 2, box.y + box.height / 2]);
        }})()"""
        found = self.call("Runtime.evaluate", expression=place)["result"]["value"]
        if not found:
            fail(f"nothing on the page has the text `{text}`; it shows {json.dumps(self.look())}")
        x, y = json.loads(found)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        time.sleep(0.5)

    def picture(self, path):
        # The page may still show placeholders for its tracks.
        time.sleep(2)
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
