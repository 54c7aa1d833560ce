/* parquet.h - conversion of Parquet files to JSON lines by an installed program: duckdb, or python3
 * with pyarrow (scripts/parquet_to_jsonl). */
#ifndef MS_DATA_PARQUET_H
#define MS_DATA_PARQUET_H

#include <stdbool.h>

#include "core/status.h"

/* Looks for such a program; the message of a failure tells what to install. */
musec_status ms_parquet_check(ms_error *e);

/* Returns true if the file begins like a Parquet file; then fetching it again would not help. */
bool ms_parquet_is(const char *path);
/* Writes a line {"field": "..."} for each row of the column `field`; whole or absent. */
musec_status ms_parquet_to_jsonl(ms_error *e, const char *in, const char *field, const char *out);

#endif
