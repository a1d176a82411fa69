/* A lesson as it is told: paragraphs, formulas, tables, one conclusion, what its picture shows; kept as text for
 * the terminal and as HTML, and the figures that the claims rest on, by name, so that tests can hold them against
 * theory; and all of it once more for --json. Filled by the lessons, shown by cmd_lesson.c and course.c. */
#ifndef CLATTN_TOOLS_LESSON_PAGE_H
#define CLATTN_TOOLS_LESSON_PAGE_H

#include <cjson/cJSON.h>

#include "../insides.h"

#define PAGE_COLUMNS_MAX 10
#define PAGE_ROWS_MAX 48
#define PAGE_CELL_MAX 48
#define PAGE_FIGURES_MAX 160

struct page_figure {
    char name[48];
    double value;
};

struct page {
    struct text terminal, html;
    cJSON *document;   /* title, paragraphs, formulas, tables, conclusion, picture, figures; see page_take_document */
    int columns, rows; /* of the table that is being made */
    char cells[PAGE_ROWS_MAX][PAGE_COLUMNS_MAX][PAGE_CELL_MAX];
    struct page_figure figures[PAGE_FIGURES_MAX];
    int n_figures;
    char table_caption[160], picture_caption[480];
};

void page_begin(struct page *page, const char *title);
void page_free(struct page *page);

/* The finished page as a JSON object, which is the caller's. */
cJSON *page_take_document(struct page *page);

/* Wrapped at the terminal's 78 columns. */
void page_paragraph(struct page *page, const char *format, ...) CLATTN_PRINTF(2, 3);
void page_conclusion(struct page *page, const char *format, ...) CLATTN_PRINTF(2, 3);

/* A formula on a line of its own: as text for the terminal, as MathML (mathml.h) for the page. */
void page_formula(struct page *page, const char *text, const char *mathml);

/* What the lesson's picture shows, for the line below it. */
void page_picture(struct page *page, const char *format, ...) CLATTN_PRINTF(2, 3);

/* What the next table shows: its title for the eye, its name for a screen reader. */
void page_table_caption(struct page *page, const char *format, ...) CLATTN_PRINTF(2, 3);

/* A table: the first row is the header. Cells are separated by '|' in the formatted text. */
void page_row(struct page *page, const char *format, ...) CLATTN_PRINTF(2, 3);
void page_table_end(struct page *page);

/* Text as HTML has it, within quotes too. */
void page_append_escaped(struct text *html, const char *text);

void page_figure(struct page *page, double value, const char *format, ...) CLATTN_PRINTF(3, 4);
/* NaN when there is none of that name. */
double page_figure_value(const struct page *page, const char *name);

#endif
