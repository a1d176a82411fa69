/* No pictures, for builds without cairo. */
#include "lesson/chart.h"
#include "plot.h"

static int none(const char *path, struct failure *failure)
{
    return failure_misuse(failure, "--plot %s: pictures need cairo, which this clattn was built without", path);
}

int plot_is_built(void)
{
    return 0;
}

int plot_check_name(const char *path, struct failure *failure)
{
    return none(path, failure);
}

int plot(const struct heat *heat, const char *title, const char *path, struct failure *failure)
{
    (void)heat;
    (void)title;
    return none(path, failure);
}

int chart_write(const struct chart *chart, const char *path, struct output *output, struct failure *failure)
{
    (void)chart;
    (void)output;
    return none(path, failure);
}

int chart_data_uri(const struct chart *chart, struct text *html, struct failure *failure)
{
    (void)html;
    return none(chart->title, failure);
}
