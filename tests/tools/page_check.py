#!/usr/bin/env python3
"""page_check.py - opens a report in headless Chromium and checks that it works.

    page_check.py PAGE.html [--shots DIR] [--expect JSON]

Checks that the page requests nothing from outside and has no errors; that every figure has panels
and every panel with points has visible curves, in the light and the dark scheme; that a single
panel fills its card; that hovering over a point, touching it and the keyboard show its tooltip,
which lists all curves at its x from the highest to the lowest; that the legend hides and shows a
curve; that badges are readable and have a meaning without their colour; that nothing is wider than
a phone's screen, and a table that scrolls there has a hint.  --shots saves pictures (light, dark,
phone, tip).  --expect: the labels that each panel must have, {"loss-lr": [["Muon", "AdamW"], ...]}.

Prints each failure and a last line with the counts.  Exit 0: none; 1: some; 77: no browser here.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import sys
import time

try:
    from selenium import webdriver
    from selenium.common.exceptions import WebDriverException
    from selenium.webdriver.chrome.service import Service
except ImportError:  # the first python3 on PATH may be one of the user's own, without it
    SYSTEM = "/usr/bin/python3"
    if os.path.exists(SYSTEM) and os.path.realpath(sys.executable) != os.path.realpath(SYSTEM):
        os.execv(SYSTEM, [SYSTEM, *sys.argv])
    print("skipped: python3-selenium is not here")
    sys.exit(77)

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
DESK, PHONE = (1280, 900), (390, 844)
PATIENCE = 5  # seconds to wait for the page: on a busy machine events are late

# The figures of the page as the browser renders them.
SEEN = "const SEEN = (e) => e.getClientRects().length > 0;"  # a single panel exists in two widths
LOOK = SEEN + """
const px = (c) => c.match(/[0-9.]+/g).map(Number);
const back = (e) => {  // the first background on the way up that is not transparent
  for (; e; e = e.parentElement) {
    const c = px(getComputedStyle(e).backgroundColor);
    if (c.length < 4 || c[3] > 0) return c;
  }
  return [255, 255, 255];
};
return [...document.querySelectorAll('figure.plots')].map((figure) => ({
  id: figure.id,
  card: figure.clientWidth - 2 * parseFloat(getComputedStyle(figure).paddingLeft),
  panels: [...figure.querySelectorAll('.panel > svg')].filter(SEEN).map((svg) => ({
    box: svg.getBoundingClientRect().toJSON(),
    name: svg.getAttribute('aria-label'),
    role: svg.getAttribute('role'),
    back: back(svg),
    text: px(getComputedStyle(svg).color),
    curves: [...svg.querySelectorAll('.curve')].map((g) => {
      const part = [...g.querySelectorAll('path, polygon, rect, circle, line')];
      const style = part.length ? getComputedStyle(part[0]) : {};
      const paint = style.stroke && style.stroke !== 'none' ? style.stroke : style.fill;
      const box = g.getBBox();
      return { label: g.dataset.label, kind: g.getAttribute('class'), parts: part.length,
               size: Math.max(box.width, box.height), paint: paint ? px(paint) : [] };
    }),
    points: [...svg.querySelectorAll('.points')].map((g) => ({
      label: g.dataset.label,
      tips: [...g.querySelectorAll('circle')].map((c) => c.dataset.tip),
    })),
  })),
}));
"""
# Scrolls circle number i of a panel into view and waits until it is visible.  Returns its place on
# the screen, all points at that place, and the rows that the tooltip must have: the point of each
# curve at this x, from the highest to the lowest.
AIM = SEEN + """
const svg = [...document.querySelectorAll('.panel > svg')].filter(SEEN)[arguments[0]];
const all = [...svg.querySelectorAll('.points circle')];
const centre = (c) => { const b = c.getBoundingClientRect();
                        return [b.left + b.width / 2, b.top + b.height / 2]; };
const circle = all[arguments[1]], done = arguments[2];
svg.scrollIntoView({ block: 'center', behavior: 'instant' });
requestAnimationFrame(() => requestAnimationFrame(() => {
  const [x, y] = centre(circle);
  const what = (c) => ({ label: c.parentNode.dataset.label, value: c.dataset.y,
                         tip: c.dataset.tip });
  const rows = [...svg.querySelectorAll('.points')].map((g) => [...g.querySelectorAll('circle')]
      .find((c) => c.dataset.x === circle.dataset.x &&
                   Math.abs(c.cx.baseVal.value - circle.cx.baseVal.value) < 0.5))
      .filter((c) => c).sort((a, b) => a.cy.baseVal.value - b.cy.baseVal.value);
  done({ x, y, rows: rows.map(what),
         here: all.filter((c) => Math.hypot(centre(c)[0] - x, centre(c)[1] - y) < 1.5)
                  .map(what) });
}));
"""
TIP = SEEN + """
const tip = document.querySelector('.tip');
if (!tip || tip.hidden) return null;
const b = tip.getBoundingClientRect(), s = getComputedStyle(tip);
const row = (tr) => ({ label: tr.cells[0].textContent, value: tr.cells[1].textContent });
const now = tip.querySelector('tr.now');
return { text: [...tip.querySelectorAll('.detail')].filter(SEEN).map((e) => e.textContent).join(''),
         rows: [...tip.querySelectorAll('tr')].map(row), now: now && row(now), seen: s.display !== 'none' && s.visibility === 'visible' &&
         b.width > 8 && b.height > 8 && b.left >= 0 && b.right <= innerWidth + 0.5 &&
         b.top >= 0 && b.bottom <= innerHeight + 0.5 };
"""


def contrast(a, b):
    """The contrast ratio of the Web Content Accessibility Guidelines, 1 to 21."""
    def light(c):
        c = [v / 255 for v in c[:3]]
        c = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in c]
        return 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2]
    high, low = sorted((light(a), light(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


class Check:
    def __init__(self, page, shots):
        self.page, self.shots, self.wrong, self.done = pathlib.Path(page).resolve(), shots, [], 0
        options = webdriver.ChromeOptions()
        for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                     "--disable-dev-shm-usage", "--disable-background-networking", "--no-first-run"):
            options.add_argument(flag)
        options.binary_location = next(filter(None, map(shutil.which, BROWSERS)))
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.browser = webdriver.Chrome(options=options,
                                        service=Service(shutil.which("chromedriver")))
        self.browser.set_page_load_timeout(60)
        self.browser.set_script_timeout(60)

    def that(self, good, words):
        self.done += 1
        if not good:
            self.wrong.append(words)
        return good

    def devtools(self, command, **arguments):
        return self.browser.execute_cdp_cmd(command, arguments)

    def open(self, size, scheme="light"):
        self.devtools("Emulation.setEmulatedMedia",
                      features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.resize(size)
        self.browser.get(self.page.as_uri())

    def resize(self, size):
        self.devtools("Emulation.setDeviceMetricsOverride", width=size[0], height=size[1],
                      deviceScaleFactor=1, mobile=size == PHONE)
        self.devtools("Emulation.setTouchEmulationEnabled", enabled=size == PHONE)

    def shot(self, name, size=None):
        """Saves a picture: of the whole page if its size is given."""
        if not self.shots:
            return
        if size:
            high = self.browser.execute_script("return document.documentElement.scrollHeight")
            self.resize((size[0], min(high, 16000)))
        self.browser.save_screenshot(os.path.join(self.shots, name + ".png"))
        if size:
            self.resize(size)

    # ---- the checks ----

    def text(self):
        """The file contains no reference to anything outside and no inline event handler."""
        text = self.page.read_text(encoding="utf-8")
        out = re.findall(r"""(?:\bsrc\s*=|@import|url\s*\((?!#)|<link\b|<iframe\b|<base\b"""
                         r"""|href\s*=(?!["']?#))[^>]{0,60}""", text)
        self.that(not out, "refers to something outside: %s" % out[:3])
        self.that(not re.search(r"<[a-z][^>]*\son[a-z]+\s*=", text), "has an inline event handler")

    def figures(self, expect):
        seen = self.browser.execute_script(LOOK)
        self.that(seen, "has no figure")
        for figure in seen:
            where = figure["id"]
            self.that(figure["panels"], "%s: no panel" % where)
            self.that(any(p["curves"] for p in figure["panels"]), "%s: no curve" % where)
            if len(figure["panels"]) == 1:
                self.that(figure["panels"][0]["box"]["width"] > 0.95 * figure["card"],
                          "%s: its panel does not fill the card" % where)
            for panel in figure["panels"]:
                self.panel("%s, %s" % (where, panel["name"]), panel)
        for name, panels in expect.items():
            figure = next((f for f in seen if f["id"] in (name, "figure-" + name)), None)
            if not self.that(figure, "no figure %s" % name):
                continue
            got = [[p["label"] for p in panel["points"]] for panel in figure["panels"]]
            self.that(got == panels, "%s has curves %s, not %s" % (name, got, panels))
        return seen

    def panel(self, where, panel):
        drawn = {c["label"] for c in panel["curves"]}
        self.that(panel["role"] == "img" and panel["name"], where + ": no role or name")
        self.that(panel["box"]["width"] > 200 and panel["box"]["height"] > 100, where + ": too small")
        self.that(contrast(panel["text"], panel["back"]) > 7, where + ": words can hardly be seen")
        for points in panel["points"]:
            self.that(points["label"] in drawn, "%s: %s is not drawn" % (where, points["label"]))
            self.that(points["tips"] and all(points["tips"]),
                      "%s: %s has points without words" % (where, points["label"]))
        for curve in panel["curves"]:
            words = "%s: %s (%s)" % (where, curve["label"], curve["kind"])
            self.that(curve["parts"] > 0 and curve["size"] > 0, words + " is empty")
            self.that(curve["paint"] and contrast(curve["paint"], panel["back"]) > 2,
                      words + " can hardly be seen")

    def tip(self, good=bool):
        """The tooltip once it is good, or after PATIENCE seconds."""
        until = time.monotonic() + PATIENCE
        tip = self.browser.execute_script(TIP)
        while not good(tip) and time.monotonic() < until:
            time.sleep(0.05)
            tip = self.browser.execute_script(TIP)
        return tip

    def tip_is(self, at, where):
        def names(tip):  # by its text, or by the highlighted row
            return any(tip["text"] == c["tip"] or tip["now"] == {"label": c["label"], "value": c["value"]}
                       for c in at["here"])

        def lists(tip):  # every curve that has a point at this x, from the highest to the lowest
            got = [(r["label"], r["value"]) for r in tip["rows"]]
            want = [(r["label"], r["value"]) for r in at["rows"]]
            rest = iter(got)
            return len(want) < 2 or all(row in rest for row in want)
        tip = self.tip(lambda tip: tip and names(tip) and tip["seen"])
        if self.that(tip, where + ": no words appear"):
            self.that(names(tip), "%s: %s instead of %s" % (where, tip, at["here"]))
            self.that(lists(tip), "%s: the rows %s instead of %s" % (where, tip["rows"], at["rows"]))
            self.that(tip["seen"], "%s: the words '%s' are off the screen" % (where, tip))

    def hover(self, seen):
        panel = -1
        for figure in seen:
            for inside in figure["panels"]:
                panel += 1
                circle = 0
                for points in inside["points"]:
                    for i in sorted({0, len(points["tips"]) // 2})[-1 if panel else 0:]:
                        at = self.browser.execute_async_script(AIM, panel, circle + i)
                        for dx in (300, 0):  # the pointer moves there from elsewhere
                            self.devtools("Input.dispatchMouseEvent", type="mouseMoved",
                                          x=at["x"] + dx, y=at["y"])
                        self.tip_is(at, "%s, pointing at %s" % (figure["id"], points["label"]))
                    circle += len(points["tips"])
                if panel == 0:
                    self.shot("tip")
        self.devtools("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)
        self.that(not self.tip(lambda tip: not tip), "the words stay when the pointer has gone")

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self.devtools("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def keys(self):
        # When a page scrolls the browser reports the resting pointer again, which would hide the
        # tooltip: the panel is scrolled into view, and the pointer moved away, before the focus.
        self.browser.execute_async_script(AIM, 0, 0)
        self.devtools("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)
        self.tip(lambda tip: not tip)
        self.browser.execute_script("document.querySelector('.panel > svg')"
                                    ".focus({focusVisible: true, preventScroll: true})")
        for key in ("ArrowRight", "ArrowDown"):
            self.press(key)
            self.that(self.tip(), "no words appear by the key " + key)
        self.press("Escape")
        self.that(not self.tip(lambda tip: not tip), "the words stay after Escape")

    def legend(self):
        count = """
            const key = document.querySelector('.legend li'), label = key.dataset.label;
            if (arguments[0]) key.querySelector('button').click();
            return [...key.closest('figure').querySelectorAll('.panel .curve')]
                .filter((g) => g.dataset.label === label && g.getClientRects().length &&
                               getComputedStyle(g).display !== 'none').length;"""
        before = self.browser.execute_script(count, False)
        self.that(self.browser.execute_script(count, True) == 0, "the legend hides no curve")
        self.that(self.browser.execute_script(count, True) == before, "the legend shows no curve")

    def touch(self):
        at = self.browser.execute_async_script(AIM, 0, 0)
        self.devtools("Input.dispatchTouchEvent", type="touchStart",
                      touchPoints=[{"x": at["x"], "y": at["y"]}])
        self.devtools("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        self.tip_is(at, "touched")

    def badges(self):
        """A badge has readable text and a sign, not its colour alone."""
        for badge in self.browser.execute_script("""
                const px = (c) => c.match(/[0-9.]+/g).map(Number);
                return [...document.querySelectorAll('.badge')].map((e) => ({
                  text: e.textContent, sign: getComputedStyle(e, '::before').content,
                  ink: px(getComputedStyle(e).color), back: px(getComputedStyle(e).backgroundColor) }));"""):
            self.that(badge["text"].strip() and len(badge["sign"]) > 2, "a badge without words or sign")
            self.that(contrast(badge["ink"], badge["back"]) >= 4.5,
                      "the badge '%s' can hardly be read" % badge["text"])

    def tables(self):
        """On a phone a table that is wider than its box has a hint until it is scrolled to its end."""
        for wide, hints, stops in self.browser.execute_async_script("""
                const done = arguments[0], boxes = [...document.querySelectorAll('.wide')]
                    .filter((b) => b.getClientRects().length > 0);
                const hinted = (b) => Boolean(b.previousElementSibling?.matches('.hint') &&
                    b.previousElementSibling.getClientRects().length > 0);
                const before = boxes.map(hinted);
                for (const b of boxes) b.scrollLeft = b.scrollWidth;
                requestAnimationFrame(() => requestAnimationFrame(() => done(boxes.map((b, i) =>
                    [b.scrollWidth > b.clientWidth + 1, before[i], before[i] && !hinted(b)]))));"""):
            self.that(wide == hints, "a table is %sand says so: %s" % ("wide " if wide else "", hints))
            self.that(stops == hints, "the hint at a table stays when its end is seen")

    def width(self):
        wide = self.browser.execute_script(
            "return [document.documentElement.scrollWidth, window.innerWidth]")
        self.that(wide[0] <= wide[1] <= PHONE[0], "%d pixels wide on a screen of %d" % tuple(wide))

    def quiet(self):
        """There are no errors, and nothing but the page itself was requested."""
        said = [m["message"] for m in self.browser.get_log("browser")]
        self.that(not said, "the console says: %s" % said[:3])
        asked = [json.loads(m["message"])["message"] for m in self.browser.get_log("performance")]
        asked = {m["params"]["request"]["url"] for m in asked
                 if m["method"] == "Network.requestWillBeSent"}
        self.that(asked <= {self.page.as_uri()}, "asks for %s" % sorted(asked))

    def run(self, expect):
        self.text()
        self.open(DESK)
        seen = self.figures(expect)
        self.shot("light", DESK)
        if any(p["points"] for f in seen for p in f["panels"]):
            self.hover(seen)
            self.keys()
            self.legend()
        self.badges()
        self.open(DESK, "dark")
        self.figures(expect)
        self.badges()
        self.shot("dark", DESK)
        self.open(PHONE)
        self.figures(expect)
        self.width()
        if seen and seen[0]["panels"] and seen[0]["panels"][0]["points"]:
            self.touch()
        self.shot("phone", PHONE)
        self.tables()
        self.quiet()


def main():
    arguments = argparse.ArgumentParser(usage=__doc__)
    arguments.add_argument("page")
    arguments.add_argument("--shots")
    arguments.add_argument("--expect", default="{}", type=json.loads)
    given = arguments.parse_args()
    if not any(map(shutil.which, BROWSERS)) or not shutil.which("chromedriver"):
        print("skipped: chromium or chromedriver is not here")
        return 77
    if given.shots:
        os.makedirs(given.shots, exist_ok=True)
    try:
        check = Check(given.page, given.shots)
    except WebDriverException as problem:
        print("skipped: chromium does not start here: %s" % str(problem).splitlines()[0])
        return 77
    try:
        check.run(given.expect)
    finally:
        check.browser.quit()
    for words in check.wrong:
        print("FAILED: " + words)
    print("%s: %d checks, %d failed" % (check.page.name, check.done, len(check.wrong)))
    return 1 if check.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
