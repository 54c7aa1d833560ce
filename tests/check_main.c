/* check_main.c - the main() of every test program that has none of its own. */
#include "check.h"

int main(void) { return check_main(); }
