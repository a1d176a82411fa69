#include "course.h"

/* A picture on a narrow screen stays so wide for each panel beside another, and is scrolled: else it is too small to
 * read. No more than these fit the text on a wide one. */
#define COLUMN_REM 17
#define COLUMNS_SHOWN 3

static const char style[] =
    ":root{color-scheme:light dark;--paper:#fff;--ink:#222;--soft:#555;--line:#ddd;--mark:#24508c}"
    "@media(prefers-color-scheme:dark){:root{--paper:#15181c;--ink:#dfe3e8;--soft:#a0a8b2;--line:#3a414a;--mark:#"
    "7db7f5}}"
    "body{font:17px/1.55 Georgia,serif;max-width:52rem;margin:2em auto;padding:0 1em;color:var(--ink);"
    "background:var(--paper);overflow-wrap:break-word}"
    "a{color:var(--mark)}h1,h2{font-family:Helvetica,Arial,sans-serif;line-height:1.2}h2{margin-top:2.5em}"
    /* a shade at the side where a table goes on: the paper that hides it scrolls with the table, the shade does not */
    ".wide{overflow-x:auto;background:linear-gradient(to right,var(--paper) 40%,transparent) 0 0/3em 100% local,"
    "linear-gradient(to left,var(--paper) 40%,transparent) 100% 0/3em 100% local,"
    "linear-gradient(to right,var(--line),transparent) 0 0/1em 100% scroll,"
    "linear-gradient(to left,var(--line),transparent) 100% 0/1em 100% scroll;background-repeat:no-repeat}"
    "table{border-collapse:collapse;font:14px/1.5 Helvetica,Arial,sans-serif;margin:1em 0}"
    "caption{text-align:left;max-width:86vw;position:sticky;left:0;color:var(--soft);padding:.3em 0}"
    "td,th{padding:.15em .8em;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}"
    /* the first column stays where a table goes on */
    "th:first-child{text-align:left;position:sticky;left:0;background:var(--paper)}"
    "tr:first-child th{border-bottom:2px solid var(--soft);white-space:normal}"
    /* the padding: what scrolls sideways cuts off exponents that rise above the line */
    "math{font-size:1.15em;margin:.6em 0;padding:.5em 0;overflow-x:auto}"
    "figure{margin:1.5em 0}img{max-width:100%;background:#fff;border-radius:4px}"
    "figcaption,.note{color:var(--soft);font-size:15px}"
    ".conclusion{border-left:4px solid var(--mark);padding-left:1em;font-weight:bold}";

void course_begin(struct text *html, const char *device, uint64_t seed)
{
    text_append(html,
                "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" "
                "content=\"width=device-width, initial-scale=1\">\n<title>Attention, by experiment</title>\n"
                "<style>%s</style></head><body>\n<h1>Attention, by experiment</h1>\n<p>A short course: what attention "
                "is, why it divides by a square root, what goes wrong without, what masks do, what it costs, and what "
                "it replaced. Each lesson measures, and draws one conclusion from what it measured.</p>\n",
                style);
    text_append(html, "<p class=\"note\">Every number on this page was measured by clattn %s on an OpenCL device (",
                clattn_version());
    page_append_escaped(html, device);
    text_append(
        html, "), by the command <code>clattn lesson --all --seed %llu</code>. Times are of that machine.</p>\n<ol>\n",
        (unsigned long long)seed);
    for (size_t i = 0; i < lesson_count; ++i) {
        text_append(html, "<li><a href=\"#%s\">%s</a></li>\n", lessons[i].name, lessons[i].title);
    }
    text_append(html, "</ol>\n");
}

int course_add(struct text *html, const struct lesson *lesson, const struct page *page, const struct chart *chart,
               struct failure *failure)
{
    const int columns = chart->columns < COLUMNS_SHOWN ? chart->columns : COLUMNS_SHOWN;
    text_append(html, "<section id=\"%s\">\n%s<figure><div class=\"wide\"><img style=\"min-width:%drem\" alt=\"",
                lesson->name, page->html.data, columns * COLUMN_REM);
    page_append_escaped(html, chart->title);
    text_append(html, ": ");
    page_append_escaped(html, page->picture_caption);
    text_append(html, "\" src=\"");
    const int result = chart_data_uri(chart, html, failure);
    text_append(html, "\"></div>\n<figcaption aria-hidden=\"true\">");
    page_append_escaped(html, page->picture_caption);
    text_append(html, "</figcaption></figure>\n</section>\n");
    return result;
}

void course_end(struct text *html)
{
    text_append(html, "</body></html>\n");
}
