#include "page.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../utf8.h"

#define WIDTH 78
#define LINE_MAX_BYTES 2048

void page_begin(struct page *page, const char *title)
{
    memset(page, 0, sizeof(*page));
    text_append(&page->terminal, "%s\n\n", title);
    text_append(&page->html, "<h2>%s</h2>\n", title);
}

void page_free(struct page *page)
{
    text_free(&page->terminal);
    text_free(&page->html);
}

void page_append_escaped(struct text *html, const char *text)
{
    for (; *text; ++text) {
        const char *escaped = *text == '<'   ? "&lt;"
                              : *text == '>' ? "&gt;"
                              : *text == '&' ? "&amp;"
                              : *text == '"' ? "&quot;"
                                             : NULL;
        if (escaped) {
            text_append(html, "%s", escaped);
        } else {
            text_append(html, "%c", *text);
        }
    }
}

static void append_wrapped(struct text *terminal, const char *text)
{
    int column = 0;
    while (*text) {
        const int length = (int)strcspn(text, " ");
        char word[256];
        snprintf(word, sizeof(word), "%.*s", length, text);
        const int width = utf8_columns(word);
        if (column > 0 && column + 1 + width > WIDTH) {
            text_append(terminal, "\n");
            column = 0;
        }
        text_append(terminal, "%s%s", column ? " " : "", word);
        column += (column > 0) + width;
        text += length;
        text += strspn(text, " ");
    }
    text_append(terminal, "\n");
}

static void append_paragraph(struct page *page, const char *html_class, const char *format, va_list arguments)
{
    char line[LINE_MAX_BYTES];
    vsnprintf(line, sizeof(line), format, arguments);
    append_wrapped(&page->terminal, line);
    text_append(&page->terminal, "\n");
    text_append(&page->html, "<p%s>", html_class);
    page_append_escaped(&page->html, line);
    text_append(&page->html, "</p>\n");
}

void page_paragraph(struct page *page, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    append_paragraph(page, "", format, arguments);
    va_end(arguments);
}

void page_conclusion(struct page *page, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    append_paragraph(page, " class=\"conclusion\"", format, arguments);
    va_end(arguments);
}

void page_formula(struct page *page, const char *text, const char *mathml)
{
    text_append(&page->terminal, "    %s\n\n", text);
    text_append(&page->html, "<math display=\"block\">%s</math>\n", mathml);
}

void page_picture(struct page *page, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(page->picture_caption, sizeof(page->picture_caption), format, arguments);
    va_end(arguments);
}

void page_table_caption(struct page *page, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(page->table_caption, sizeof(page->table_caption), format, arguments);
    va_end(arguments);
}

void page_row(struct page *page, const char *format, ...)
{
    char line[LINE_MAX_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    if (page->rows == PAGE_ROWS_MAX) {
        page->terminal.failed = 1;
        return;
    }
    int column = 0;
    for (const char *from = line; column < PAGE_COLUMNS_MAX; ++column) {
        const size_t length = strcspn(from, "|");
        snprintf(page->cells[page->rows][column], PAGE_CELL_MAX, "%.*s", (int)length, from);
        from += length;
        if (*from++ != '|') {
            ++column;
            break;
        }
    }
    page->columns = column > page->columns ? column : page->columns;
    ++page->rows;
}

static void append_table_text(struct page *page)
{
    int widths[PAGE_COLUMNS_MAX] = { 0 };
    if (page->table_caption[0]) {
        append_wrapped(&page->terminal, page->table_caption);
        text_append(&page->terminal, "\n");
    }
    for (int row = 0; row < page->rows; ++row) {
        for (int column = 0; column < page->columns; ++column) {
            const int width = utf8_columns(page->cells[row][column]);
            widths[column] = width > widths[column] ? width : widths[column];
        }
    }
    for (int row = 0; row < page->rows; ++row) {
        int rule = 0;
        for (int column = 0; column < page->columns; ++column) {
            const char *cell = page->cells[row][column];
            const int room = widths[column] - utf8_columns(cell);
            text_append(&page->terminal, "  %*s%s%*s", column ? room : 0, "", cell, column ? 0 : room, "");
            rule += widths[column] + 2;
        }
        text_append(&page->terminal, "\n");
        for (int i = 0; row == 0 && i < rule; ++i) {
            text_append(&page->terminal, "%s", i < 2 ? " " : "-");
        }
        text_append(&page->terminal, "%s", row == 0 ? "\n" : "");
    }
    text_append(&page->terminal, "\n");
}

void page_table_end(struct page *page)
{
    append_table_text(page);
    text_append(&page->html, "<div class=\"wide\"><table>\n");
    if (page->table_caption[0]) {
        text_append(&page->html, "<caption>");
        page_append_escaped(&page->html, page->table_caption);
        text_append(&page->html, "</caption>\n");
    }
    for (int row = 0; row < page->rows; ++row) {
        text_append(&page->html, "<tr>");
        for (int column = 0; column < page->columns; ++column) {
            const char *tag = row == 0 || column == 0 ? "th" : "td";
            text_append(&page->html, "<%s>", tag);
            page_append_escaped(&page->html, page->cells[row][column]);
            text_append(&page->html, "</%s>", tag);
        }
        text_append(&page->html, "</tr>\n");
    }
    text_append(&page->html, "</table></div>\n");
    page->table_caption[0] = 0;
    memset(page->cells, 0, sizeof(page->cells));
    page->rows = page->columns = 0;
}

void page_figure(struct page *page, double value, const char *format, ...)
{
    if (page->n_figures < PAGE_FIGURES_MAX) {
        struct page_figure *figure = &page->figures[page->n_figures++];
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(figure->name, sizeof(figure->name), format, arguments);
        va_end(arguments);
        figure->value = value;
    }
}

double page_figure_value(const struct page *page, const char *name)
{
    for (int i = 0; i < page->n_figures; ++i) {
        if (strcmp(page->figures[i].name, name) == 0) {
            return page->figures[i].value;
        }
    }
    return NAN;
}
