/* workspace.c - the workspace of a step: how much is at work at a time follows from its limit.
 *
 * A group is worked through in chunks that fit.  Where the directions of all its matrices fit
 * beside a chunk, they are averaged on predictions (scale_prediction.c); that saves a pass over the
 * gradients.  Where whole groups that are fusible fit, one call of the operator takes them.  All of
 * it follows from the parameters and the config: every step takes the same path.
 *
 * Steps that report need more (`reports` below), and the limit holds for them too: what fits is
 * chosen by their needs.  A context that keeps its workspace takes that much at its first step, so
 * that no later one fails.  What the caller's allocator lends is other work's between the steps,
 * and a step that reports nothing takes less of it. */
#include "linalg/soft_engine.h"
#include "optim/optim.h"

enum { BUSY = 8 }; /* matrices: a grouped product of fewer may leave a large GPU idle */

/* Clipping by polynomials: the matrix in its operands, what the stages work on, and the Gram
 * matrix unless B is written by cached norms (soft_engine.c).  Reductions take the Gram matrix in
 * any case, and the matrix once more (soft_reduction.c). */
static uint64_t soft_bytes(const musec_optim_config *cfg, uint64_t n, uint64_t r, uint64_t accum,
                           uint64_t each, bool cached)
{
    ms_poly_plan   plan;
    int            stages       = 2;
    const bool     reduces      = cfg->ns_mode == MUSEC_NS_ACCURATE && each == 2;
    const uint64_t more_vectors = reduces ? 128 * MS_ARENA_ALIGN : 0;
    if (cfg->ns_mode == MUSEC_NS_ACCURATE) stages = 3; /* or four; two where the tol is loose */
    if (cfg->ns_mode == MUSEC_NS_PAPER) {
        ms_plan_newton_schulz(cfg->ns_iters, &plan);
        stages = cfg->literal ? 1 : plan.n_stages;
    }
    return more_vectors +
           each * ((reduces ? 2 : 1) * n * r + (uint64_t)ms_soft_mats(stages) * r * r) +
           (cached && !reduces ? 0 : accum * r * r);
}

/* The direction and the update come on top; the arena rounds each piece up. */
uint64_t ms_spectral_bytes(const musec_optim_config *cfg, const ms_group *g, bool cached)
{
    const uint64_t r     = (uint64_t)(g->rows < g->cols ? g->rows : g->cols),
                   n     = (uint64_t)(g->rows < g->cols ? g->cols : g->rows);
    const uint64_t accum = ms_dtype_bytes(g->dtype), each = ms_dtype_bytes(g->operands),
                   vectors    = (uint64_t)(128 + 3 * cfg->ns_iters) * MS_ARENA_ALIGN;
    const bool short_operands = ms_is_16bit(g->operands), exact = cfg->ns_mode == MUSEC_NS_EXACT;
    const bool by_products = ms_spectral_clips(g->spectral_fn) && !exact;
    /* the matrix, float64 copies, the decompositions and their workspace (gesdd: about 5 r^2 + the
     * copy) */
    const uint64_t spectrum = accum * n * r + 8 * (4 * n * r + 14 * r * r + 64 * n);
    if (g->spectral_fn == MS_SPECTRAL_NONE) return 0;
    if (g->spectral_fn == MS_SPECTRAL_POLAR && !exact) {
        const ms_quintic_list list = ms_optim_quintics(cfg);
        const int run = ms_newton_schulz_fused(&list, g->operands, (int64_t)r, (int64_t)n);
        return vectors + each * (2 * n * r + (uint64_t)(run + 1) * r * r);
    }
    if (!by_products) return vectors + spectrum;
    return vectors + soft_bytes(cfg, n, r, accum, each, cached) +
           (cfg->ns_mode == MUSEC_NS_ACCURATE && !short_operands ? spectrum : 0);
}

/* Are there weights in halves that coupled decay reads in float32? */
static bool has_halves(const musec_optim *opt, const ms_group *g)
{
    bool any = false;
    for (int64_t m = 0; opt->cfg.decay_form == MUSEC_DECAY_COUPLED && m < g->count; m++)
        any = any || ms_member_param(opt, g, m)->weight.dtype == MUSEC_BF16;
    return any;
}

/* Bytes of the float32 copies that a product of 16-bit operands takes where the device widens them:
 * of X and of what it is multiplied by, in Muon of their product too; or of two factors, their
 * product, and, where plans differ from matrix to matrix, of what is added to it. */
uint64_t ms_widening_bytes(const musec_optim *opt, const ms_group *g)
{
    const uint64_t r     = (uint64_t)(g->rows < g->cols ? g->rows : g->cols),
                   n     = (uint64_t)(g->rows < g->cols ? g->cols : g->rows);
    const bool     polar = g->spectral_fn == MS_SPECTRAL_POLAR;
    const uint64_t apply = (polar ? 2 : 1) * n * r + r * r;
    const uint64_t small = (opt->cfg.ns_mode == MUSEC_NS_ACCURATE ? 4 : 3) * r * r;
    if (!opt->d->kind->widens || !ms_is_16bit(g->operands)) return 0;
    return sizeof(float) * (apply > small ? apply : small);
}

/* Does the device compute products on matrices of a group with epilogue and mask in one pass? */
static bool fuses_epilogues(const musec_optim *opt, const ms_group *g)
{
    const int64_t aligned = 8; /* elements: TMA takes 16 bytes */
    return opt->d->fuses_epilogues && ms_is_16bit(g->operands) && g->rows % aligned == 0 &&
           g->cols % aligned == 0;
}

/* Bytes of what the last product of a clip that a deferred step stores writes before its mask. */
static uint64_t masked_product_bytes(const musec_optim *opt, const ms_group *g)
{
    if (!opt->deferred || !ms_group_stores_clipped(opt, g) || fuses_epilogues(opt, g)) return 0;
    return (uint64_t)(g->rows * g->cols) * ms_dtype_bytes(g->dtype) + MS_ARENA_ALIGN;
}

/* Bytes of each matrix that the base optimizer needs for its direction. */
static uint64_t base_bytes(const musec_optim *opt, const ms_group *g)
{
    const ms_mat whole = { .rows = g->rows, .cols = g->cols, .dtype = g->dtype };
    return g->base->workspace == NULL ? 0 : g->base->workspace(ms_group_config(opt, g), whole);
}

/* Bytes of each matrix in a chunk: direction, update, look-ahead (Nesterov), the widened momentum
 * where it is stored in bf16, and the operator's workspace.  Where averaging rounds the direction
 * to 16 bits, that is the operator's input, and a clip that is stored goes into the state; Muon
 * needs neither a direction in float32 then nor a look-ahead of its own.  But a device whose
 * products have no fused epilogue needs a matrix in float32 and one more for its passes. */
static uint64_t matrix_bytes(const musec_optim *opt, const ms_group *g, bool reports)
{
    const uint64_t size = (uint64_t)(g->rows * g->cols), wide = ms_dtype_bytes(g->dtype);
    const uint64_t r     = (uint64_t)(g->rows < g->cols ? g->rows : g->cols);
    const uint64_t one   = size * wide + MS_ARENA_ALIGN;
    const uint64_t ahead = opt->cfg.nesterov ? 1 : 0;
    const uint64_t widened =
        (ms_state_dtype(opt, g) != g->dtype ? 1 : 0) + (has_halves(opt, g) ? 1 : 0);
    const bool cached =
        ms_group_caches_gram_norms(opt, g) && !opt->cfg.nesterov; /* to look ahead */
    const uint64_t each     = ms_dtype_bytes(g->operands),
                   spectral = ms_spectral_bytes(&opt->cfg, g, cached);
    const uint64_t lean     = (reports ? 1 : 0) + ahead;
    const uint64_t behind   = ms_second_bytes(opt, g) + ms_ball_bytes(opt, g) + base_bytes(opt, g);
    const uint64_t product  = masked_product_bytes(opt, g) + behind;
    const uint64_t passes =
        fuses_epilogues(opt, g) ? 0 : (wide + each) * r * r + 2 * MS_ARENA_ALIGN;
    if (ms_group_predicts(opt, g)) return spectral + lean * one + passes + product;
    if (g->spectral_fn == MS_SPECTRAL_POLAR && ms_group_fuses_rounding(opt, g)) {
        const uint64_t result = ms_dtype_bytes(ms_update_dtype(opt, g));
        return spectral + size * (each + result) + 2 * MS_ARENA_ALIGN + widened * one + passes +
               behind;
    }
    return spectral + (2 + ahead + widened) * one + (ms_is_16bit(g->operands) ? passes : 0) +
           product;
}

/* Bytes of the numbers of all matrices (check_gradients.c) and of rates on the device (update.c) */
static uint64_t numbers_bytes(const musec_optim *opt)
{
    const uint64_t decision = opt->deferred ? 7 : 0; /* defer.c, scale_prediction.c */
    return ((7 + decision) * (uint64_t)opt->host->capacity + MS_STEP_NUMBERS +
            decision * opt->n_params) *
           sizeof(double);
}

/* Bytes needed once: a gradient and a weight whose rows are gathered, small vectors, copies of
 * operands, and, where steps are measured, a spectrum in float64, of a matrix that may have to be
 * widened first. */
static uint64_t once_bytes(const musec_optim *opt, const ms_group *g, bool reports)
{
    const uint64_t size  = (uint64_t)(g->rows * g->cols);
    const uint64_t small = (uint64_t)(g->rows < g->cols ? g->rows : g->cols);
    const uint64_t parts = 2 * (size * ms_dtype_bytes(g->dtype) + MS_ARENA_ALIGN);
    uint64_t       bytes =
        parts + (uint64_t)32 * MS_ARENA_ALIGN + numbers_bytes(opt) + ms_widening_bytes(opt, g);
    if (reports && !g->aux)
        bytes +=
            4 * size + 8 * (3 * size + 12 * small * small + 64 * (uint64_t)(g->rows + g->cols));
    return bytes;
}

static bool may_report(const musec_optim *opt) { return opt->cfg.report_every > 0; }

static uint64_t workspace_cap(const musec_optim *opt)
{
    return opt->cfg.workspace > 0 ? opt->cfg.workspace : opt->d->workspace;
}

/* Bytes of one 16-bit direction that is averaged on a prediction. */
static uint64_t scaled_bytes(const ms_group *g)
{
    return (uint64_t)(g->rows * g->cols) * ms_dtype_bytes(g->operands);
}

/* Bytes of a matrix in a chunk, without a direction that prediction_bytes counts. */
static uint64_t chunk_matrix_bytes(const musec_optim *opt, const ms_group *g, bool reports)
{
    return matrix_bytes(opt, g, reports) - (g->predictions_fit ? scaled_bytes(g) : 0);
}

static uint64_t chunk_bytes(const musec_optim *opt, const ms_group *g, bool reports)
{
    return chunk_matrix_bytes(opt, g, reports) * (uint64_t)g->chunk;
}

/* Bytes behind the groups, where what the step moved is read or scaled as a whole: a matrix in
 * float32 for a weight in halves. */
static uint64_t behind_bytes(const musec_optim *opt)
{
    uint64_t max = 0;
    for (size_t i = 0; i < opt->n_params; i++) {
        const ms_mat   w    = opt->params[i].weight;
        const uint64_t size = (uint64_t)(w.rows * w.cols) * ms_dtype_bytes(MUSEC_F32);
        if (w.dtype == MUSEC_BF16 && size > max) max = size;
    }
    if (max == 0 || (opt->cfg.avg_steps == 0 && !opt->row->qk_clip)) return 0;
    return max + 2 * MS_ARENA_ALIGN + numbers_bytes(opt);
}

/* The most bytes that any group needs, alone or fused, with what is needed once. */
static uint64_t max_bytes(const musec_optim *opt, bool fused, bool reports)
{
    uint64_t max = 0;
    for (size_t i = 0; i < opt->n_groups; i++) {
        const ms_group *g     = &opt->groups[i];
        uint64_t        bytes = chunk_bytes(opt, g, reports);
        uint64_t        once  = once_bytes(opt, g, reports);
        for (size_t k = 0; fused && ms_group_is_whole(g) && k < opt->n_groups; k++) {
            const ms_group *other = &opt->groups[k];
            if (k == i || !ms_groups_fusible(opt, g, other) || !ms_group_is_whole(other)) continue;
            bytes += chunk_bytes(opt, other, reports);
            if (once_bytes(opt, other, reports) > once) once = once_bytes(opt, other, reports);
        }
        if (bytes + once > max) max = bytes + once;
    }
    return max > behind_bytes(opt) ? max : behind_bytes(opt);
}

/* Bytes of all directions that are averaged on predictions, before any group is stepped. */
static uint64_t prediction_bytes(const musec_optim *opt)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < opt->n_groups; i++) {
        const ms_group *g = &opt->groups[i];
        if (g->predictions_fit)
            bytes += (uint64_t)g->count * (scaled_bytes(g) + 2 * MS_ARENA_ALIGN);
    }
    return bytes;
}

/* How many matrices of a group fit beside the predictions of all. */
static int64_t matrices_that_fit(const musec_optim *opt, const ms_group *g)
{
    const bool     reports = may_report(opt);
    const uint64_t cap = workspace_cap(opt), each = chunk_matrix_bytes(opt, g, reports);
    const uint64_t taken = once_bytes(opt, g, reports) + prediction_bytes(opt);
    const uint64_t fits  = cap > taken ? (cap - taken) / each : 0;
    return fits > (uint64_t)g->count ? g->count : (int64_t)fits;
}

/* Do the predictions leave every group enough matrices at a time to keep a device busy? */
static bool predictions_leave_enough(const musec_optim *opt)
{
    for (size_t i = 0; i < opt->n_groups; i++) {
        const ms_group *g = &opt->groups[i];
        if (matrices_that_fit(opt, g) < (g->count < BUSY ? g->count : BUSY)) return false;
    }
    return behind_bytes(opt) + prediction_bytes(opt) <= workspace_cap(opt);
}

void ms_choose_chunks(musec_optim *opt)
{
    for (size_t i = 0; i < opt->n_groups; i++) {
        ms_group *g        = &opt->groups[i];
        g->predictions_fit = ms_group_predicts(opt, g);
        if (g->predictions_fit) g->predictions_fit = predictions_leave_enough(opt);
    }
    for (size_t i = 0; i < opt->n_groups; i++) {
        ms_group     *g    = &opt->groups[i];
        const int64_t fits = matrices_that_fit(opt, g);
        g->chunk           = fits < 1 ? 1 : fits;
    }
    opt->fusion_fits =
        max_bytes(opt, true, may_report(opt)) + prediction_bytes(opt) <= workspace_cap(opt);
}

static uint64_t step_bytes(const musec_optim *opt, bool reports)
{
    return max_bytes(opt, opt->fusion_fits, reports) + prediction_bytes(opt);
}

/* Bytes of the gradients of a chunk, divided by the scale that they carry (momentum.c). */
static uint64_t rescaled_bytes(const musec_optim *opt)
{
    uint64_t max = 0;
    for (size_t i = 0; i < opt->n_groups; i++) {
        const ms_group *g = &opt->groups[i];
        const uint64_t  bytes =
            (uint64_t)(g->chunk * g->rows * g->cols) * ms_dtype_bytes(g->dtype) + MS_ARENA_ALIGN;
        if (bytes > max) max = bytes;
    }
    return max;
}

musec_status ms_reserve_workspace(ms_step *s)
{
    musec_optim   *opt     = s->opt;
    const bool     rescale = opt->deferred && s->args.grad_scale != NULL;
    const bool     lent    = opt->d->allocator.alloc != NULL;
    const bool     reports = lent ? s->report : may_report(opt);
    const uint64_t bytes   = step_bytes(opt, reports) + (rescale ? rescaled_bytes(opt) : 0);
    const ms_mark  mark    = ms_arena_mark(&opt->d->scratch);
    void          *whole;
    musec_status   st = MUSEC_OK;
    TRY(ms_scratch_bytes(opt->d, bytes / MS_ARENA_ALIGN * MS_ARENA_ALIGN, &whole));
done:
    ms_arena_reset(&opt->d->scratch, mark);
    return st;
}

musec_status musec_optim_workspace(musec_optim *opt, uint64_t *workspace, uint64_t *state)
{
    uint64_t     bytes = 0;
    musec_status st    = MUSEC_OK;
    if (opt == NULL) return MUSEC_EINVAL;
    const ms_caller caller = ms_device_enter(opt->d);
    TRY(ms_optim_prepare(opt));
    for (size_t i = 0; i < opt->n_groups; i++) {
        const ms_group *g = &opt->groups[i];
        for (int s = 0; g->states[s] != NULL; s++)
            bytes += (uint64_t)(g->n_slots * g->state[s].rows * g->state[s].cols) *
                     ms_dtype_bytes(g->state[s].dtype);
    }
    for (size_t i = 0; i < opt->n_params; i++) {
        const ms_mat m = opt->params[i].average;
        if (m.data != NULL)
            bytes += (uint64_t)(m.count * m.rows * m.cols) * ms_dtype_bytes(m.dtype);
        bytes += ms_rest_bytes(&opt->params[i]);
    }
    if (workspace != NULL) *workspace = step_bytes(opt, may_report(opt));
    if (state != NULL) *state = bytes;
done:
    ms_device_leave(caller);
    return st;
}
