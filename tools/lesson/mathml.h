/* MathML by macros, for the lessons' formulas: string literals that the compiler joins. */
#ifndef CLATTN_TOOLS_LESSON_MATHML_H
#define CLATTN_TOOLS_LESSON_MATHML_H

#define MI(name) "<mi>" name "</mi>"
#define MN(number) "<mn>" number "</mn>"
#define MO(sign) "<mo>" sign "</mo>"
#define FUNCTION(name) MI(name) MO("&#x2061;")
/* A function before what is not in parentheses: browsers leave no space there. */
#define FUNCTION_OF(name) FUNCTION(name) "<mspace width=\".2em\"/>"
#define GROUP(inner) "<mrow>" inner "</mrow>"
#define SUB(base, index) "<msub>" GROUP(base) GROUP(index) "</msub>"
#define POWER(base, exponent) "<msup>" GROUP(base) GROUP(exponent) "</msup>"
#define OVER(above, below) "<mfrac>" GROUP(above) GROUP(below) "</mfrac>"
/* Not msqrt: where no font with a MATH table is installed, Chromium draws nothing of its sign. */
#define BARRED(inner) "<mrow style=\"border-top:.07em solid\">" inner "</mrow>"
#define ROOT(inner) GROUP("<mo form=\"prefix\" stretchy=\"false\">&#x221a;</mo>" BARRED(inner))
#define SUM(below) "<munder><mo>&#x2211;</mo>" GROUP(below) "</munder>"
#define PAREN(inner) GROUP(MO("(") inner MO(")"))
#define TRANSPOSED(name) POWER(MI(name), MI("T"))

#endif
