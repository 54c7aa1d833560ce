/* demo_page.h - a page with every kind of block and of panel, made of formulas. */
#ifndef MS_TESTS_DEMO_PAGE_H
#define MS_TESTS_DEMO_PAGE_H

#include "report/page.h"

void demo_page_make(ms_page *page);

#endif
