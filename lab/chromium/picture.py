#!/usr/bin/env python3
"""A picture of two reports side by side: received rate and one-way delay.

    python3 lab/chromium/picture.py out/gcc-1.5--0.5--1.5-Mbit-s/call-1/link/report.html \\
        out/gcc-1.5--0.5--1.5-Mbit-s/sim-1/report.html docs/images/chromium.png
"""

import argparse
import pathlib
import tempfile

import peer
from selenium import webdriver
from selenium.webdriver.chrome.options import Options

TITLES = ("Two Chromiums across giusto link", "gcc:libwebrtc in giusto sim")
SHOWN = ("Received rate", "One-way delay")
WIDTH, HEIGHT = 1400, 1000

PAGE = """<!doctype html><meta charset="utf-8">
<style>
  body { margin: 0; display: grid; grid-template-columns: 1fr 1fr; font: 600 20px sans-serif; background: #f6f7f9 }
  h1 { font-size: 20px; margin: 16px 28px 0 } iframe { border: 0; width: 100%; height: 100px }
</style>
<div><h1>LEFT</h1><iframe src="LEFT_FILE"></iframe></div><div><h1>RIGHT</h1><iframe src="RIGHT_FILE"></iframe></div>
"""

# Leaves the named sections and their ancestors. Returns the height of the higher report.
KEEP = """
const shown = new Set(arguments[0]);
const frames = [...document.querySelectorAll("iframe")];
const heights = frames.map((frame) => {
  const body = frame.contentDocument.body;
  const titles = [...body.querySelectorAll("h2")].filter((title) => shown.has(title.textContent.trim()));
  const kept = titles.map((title) => title.parentElement);
  const around = (part) => kept.some((section) => section.contains(part) || part.contains(section));
  for (const part of body.querySelectorAll("*")) if (!around(part)) part.style.display = "none";
  return body.scrollHeight;
});
const height = Math.max(...heights);
for (const frame of frames) frame.style.height = `${height}px`;
return height;
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("left", type=pathlib.Path, help="report of a call")
    parser.add_argument("right", type=pathlib.Path, help="report of the simulator")
    parser.add_argument("picture", type=pathlib.Path, help="PNG to write")
    args = parser.parse_args()
    options = Options()
    options.binary_location = peer.program("chromium")
    for flag in ("headless=new", "no-sandbox", "hide-scrollbars", "allow-file-access-from-files"):
        options.add_argument(f"--{flag}")
    driver = webdriver.Chrome(options=options, service=peer.service())
    try:
        with tempfile.TemporaryDirectory() as folder:
            page = PAGE.replace("LEFT_FILE", args.left.resolve().as_uri())
            page = page.replace("RIGHT_FILE", args.right.resolve().as_uri())
            page = page.replace("LEFT", TITLES[0]).replace("RIGHT", TITLES[1])
            wrapper = pathlib.Path(folder) / "page.html"
            wrapper.write_text(page, encoding="utf-8")
            driver.set_window_size(WIDTH, HEIGHT)
            driver.get(wrapper.as_uri())
            height = driver.execute_script(KEEP, SHOWN)
            driver.execute_cdp_cmd(
                "Emulation.setDeviceMetricsOverride",
                {"width": WIDTH, "height": height + 40, "deviceScaleFactor": 1, "mobile": False},
            )
            driver.save_screenshot(str(args.picture))
    finally:
        driver.quit()


main()
