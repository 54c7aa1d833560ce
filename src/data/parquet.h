/* parquet.h - Parquet files made JSON lines, by a program of the user's: duckdb, or python3 with
 * pyarrow (scripts/parquet_to_jsonl). */
#ifndef MS_DATA_PARQUET_H
#define MS_DATA_PARQUET_H

#include <stdbool.h>

#include "core/status.h"

/* Is there a program for it?  A failure says what to install. */
musec_status ms_parquet_check(ms_error *e);

/* Does it begin like one?  Then a failure to read it is not for the server to mend. */
bool ms_parquet_is(const char *path);
/* Writes a line {"field": "..."} for each row of the column `field`; whole or absent. */
musec_status ms_parquet_to_jsonl(ms_error *e, const char *in, const char *field, const char *out);

#endif
