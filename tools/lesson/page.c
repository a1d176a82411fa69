#include "page.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../labels.h"

#define WIDTH 78
#define LINE_MAX_BYTES 2048

void page_begin(struct page *page, const char *title)
{
    memset(page, 0, sizeof(*page));
    text_append(&page->terminal, "%s\n\n", title);
    text_append(&page->html, "<h2>%s</h2>\n", title);
    page->document = cJSON_CreateObject();
    cJSON_AddStringToObject(page->document, "title", title);
    cJSON_AddArrayToObject(page->document, "paragraphs");
    cJSON_AddArrayToObject(page->document, "formulas");
    cJSON_AddArrayToObject(page->document, "tables");
}

cJSON *page_take_document(struct page *page)
{
    cJSON *document = page->document, *figures = cJSON_AddObjectToObject(document, "figures");
    cJSON_AddStringToObject(document, "picture", page->picture_caption);
    for (int i = 0; i < page->n_figures; ++i) {
        cJSON_AddNumberToObject(figures, page->figures[i].name, page->figures[i].value);
    }
    page->document = NULL;
    return document;
}

/* To one of the document's arrays. */
static void add_to(struct page *page, const char *array, cJSON *item)
{
    cJSON *to = cJSON_GetObjectItemCaseSensitive(page->document, array);
    if (!to || !cJSON_AddItemToArray(to, item)) {
        cJSON_Delete(item);
        page->terminal.failed = 1;
    }
}

void page_free(struct page *page)
{
    text_free(&page->terminal);
    text_free(&page->html);
    cJSON_Delete(page->document);
    page->document = NULL;
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

/* Bytes of the exponent behind a ^: a sign, letters and digits, a point between them. */
static size_t exponent_length(const char *text)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    const size_t sign = *text == '-' || *text == '+';
    size_t length = sign + strspn(text + sign, letters);
    if (length > sign && text[length] == '.') {
        const size_t part = strspn(text + length + 1, letters);
        length += part ? 1 + part : 0;
    }
    return length > sign ? length : 0;
}

/* Escaped, and with exponents raised: "e^88.7" as a superscript. */
static void append_prose(struct text *html, const char *text)
{
    for (const char *power; (power = strchr(text, '^')) != NULL;) {
        const size_t length = exponent_length(power + 1);
        char part[LINE_MAX_BYTES];
        snprintf(part, sizeof(part), "%.*s", (int)(power - text) + !length, text);
        page_append_escaped(html, part);
        if (length) {
            text_append(html, "<sup>%.*s</sup>", (int)length, power + 1);
        }
        text = power + 1 + length;
    }
    page_append_escaped(html, text);
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

static void append_paragraph(struct page *page, int is_conclusion, const char *format, va_list arguments)
{
    char line[LINE_MAX_BYTES];
    vsnprintf(line, sizeof(line), format, arguments);
    if (is_conclusion) {
        cJSON_AddStringToObject(page->document, "conclusion", line);
    } else {
        add_to(page, "paragraphs", cJSON_CreateString(line));
    }
    append_wrapped(&page->terminal, line);
    text_append(&page->terminal, "\n");
    text_append(&page->html, "<p%s>", is_conclusion ? " class=\"conclusion\"" : "");
    append_prose(&page->html, line);
    text_append(&page->html, "</p>\n");
}

void page_paragraph(struct page *page, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    append_paragraph(page, 0, format, arguments);
    va_end(arguments);
}

void page_conclusion(struct page *page, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    append_paragraph(page, 1, format, arguments);
    va_end(arguments);
}

void page_formula(struct page *page, const char *text, const char *mathml)
{
    text_append(&page->terminal, "    %s\n\n", text);
    add_to(page, "formulas", cJSON_CreateString(text));
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

/* { "caption": "...", "rows": [ [ "cell", ... ], ... ] }, of which the first row is the header. */
static void add_table(struct page *page)
{
    cJSON *table = cJSON_CreateObject(), *rows = NULL;
    cJSON_AddStringToObject(table, "caption", page->table_caption);
    rows = cJSON_AddArrayToObject(table, "rows");
    for (int row = 0; row < page->rows; ++row) {
        cJSON *cells = cJSON_CreateArray();
        for (int column = 0; column < page->columns; ++column) {
            cJSON_AddItemToArray(cells, cJSON_CreateString(page->cells[row][column]));
        }
        cJSON_AddItemToArray(rows, cells);
    }
    add_to(page, "tables", table);
}

void page_table_end(struct page *page)
{
    append_table_text(page);
    add_table(page);
    text_append(&page->html, "<div class=\"wide\"><table>\n");
    if (page->table_caption[0]) {
        text_append(&page->html, "<caption>");
        append_prose(&page->html, page->table_caption);
        text_append(&page->html, "</caption>\n");
    }
    for (int row = 0; row < page->rows; ++row) {
        text_append(&page->html, "<tr>");
        for (int column = 0; column < page->columns; ++column) {
            const char *tag = row == 0 || column == 0 ? "th" : "td";
            text_append(&page->html, "<%s>", tag);
            append_prose(&page->html, page->cells[row][column]);
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
