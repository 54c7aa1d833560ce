/* state.h - the state of an optimizer as a list of tensors, for the files that save and load it.
 *
 * In the file the state of matrix m of parameter p is the tensor "p/m/NAME" (rows x cols), epoch
 * averages are "p/average", and weights of 16 bits "p/master", in float32; the metadata hold the
 * rule, the momentum form and its beta, the steps taken, for each parameter the steps it took part
 * in, and, for a run to go on with the same bits, bounds that scales of 16 bits come from and the
 * quantiles that are thresholds; files without these are read too.  Heavy-ball momentum is that of
 * the average divided by beta; momentum in bf16 is written as float32 and rounded to nearest when
 * it is read.  A file knows no ranks: it has whole tensors. */
#ifndef MS_OPTIM_STATE_H
#define MS_OPTIM_STATE_H

#include "optim/optim.h"

#define MS_STATE_FORMAT "musec-optim-1"
#define MS_STEPS_OF     "steps of " /* keys of the metadata, with a name behind */
#define MS_BOUND_OF     "bound of "
#define MS_QUANTILE_OF  "quantile of "

enum { MS_STATE_KEY = 512 }; /* bytes of a key or a name */

typedef struct ms_state_item {
    char     name[MS_STATE_KEY];
    ms_mat   whole; /* the shape and dtype of the tensor; no data */
    ms_mat   where; /* what is here of it; no data: nothing, or it is a weight of 16 bits */
    ms_share share;
    bool     momentum; /* in the units of the momentum form */
    void    *host;     /* what was read, malloc'ed */
    /* a weight of 16 bits, in float32 */
    const ms_param *weight;
} ms_state_item;

typedef struct ms_state_items {
    ms_state_item *list;
    size_t         n;
} ms_state_items;

/* All tensors of the state, on whatever rank they are. */
musec_status ms_state_list(musec_optim *opt, ms_state_items *all);
void         ms_state_free(ms_state_items *all);
/* State in bf16 is handed out and written as the float32 numbers that it stands for. */
musec_dtype ms_state_file_dtype(ms_mat x);

typedef char ms_member_name[MS_STATE_KEY - 16];
void         ms_name_member(const musec_optim *opt, const ms_member *m, ms_member_name name);

#endif
