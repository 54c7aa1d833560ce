/* checkpoint.h - the state of a run as a directory that is whole or absent, and checked when read.
 *
 * DIR/checkpoint/step_00000060/ holds model.safetensors, optim.safetensors and state.json.  It is
 * written as DIR/checkpoint/.step_00000060.part.PID, fsynced and renamed.  state.json is
 *   {"state": {...}, "files": {"model.safetensors": {"bytes": n, "sha256": "..."}, ...},
 *    "sha256": "..."}
 * with the sha256 of the other files and, at the end, of its own bytes before that, so that a
 * flipped bit anywhere is found. */
#ifndef MS_TRAIN_CHECKPOINT_H
#define MS_TRAIN_CHECKPOINT_H

#include <jansson.h>

#include "core/file.h"
#include "core/status.h"

typedef struct ms_checkpoint {
    char    dir[MS_PATH_MAX]; /* the checkpoint's own directory */
    int64_t step;
    json_t *state;
} ms_checkpoint;

/* Checks that a run can go on from the contents of a checkpoint. */
typedef musec_status ms_checkpoint_check(ms_error *e, const ms_checkpoint *c);

/* Callbacks that write the two tensor files to a given path. */
typedef struct ms_checkpoint_writer {
    musec_status (*model)(ms_error *e, void *arg, const char *path);
    musec_status (*optim)(ms_error *e, void *arg, const char *path);
    void                *arg;
    ms_checkpoint_check *check; /* NULL, or: the checkpoint gets its name only if it is well */
} ms_checkpoint_writer;

/* Writes a checkpoint, and replaces one of the same step.  `state` is the run's own object, with
 * "step" equal to `step`.  Then all but the newest `keep` checkpoints up to this step are removed
 * (0: none).  A failure leaves everything as it was, except that the new checkpoint stays if only
 * an old one cannot be removed. */
musec_status ms_checkpoint_write(ms_error *e, const char *dir, int64_t step,
                                 const ms_checkpoint_writer *writer, const json_t *state,
                                 int64_t keep);

/* Opens the checkpoint in `dir` and checks its checksums; an error names the file. */
musec_status ms_checkpoint_open(ms_error *e, const char *dir, ms_checkpoint *out);
/* Opens the newest checkpoint of a run directory; step -1 if there is none.  Damaged ones, and what
 * `check` refuses (NULL: nothing), are skipped and named in `warning` (1024 bytes; "" if there are
 * none).  It is an error if all are damaged, or if one exists and cannot be read (MUSEC_EIO). */
musec_status ms_checkpoint_newest(ms_error *e, const char *run_dir, ms_checkpoint_check *check,
                                  ms_checkpoint *out, char *warning);
/* Opens what a user means by `path`: a checkpoint, or the checkpoint of `step` (-1: the newest) of
 * a run directory.  It is an error if there is none.  `warning` is that of ms_checkpoint_newest. */
musec_status ms_checkpoint_find(ms_error *e, const char *path, int64_t step, ms_checkpoint *out,
                                char *warning);
void         ms_checkpoint_close(ms_checkpoint *c);
/* Renames the checkpoints after `step`, which were found damaged, to step_XXXXXXXX.damaged. */
musec_status ms_checkpoint_quarantine(ms_error *e, const char *run_dir, int64_t step);

#endif
