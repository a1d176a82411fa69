#include "number.h"

#include <math.h>
#include <stdio.h>

#define DECIMALS_MOST 9

const char *number_text(double value, int digits, char text[NUMBER_TEXT])
{
    const double size = fabs(value);
    int decimals = size > 0 ? digits - 1 - (int)floor(log10(size)) : 0;
    if (decimals > 0 && size * pow(10, decimals) >= pow(10, digits) - 0.5) {
        decimals--; /* 9.996 is 10.0 in three digits */
    }
    decimals = decimals < 0 ? 0 : decimals > DECIMALS_MOST ? DECIMALS_MOST : decimals;
    snprintf(text, NUMBER_TEXT, "%.*f", decimals, value);
    return text;
}
