"""Controls a headless Chromium with the DevTools protocol through two pipes."""

import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")


class Browser:
    """One page. `problems` collects logged errors, exceptions, and resources that it loads from elsewhere."""

    def __init__(self, width, height, dark=False):
        program = next((found for found in map(shutil.which, NAMES) if found), None)
        if program is None:
            raise SystemExit(f"there is no Chromium here ({', '.join(NAMES)}): apt-get install chromium")
        self.folder = tempfile.TemporaryDirectory()
        to_child, self.write_end = os.pipe()
        self.read_end, from_child = os.pipe()

        def give_pipes():  # as descriptors 3 and 4
            high = [os.dup2(end, 100 + i) for i, end in enumerate((to_child, from_child))]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--no-first-run",
             "--hide-scrollbars", f"--user-data-dir={self.folder.name}", "about:blank"],
            preexec_fn=give_pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_child)
        os.close(from_child)
        self.buffer, self.number, self.session = b"", 0, None
        self.problems, self.events = [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.write_end)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.read_end)
        try:
            self.folder.cleanup()
        except OSError:  # a helper of the browser still writes there
            time.sleep(1)
            shutil.rmtree(self.folder.name, ignore_errors=True)

    def receive(self, seconds):
        """The next message, or None."""
        end = time.monotonic() + seconds
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.read_end], [], [], max(0, end - time.monotonic()))
            if not ready:
                return None
            more = os.read(self.read_end, 1 << 20)
            if not more:
                raise RuntimeError("the browser ended")
            self.buffer += more
        text, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(text)
        self.note(message)
        return message

    def note(self, message):
        method, about = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = about["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert"):
            self.problems.append("console: " + json.dumps(about["args"])[:400])
        elif method == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.problems.append("log: " + about["entry"]["text"])
        elif method == "Network.requestWillBeSent" and not about["request"]["url"].startswith(("file:", "data:")):
            self.problems.append("loads " + about["request"]["url"])
        if method:
            self.events.append(method)

    def call(self, method, seconds=120, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + seconds
        while True:
            answer = self.receive(max(0.0, end - time.monotonic()))
            if answer is None:
                raise RuntimeError(f"{method}: no answer within {seconds} s")
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def open(self, path):
        self.load("Page.navigate", url=pathlib.Path(path).as_uri())

    def load(self, method, **parameters):
        self.events.clear()
        self.call(method, **parameters)
        end = time.monotonic() + 120
        while "Page.loadEventFired" not in self.events:
            if self.receive(max(0.0, end - time.monotonic())) is None:
                raise RuntimeError("the page was not loaded within 120 s")

    def run(self, script):
        """The value of a JavaScript expression in the page, as JSON."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(f"{script}: {details.get('exception', {}).get('description', details['text'])}")
        return answer["result"].get("value")

    def click(self, selector):
        """Clicks in the middle of the first element that a selector finds, once it is visible."""
        place = self.run(
            f"""(() => {{ const element = document.querySelector({json.dumps(selector)});
            if (!element) return null;
            element.scrollIntoView({{ block: "nearest", inline: "nearest", behavior: "instant" }});
            const box = element.getBoundingClientRect();
            return [box.left + box.width / 2, box.top + Math.min(box.height / 2, 8)]; }})()""")
        if place is None:
            raise RuntimeError(f"nothing is called {selector}")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def key(self, key, text=None):
        codes = {"Enter": 13, "Escape": 27, "ArrowRight": 39, "ArrowLeft": 37, "ArrowDown": 40, "Tab": 9}
        text = text or (key if len(key) == 1 else "\r" if key == "Enter" else None)
        extra = {"text": text} if text else {}
        code = codes.get(key, ord(key[0].upper()))
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **extra)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def screenshot(self, path, whole=False):
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
            image = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        else:
            image = self.call("Page.captureScreenshot", format="png")
        with open(path, "wb") as file:
            file.write(base64.b64decode(image["data"]))

    def pdf(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"]))
