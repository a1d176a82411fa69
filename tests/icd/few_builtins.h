/* Built-in functions for the programs of PoCL 3, which reads clang's whole header of them for each program, in 0.1 s;
 * that is a third of what it takes for a kernel that it does not optimise. The machine code is the same to the byte. */
#ifndef CLATTN_TESTS_ICD_FEW_BUILTINS_H
#define CLATTN_TESTS_ICD_FEW_BUILTINS_H

/* With these the header is left out, and what few_builtins_before put in its place counts. */
#define FEW_BUILTINS_OPTIONS " -D _OPENCL_H_ -D FEW_BUILTINS"

/* The source behind declarations of the functions that it names, which only the options let count. The caller frees it.
 * NULL: out of memory, or the header was not there when this was built. */
char *few_builtins_before(const char *source);

/* Where the source of that begins; of another text, which has no such declarations, NULL. */
const char *few_builtins_behind(const char *text);

#endif
