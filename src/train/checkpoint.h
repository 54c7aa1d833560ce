/* checkpoint.h - the state of a run in a directory: whole or absent, and checked when read.
 *
 * DIR/checkpoint/step_00000060/ holds model.safetensors, optim.safetensors and state.json.  It is
 * written as DIR/checkpoint/.step_00000060.part.PID, fsynced and renamed.  state.json is
 *   {"state": {...}, "files": {"model.safetensors": {"bytes": n, "sha256": "..."}, ...},
 *    "sha256": "..."}
 * with the sha256 of the other two and, at the end, of all its own bytes before that, so that a
 * flipped bit anywhere is found. */
#ifndef MS_TRAIN_CHECKPOINT_H
#define MS_TRAIN_CHECKPOINT_H

#include <jansson.h>

#include "core/file.h"
#include "core/status.h"

/* The writers of the two tensor files, given their final path; `arg` is theirs. */
typedef struct ms_checkpoint_writer {
    musec_status (*model)(ms_error *e, void *arg, const char *path);
    musec_status (*optim)(ms_error *e, void *arg, const char *path);
    void *arg;
} ms_checkpoint_writer;

/* state: the run's own object ("step", which must be `step`; position, losses, config).  A
 * checkpoint of that step is replaced.  Afterwards all but the newest `keep` up to this step are
 * removed (0: none is).  On failure nothing is left and the old ones are as they were; only if an
 * old one cannot be removed, the new one stands nevertheless. */
musec_status ms_checkpoint_write(ms_error *e, const char *dir, int64_t step,
                                 const ms_checkpoint_writer *writer, const json_t *state,
                                 int64_t keep);

typedef struct ms_checkpoint {
    char    dir[MS_PATH_MAX]; /* of the checkpoint itself */
    int64_t step;
    json_t *state;
} ms_checkpoint;

/* The checkpoint in `dir`, checked against its sums; a mismatch names the file. */
musec_status ms_checkpoint_open(ms_error *e, const char *dir, ms_checkpoint *out);
/* The newest of a run directory.  One that is damaged is passed over for an older one and named in
 * `warning` (1024 bytes; "" if none was).  None there: MUSEC_OK and step -1.  All damaged, or one
 * that is there and cannot be read (MUSEC_EIO): an error that names it. */
musec_status ms_checkpoint_newest(ms_error *e, const char *run_dir, ms_checkpoint *out,
                                  char *warning);
/* What a user means: the checkpoint `path`, or of the run directory `path` the newest or that of
 * `step` (-1: the newest).  None there is an error.  warning: as of ms_checkpoint_newest. */
musec_status ms_checkpoint_find(ms_error *e, const char *path, int64_t step, ms_checkpoint *out,
                                char *warning);
void         ms_checkpoint_close(ms_checkpoint *c);
/* The run goes on from `step`: what is there of later ones was found damaged.  They are renamed to
 * step_XXXXXXXX.damaged, for a person to look at, and count no more. */
musec_status ms_checkpoint_quarantine(ms_error *e, const char *run_dir, int64_t step);

#endif
