/* train_start.h - what musec train prints before its first step: the run, its time and memory, and
 * warnings about them. */
#ifndef MS_CLI_TRAIN_START_H
#define MS_CLI_TRAIN_START_H

#include "core/log.h"
#include "train/train.h"

/* Makes the directory of a run that was given none: runs/PRESET-OPTIMIZER-lrLR-sSEED, or the first
 * of NAME-2, NAME-3, ... that does not exist.  As mkdir decides that, two processes never get the
 * same one. */
musec_status ms_run_directory(ms_error *e, const ms_train_config *cfg, char out[MS_PATH_MAX]);

/* Estimates the floating-point operations of the steps from `first` to before `end`: of the model,
 * of the optimizer's products and of validations. */
double ms_train_work(const ms_train_config *cfg, const ms_schedule *s, int64_t first, int64_t end);

/* Prints some lines about the run, and warnings.  Returns about how many seconds it will take; NaN:
 * not known, or not measured for a quiet log. */
double ms_train_start_say(ms_log *log, const ms_train_start *s, const char *out);

/* Writes a number such as "1,234,567". */
void ms_count_text(int64_t n, char *text, size_t bytes);
/* Writes a size such as "92 MiB" or "21.3 GiB". */
void ms_bytes_text(uint64_t n, char *text, size_t bytes);

/* Each writes a warning where it applies, else "". */
void ms_warn_memory(const ms_train_start *s, char *text, size_t bytes);
void ms_warn_time(const ms_train_start *s, double seconds, char *text, size_t bytes);
void ms_warn_epochs(const ms_train_start *s, size_t set, char *text, size_t bytes);

#endif
