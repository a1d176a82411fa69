/* Numbers with decimals as text: by a point, whatever the locale. printf's own take the locale's, so that a message
 * would say "scale 0,5", which nobody may give back. */
#ifndef CLATTN_SRC_DECIMAL_H
#define CLATTN_SRC_DECIMAL_H

#define DECIMAL_BYTES 384 /* of the largest double, without an exponent, with up to 64 decimals */

/* `digits`: behind the point, as printf's f, or in all, as its g. Returns `text`. */
const char *decimal_fixed(char text[DECIMAL_BYTES], int digits, double value);
const char *decimal_short(char text[DECIMAL_BYTES], int digits, double value);

/* Into room of the enclosing block: for arguments of text_append and error_set. */
#define DECIMAL_FIXED(digits, value) decimal_fixed((char[DECIMAL_BYTES]){ 0 }, digits, value)
#define DECIMAL_SHORT(digits, value) decimal_short((char[DECIMAL_BYTES]){ 0 }, digits, value)
#define DECIMAL(value) DECIMAL_SHORT(6, value) /* as g */

#endif
