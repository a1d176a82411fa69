"""What the site's search looks in: a place for each section of a page, with its words, as a script of data.

A page that is opened from disk may not read files, but may have a script: search-index.js, beside search.js, which
looks in it."""
import html
import json
import re


def words_of(markup):
    text = re.sub(r"<(script|noscript)\b.*?</\1>", " ", markup, flags=re.S)
    text = re.sub(r"</?(?:a|code|em|span|strong|sup|wbr)\b[^>]*>", "", text)  # within a word or beside it
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())


def places_of(page, title, body):
    """[title, section, address, words]: what stands before the first section, then each of them."""
    parts = re.split(r"(<h[1-3]\b[^>]*>.*?</h[1-3]>)", body, flags=re.S)
    places = [[title, "", page, words_of(parts[0])]]
    for heading, text in zip(parts[1::2], parts[2::2]):
        name = re.search(r'id="([^"]+)"', heading)
        if heading.startswith("<h1"):
            places[0][3] += " " + words_of(text)
        else:
            places.append([title, words_of(heading), page + ("#" + name.group(1) if name else ""), words_of(text)])
    return [place for place in places if place[1] or place[3]]


def index(places):
    return "window.places = " + json.dumps(places, ensure_ascii=False, separators=(",", ":")) + ";\n"
