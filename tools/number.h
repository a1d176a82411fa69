/* Numbers as people read them: so many digits that count, and never an exponent. */
#ifndef CLATTN_TOOLS_NUMBER_H
#define CLATTN_TOOLS_NUMBER_H

#define NUMBER_TEXT 64

/* A finite number rounded to `digits` digits behind its zeros, such as 0.00123 or 1.50; a larger one, such as 17920,
 * keeps all digits before the point. Returns `text`. */
const char *number_text(double value, int digits, char text[NUMBER_TEXT]);

#endif
