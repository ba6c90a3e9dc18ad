#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The pages of the tree as a site, by mkdocs.

usage: build.py ROOT FOLDER      writes the site
       build.py ROOT --check     is every page in pages.txt once, and does each file there exist? TAP

Links between pages stay. What a page links to besides, a source file or a folder, is not part of the site: its text
remains. Anchors of headings are those that test/links.py looks for."""
import glob
import os
import re
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "test"))
import links

# Pages that are not for readers of the site.
LEFT_OUT = (".github/", "test/")
IMAGES = (".svg", ".png")


def menu(root):
    """(section, its pages)."""
    sections, seen = [], set()
    with open(os.path.join(HERE, "pages.txt")) as file:
        for line in file:
            name = line.strip()
            if not name or name.startswith("#"):
                continue
            if not line.startswith(" "):
                sections.append((name, []))
                continue
            found = sorted(os.path.relpath(path, root) for path in glob.glob(os.path.join(root, name))) if "*" in name else [name]
            sections[-1][1].extend(page for page in found if "*" not in name or page not in seen)
            seen.update(found)
    return sections


def title(root, page):
    """The first heading: pages begin with it."""
    for _, line in links.prose(root, page):
        if line.startswith("# "):
            return re.sub(r"[`*]", "", line[2:].strip())
    return page


def local(page, target):
    """The file of the tree that a link leads to; None: it leads elsewhere."""
    if re.match(r"\w+:", target):
        return None
    path = target.partition("#")[0]
    return os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page


def with_links(page, text, included):
    """The page's text; links to what is not part of the site become their text."""
    def link(found):
        to = local(page, found[2])
        if to is None or to in included or to.endswith(IMAGES):
            return found[0]
        if os.path.join(to, "README.md") in included:
            return f"[{found[1]}]({found[2].rstrip('/')}/README.md)"
        return found[1]
    return re.sub(r"(?<!!)\[([^\]\[]*)\]\(([^)\s]+)\)", link, text)


def stage(root, folder, included):
    """Copies the pages, and the images that they show, into a folder."""
    for page in included:
        with open(os.path.join(root, page)) as file:
            text = with_links(page, file.read(), included)
        os.makedirs(os.path.join(folder, os.path.dirname(page)), exist_ok=True)
        with open(os.path.join(folder, page), "w") as file:
            file.write(text)
        for target in links.LINK.findall(text):
            path = local(page, target)
            if path and path.endswith(IMAGES):
                os.makedirs(os.path.join(folder, os.path.dirname(path)), exist_ok=True)
                shutil.copy(os.path.join(root, path), os.path.join(folder, path))


def build(root, out):
    from mkdocs import config
    from mkdocs.commands import build as mkdocs

    sections = menu(root)
    with tempfile.TemporaryDirectory() as folder:
        pages, settings = os.path.join(folder, "pages"), os.path.join(folder, "mkdocs.yml")
        stage(root, pages, [page for _, some in sections for page in some])
        with open(settings, "w") as file:
            file.write("site_name: uroce\n")  # all else is here, as the slugs are a function
        mkdocs.build(config.load_config(
            settings, docs_dir=pages, site_dir=os.path.abspath(out), strict=True, theme={"name": "mkdocs", "highlightjs": False},
            use_directory_urls=False, plugins=["search"],
            markdown_extensions=["tables", "fenced_code", "sane_lists", {"toc": {"slugify": lambda text, _: links.slug(text)}}],
            nav=[{name: [{title(root, page): page} for page in some]} for name, some in sections]))


def check(root):
    listed = [page for _, pages in menu(root) for page in pages]
    there = [file for file in links.tree(root) if file.endswith(".md") and not file.startswith(LEFT_OUT)]
    rules = (("every page is in the menu", [page for page in there if page not in listed]),
             ("no page is there twice", sorted({page for page in listed if listed.count(page) > 1})),
             ("every page of the menu exists", [page for page in listed if not os.path.exists(os.path.join(root, page))]))
    print(f"1..{len(rules)}")
    for number, (name, wrong) in enumerate(rules, 1):
        print(f"{'not ok' if wrong else 'ok'} {number} - {name}")
        for page in wrong:
            print("# " + page)
    return 1 if any(wrong for _, wrong in rules) else 0


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    root = os.path.abspath(sys.argv[1])
    if sys.argv[2] == "--check":
        return check(root)
    build(root, sys.argv[2])
    return 0


if __name__ == "__main__":
    sys.exit(main())
