/* embedded.h - files of the source tree that the program carries with it (cmake/embed.cmake). */
#ifndef MS_CORE_EMBEDDED_H
#define MS_CORE_EMBEDDED_H

#include <stddef.h>

typedef struct ms_embedded_file {
    const char          *name;
    const unsigned char *bytes; /* and a NUL */
    size_t               n;
} ms_embedded_file;

extern const unsigned char    ms_embedded_sources[]; /* data/sources.json */
extern const size_t           ms_embedded_sources_bytes;
extern const unsigned char    ms_embedded_parquet[]; /* scripts/parquet_to_jsonl, ends with a NUL */
extern const size_t           ms_embedded_parquet_bytes;
extern const unsigned char    ms_embedded_page_css[]; /* src/report/page.css */
extern const size_t           ms_embedded_page_css_bytes;
extern const unsigned char    ms_embedded_page_js[]; /* src/report/page.js */
extern const size_t           ms_embedded_page_js_bytes;
extern const unsigned char    ms_embedded_watch_page[]; /* src/report/watch.html */
extern const size_t           ms_embedded_watch_page_bytes;
extern const unsigned char    ms_embedded_hf_configuration[]; /* src/train/hf/, the .py files */
extern const size_t           ms_embedded_hf_configuration_bytes;
extern const unsigned char    ms_embedded_hf_modeling[];
extern const size_t           ms_embedded_hf_modeling_bytes;
extern const ms_embedded_file ms_embedded_experiments[]; /* experiments/NAME.json; NULL ends */

#endif
