/* graph.c - repeats a deferred step as one graph of the device.
 *
 * The host takes longer to queue the many small kernels of a step than the device to compute them.
 * A deferred step waits for nothing, so its queue can be recorded once and launched as a whole from
 * then on.  What is recorded has addresses and numbers in it: where workspace, weights and
 * gradients lie, and what the step is told.  They are the key of a graph.  A step whose key is that
 * of a graph launches it, one whose key comes again and again is recorded, and any other is queued
 * as usual.  All three have the same bits.
 *
 * Learning rates and weight decays may change at every step, so they are not in the key but on the
 * device, where they are written before the graph is launched.  (Where the caller has a rate there
 * already, the graph reads that.)
 *
 * Several graphs are kept, since a framework may put gradients in several places by turns.  Where
 * it hardly ever puts them in the same place, recording would cost more than it saves: it is paid
 * for by launches. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "optim/optim.h"

enum {
    GRAPHS    = 4, /* the one that was not used for longest makes room for another */
    OF_STEP   = 8, /* words of a key, at most, */
    OF_PARAM  = 8, /* and for each parameter */
    SIGHTINGS = 2, /* of a key before it is recorded */
    FREE      = 4, /* recordings, and one more for so many launches */
    LAUNCHES  = 4,
};

typedef struct entry {
    uint64_t *key;
    void     *graph; /* NULL: the key was seen */
    uint64_t  seen;  /* so often */
    uint64_t  last;  /* the step that had this key */
} entry;

struct ms_step_graphs {
    entry     entries[GRAPHS];
    uint64_t *keys; /* the memory of all keys */
    uint64_t *key;  /* of the present step */
    size_t    key_words;
    uint64_t  n_steps;
    int64_t   n_matrices;
    ms_vec    rates; /* sizes, then decays, of the matrices of all groups in their order */
    double   *rates_host;
    uint64_t  n_launched, n_recorded;
    bool      is_off; /* recording has failed */
};

/* ---- memory ---------------------------------------------------------------------------------- */

void ms_step_graphs_free(musec_optim *opt)
{
    struct ms_step_graphs *all = opt->graphs;
    if (all == NULL) return;
    for (int i = 0; i < GRAPHS; i++)
        if (all->entries[i].graph != NULL) opt->d->kind->free_graph(opt->d, all->entries[i].graph);
    opt->d->ops->free(opt->d, all->rates.data);
    free(all->keys);
    free(all->rates_host);
    free(all);
    opt->graphs = NULL;
}

static musec_status take_graphs(musec_optim *opt)
{
    struct ms_step_graphs *all = opt->graphs = calloc(1, sizeof *opt->graphs);
    void                  *rates             = NULL;
    musec_status           st                = MUSEC_OK;
    if (all == NULL) return ms_fail(&opt->d->error, MUSEC_ENOMEM, "no memory for graphs of steps");
    for (size_t i = 0; i < opt->n_groups; i++)
        all->n_matrices += opt->groups[i].count;
    all->key_words  = OF_STEP + OF_PARAM * opt->n_params;
    all->keys       = calloc((GRAPHS + 1) * all->key_words, sizeof *all->keys);
    all->rates_host = calloc((size_t)all->n_matrices + 1, 2 * sizeof *all->rates_host);
    if (all->keys == NULL || all->rates_host == NULL)
        TRY(ms_fail(&opt->d->error, MUSEC_ENOMEM, "no memory for graphs of steps"));
    for (int i = 0; i < GRAPHS; i++)
        all->entries[i].key = all->keys + (size_t)i * all->key_words;
    all->key = all->keys + GRAPHS * all->key_words;
    TRY(opt->d->ops->alloc(opt->d, 2 * (size_t)(all->n_matrices + 1) * sizeof(double), &rates));
    all->rates = (ms_vec){ rates, 2 * all->n_matrices };
done:
    if (st != MUSEC_OK) ms_step_graphs_free(opt);
    return st;
}

uint64_t ms_step_graphs_launched(const musec_optim *opt)
{
    return opt->graphs != NULL ? opt->graphs->n_launched : 0;
}

/* ---- keys ------------------------------------------------------------------------------------ */

static uint64_t word_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static uint64_t address(const void *p) { return (uint64_t)(uintptr_t)p; }

/* Writes the key of the present step. */
static void write_key(const ms_step *s)
{
    const musec_optim *opt = s->opt;
    uint64_t          *key = opt->graphs->key, *at = key;
    *at++ = address(opt->d->scratch.chunk[0].base);
    *at++ = opt->d->scratch.chunk[0].used;
    *at++ = opt->d->deterministic;
    *at++ = word_of(opt->cfg.beta);
    *at++ = word_of(s->args.lr_at != NULL ? s->args.lr_scale : 0.0);
    *at++ = address(s->args.grad_scale);
    *at++ = address(s->args.found_inf);
    assert(at <= key + OF_STEP);
    for (size_t i = 0; i < opt->n_params; i++) {
        const ms_param *p  = &opt->params[i];
        const float    *lr = ms_step_lr_at(s, i);
        at                 = key + OF_STEP + OF_PARAM * i;
        *at++              = address(s->grads[i].data);
        *at++              = (uint64_t)s->grads[i].dtype;
        *at++              = address(p->weight.data);
        *at++              = address(p->copy.data);
        *at++              = word_of(s->args.beta != NULL ? s->args.beta[i] : MUSEC_UNSET);
        *at++              = address(lr);
        *at++              = word_of(lr != NULL ? ms_step_decay(s, i) : 0.0);
        assert(at <= key + OF_STEP + OF_PARAM * (i + 1));
    }
}

/* The entry of the key, or NULL. */
static entry *find_entry(struct ms_step_graphs *all)
{
    for (int i = 0; i < GRAPHS; i++) {
        entry *e = &all->entries[i];
        if (e->last > 0 && memcmp(e->key, all->key, all->key_words * sizeof *all->key) == 0)
            return e;
    }
    return NULL;
}

/* Notes a key that is new, in the place of the one that was not used for longest. */
static void note_key(musec_optim *opt)
{
    struct ms_step_graphs *all    = opt->graphs;
    entry                 *oldest = &all->entries[0];
    for (int i = 1; i < GRAPHS; i++)
        if (all->entries[i].last < oldest->last) oldest = &all->entries[i];
    if (oldest->graph != NULL) opt->d->kind->free_graph(opt->d, oldest->graph);
    oldest->graph = NULL;
    oldest->seen  = 1;
    oldest->last  = all->n_steps;
    memcpy(oldest->key, all->key, all->key_words * sizeof *all->key);
}

/* ---- rates ----------------------------------------------------------------------------------- */

/* Computes the rates of all matrices.  false: some rate is 0, or sizes are divided by norms, which
 * has other bits where sizes are on the device; such steps are not repeated. */
static bool compute_rates(const ms_step *s)
{
    const musec_optim *opt  = s->opt;
    double            *size = opt->graphs->rates_host, *decay = size + opt->graphs->n_matrices;
    if (opt->cfg.shape_rule == MUSEC_SHAPE_FIXED_RMS) return false;
    for (size_t i = 0; i < opt->n_groups; i++)
        for (int64_t m = 0; m < opt->groups[i].count; m++, size++, decay++) {
            ms_rates_of(s, &opt->groups[i], m, size, decay);
            if (*size == 0.0) return false;
        }
    return true;
}

static musec_status send_rates(ms_step *s)
{
    struct ms_step_graphs *all = s->opt->graphs;
    const int64_t          n   = all->n_matrices;
    s->sizes                   = ms_vec_slice(all->rates, 0, n);
    s->decays                  = ms_vec_slice(all->rates, n, n);
    return ms_scalar_step_rates(s->opt->d,
                                (ms_step_rates_nums){ .lr     = ms_const(1.0),
                                                      .size   = ms_host(all->rates_host),
                                                      .after  = ms_const(0.0),
                                                      .decay0 = ms_host(all->rates_host + n),
                                                      .decay1 = ms_const(0.0),
                                                      .decay2 = ms_const(0.0) },
                                (ms_step_rates_vecs){ .size = s->sizes, .decay = s->decays });
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* The entry of this step, whose graph is launched, or recorded before; NULL: it is queued. */
static musec_status choose(ms_step *s, bool steady, entry **out)
{
    musec_optim          *opt  = s->opt;
    const ms_device_kind *kind = opt->d->kind;
    musec_status          st   = MUSEC_OK;
    *out                       = NULL;
    if (!steady || kind->can_record == NULL || !kind->can_record(opt->d)) return MUSEC_OK;
    if (opt->graphs == NULL) TRY(take_graphs(opt));
    struct ms_step_graphs *all = opt->graphs;
    if (all->is_off || opt->d->scratch.n_chunks != 1 || !compute_rates(s)) return MUSEC_OK;
    all->n_steps++;
    write_key(s);
    entry *e = find_entry(all);
    if (e == NULL) {
        note_key(opt);
        return MUSEC_OK;
    }
    const bool pays = all->n_recorded < FREE + all->n_launched / LAUNCHES;
    e->last         = all->n_steps;
    if (e->graph != NULL || (e->seen++ >= SIGHTINGS && pays)) *out = e;
done:
    return st;
}

/* Records a step that is queued.  If that fails, no step is repeated any more. */
static musec_status record(ms_step *s, entry *e)
{
    ms_device    *d    = s->opt->d;
    const ms_mark mark = ms_arena_mark(&d->scratch);
    musec_status  st   = d->kind->record(d);
    s->opt->graphs->n_recorded++;
    if (st == MUSEC_OK) {
        const musec_status queued = ms_queue_step(s), ended = d->kind->record_end(d, &e->graph);
        st = queued != MUSEC_OK ? queued : ended;
    }
    ms_arena_reset(&d->scratch, mark);
    if (st != MUSEC_OK) s->opt->graphs->is_off = true;
    return st;
}

musec_status ms_repeat_step(ms_step *s, bool steady, bool *done)
{
    musec_optim *opt = s->opt;
    entry       *e   = NULL;
    musec_status st  = MUSEC_OK;
    *done            = false;
    TRY(choose(s, steady, &e));
    if (e == NULL) goto done;
    TRY(send_rates(s));
    if (e->graph != NULL) {
        ms_count_step(s);
    } else if (record(s, e) != MUSEC_OK) {
        s->sizes = s->decays = (ms_vec){ 0 };
        st = ms_poll_live(opt); /* the host may have counted a step that was not taken */
        goto done;
    }
    TRY(opt->d->kind->launch_graph(opt->d, e->graph));
    opt->graphs->n_launched++;
    *done = true;
done:
    return st;
}
