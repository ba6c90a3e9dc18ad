#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The site: its menu has every page, it is built without a warning, and every link in it leads to a page and a heading,
or out of it on purpose. TAP.

usage: check_site.py ROOT"""
import html.parser
import importlib.util
import os
import subprocess
import sys
import tempfile
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.join(HERE, "build.py")


class Page(html.parser.HTMLParser):
    """Its links and images, what it loads besides (the theme's), and the anchors that it has."""

    def __init__(self, path):
        super().__init__()
        self.links, self.images, self.loads, self.anchors = [], [], [], set()
        with open(path) as file:
            self.feed(file.read())

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if tag == "img" and values.get("src"):
            self.images.append(values["src"])
        if tag == "script" and values.get("src"):
            self.loads.append(values["src"])
        if tag == "link" and values.get("href"):
            self.loads.append(values["href"])


def pages_of(folder):
    return {os.path.relpath(os.path.join(where, name), folder): Page(os.path.join(where, name))
            for where, _, names in os.walk(folder) for name in names if name.endswith(".html") and name not in ("404.html", "search.html")}


def dead_links(folder, pages):
    for page, read in pages.items():
        for target in read.links + read.images:
            url = urllib.parse.urlparse(target)
            if url.scheme or url.netloc:
                continue
            path = os.path.normpath(os.path.join(os.path.dirname(page), urllib.parse.unquote(url.path))) if url.path else page
            if not os.path.exists(os.path.join(folder, path)):
                yield f"{page}: {target}: there is no {path}"
            elif url.fragment and path in pages and urllib.parse.unquote(url.fragment) not in pages[path].anchors:
                yield f"{page}: {target}: no such heading"


def loads_from_elsewhere(pages):
    for page, read in pages.items():
        yield from (f"{page}: {target}" for target in read.loads if urllib.parse.urlparse(target).netloc)


def report(number, name, wrong):
    print(f"{'not ok' if wrong else 'ok'} {number} - {name}")
    for line in wrong:
        print("# " + line)
    return bool(wrong)


def main():
    root = sys.argv[1]
    menu = subprocess.run([sys.executable, BUILD, root, "--check"], capture_output=True, text=True)
    print("1..4")
    failed = report(1, "the menu has every page once", menu.stdout.splitlines() + menu.stderr.splitlines() if menu.returncode else [])
    if not importlib.util.find_spec("mkdocs"):
        for number in (2, 3, 4):
            print(f"ok {number} # SKIP there is no mkdocs")
        return failed
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, BUILD, root, folder], capture_output=True, text=True)
        failed |= report(2, "it is built without a warning", done.stderr.splitlines() if done.returncode else [])
        pages = pages_of(folder)
        failed |= report(3, "every link leads to a page and a heading", list(dead_links(folder, pages)) + ([] if pages else ["no page"]))
        failed |= report(4, "nothing is loaded from elsewhere", list(loads_from_elsewhere(pages)))
    return failed


if __name__ == "__main__":
    sys.exit(main())
