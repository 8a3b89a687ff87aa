"""What mkdocs does not do by itself: the site has whatever a page of docs/ links to.

Pages link as a code host shows them, so also to ``../README.md``, to
``../examples/policies/``, and to folders without an index. Such files come into the site,
the README as its first page, and a folder gets a page that lists it.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(?<=\]\()[^)\s#:]+(?=[)#])")


def place(path: str) -> str:
    """Give the place in the site of a file or folder of the tree."""
    if (ROOT / path).is_dir():
        path = f"{path}/index.md"
    return "index.md" if path == "README.md" else path.removeprefix("docs/")


def leads_to(path: str, link: str) -> str:
    """Give the path in the tree that a link of a page means."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), link))


def targets(path: str) -> list[str]:
    """List what a page of the tree links to, by paths in the tree."""
    if not path.endswith(".md"):
        return []
    links = LINK.findall((ROOT / path).read_text("utf-8"))
    return [leads_to(path, to) for to in links]


def listing(folder: str) -> str:
    """Write the page of a folder: its files, by their first heading or their name."""
    lines = [f"# {folder.removeprefix('docs/')}", ""]
    for file in sorted((ROOT / folder).iterdir()):
        title = file.name
        if file.suffix == ".md":
            title = file.read_text("utf-8").partition("\n")[0].removeprefix("# ")
        lines.append(f"- [{title}]({file.name})")
    return "\n".join(lines)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what pages link to, and what those link to."""
    seen: set[str] = set()
    ahead = ["README.md", *(f"docs/{file.src_uri}" for file in files)]
    while ahead:
        path = ahead.pop()
        if path in seen or not (ROOT / path).exists():
            continue
        seen.add(path)
        ahead += targets(path)
        where = place(path)
        if (ROOT / path).is_dir():
            ahead += [f"{path}/{file.name}" for file in (ROOT / path).iterdir()]
            files.append(File.generated(config, where, content=listing(path)))
        elif files.get_file_from_path(where) is None:
            files.append(File.generated(config, where, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Turn links between files of the tree into links between places in the site."""
    where = page.file.src_uri
    path = f"docs/{where}"
    if not (ROOT / path).is_file():
        path = "README.md" if where == "index.md" else where
    if not (ROOT / path).is_file():
        return markdown  # the list of a folder

    def moved(link: re.Match[str]) -> str:
        to = leads_to(path, link[0])
        if not (ROOT / to).exists():
            return link[0]
        return posixpath.relpath(place(to), posixpath.dirname(where) or ".")

    return LINK.sub(moved, markdown)
