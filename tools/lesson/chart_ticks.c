/* Ticks: at round numbers, at powers of ten, which have raised exponents. */
#include "chart_ticks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One, two or five times a power of ten: 0.02, 500, or with a raised exponent. */
static void label_power(double part, int exponent, char *label, size_t size)
{
    static const char *const raised[10] = { "\u2070", "\u00b9", "\u00b2", "\u00b3", "\u2074",
                                            "\u2075", "\u2076", "\u2077", "\u2078", "\u2079" };
    const int digits = abs(exponent);
    if (exponent >= -2 && exponent <= 4) {
        snprintf(label, size, "%g", part * pow(10, exponent));
    } else {
        snprintf(label, size, "%.0g%s10%s%s%s", part, "\u00b7", exponent < 0 ? "\u207b" : "",
                 digits >= 10 ? raised[digits / 10 % 10] : "", raised[digits % 10]);
        if (part == 1) {
            memmove(label, label + 3, strlen(label + 3) + 1); /* without the factor and its sign */
        }
    }
}

static int make_log_ticks(double low, double high, struct tick *ticks)
{
    int count = 0;
    const int first = (int)ceil(low - 1e-9), last = (int)floor(high + 1e-9);
    const int step = (last - first) / 8 + 1;
    const int dense = last - first < 2;
    static const double parts[3] = { 1, 2, 5 };
    for (int decade = dense ? first - 1 : first; decade <= last && count < TICKS_MAX - 3; decade += step) {
        for (int i = 0; i < (dense ? 3 : 1); ++i) {
            const double at = decade + log10(parts[i]);
            if (at >= low - 1e-9 && at <= high + 1e-9) {
                ticks[count].at = at;
                label_power(parts[i], decade, ticks[count].label, sizeof(ticks[count].label));
                ++count;
            }
        }
    }
    return count;
}

static int make_linear_ticks(double low, double high, struct tick *ticks)
{
    const double rough = (high - low) / 5, power = pow(10, floor(log10(rough)));
    const double step = power * (rough / power < 1.5 ? 1 : rough / power < 3.5 ? 2 : rough / power < 7.5 ? 5 : 10);
    const double first = ceil(low / step - 1e-9);
    int count = 0;
    while (count < TICKS_MAX && (first + count) * step <= high + step * 1e-9) {
        const double at = (first + count) * step;
        ticks[count].at = fabs(at) < step * 1e-6 ? 0 : at;
        snprintf(ticks[count].label, sizeof(ticks[count].label), "%g", ticks[count].at);
        ++count;
    }
    return count;
}

int chart_ticks(enum chart_axis axis, double low, double high, struct tick ticks[TICKS_MAX])
{
    return axis == AXIS_LOG ? make_log_ticks(low, high, ticks) : make_linear_ticks(low, high, ticks);
}
