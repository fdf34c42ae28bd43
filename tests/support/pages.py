"""Reading HTML in tests: whether it is sound, what it says, and that it holds no code."""

import re
from html.parser import HTMLParser


class PageParser(HTMLParser):
    """Tags in balance, the words, and the tags there are."""

    VOID = {"meta", "link", "br"}

    def __init__(self, text):
        super().__init__()
        self.open, self.words, self.tags, self.faults = [], [], [], []
        self.attributes = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(tag)

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self):
        return re.sub(r"\s+", " ", " ".join(self.words))


def read_page(page):
    """The words of a page that is sound, fetches nothing and holds no code."""
    found = PageParser(page)
    assert not found.faults
    assert not found.open
    assert not {"script", "img", "iframe", "object", "form", "base"} & set(found.tags)
    names = {name for name, _ in found.attributes}
    assert not {n for n in names if n.startswith("on")}
    assert not names & {"src", "srcset", "action"}
    assert not re.search(r"https?:|url\(|@import", page)
    assert [value for name, value in found.attributes if name == "href"] == ["data:,"]
    return found.text
