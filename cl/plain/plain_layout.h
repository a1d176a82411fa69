/* What a work-item of plain computes; C and OpenCL C both include this. */
#ifndef CLATTN_PLAIN_LAYOUT_H
#define CLATTN_PLAIN_LAYOUT_H

#define PLAIN_COLUMNS 16 /* output columns of one row */

#endif
