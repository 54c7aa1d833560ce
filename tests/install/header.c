/* header.c - the public header alone, compiled as C99, C11, C17 and C++17. */
#include <musec/musec.h>

int main(void) { return MUSEC_OK; }
