/* device_ops_test.c - every case of every op, on every device.
 *
 * The cases are those of op_cases.h, which op_bench.c times in larger sizes.  Values are compared
 * with those of `ref` in float64 on the same inputs, within the bound that the op's row states.  An
 * op writes its outputs alone.  It gives the same bits again, whatever the number of threads and,
 * where the device promises it, however matrices are stacked.  It allocates nothing once warm.  Its
 * gradients, computed with the ops themselves, agree with finite differences.
 *
 * MUSEC_TEST_SEED draws other inputs and, with MUSEC_TEST_CASES, other cases (check.h). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "device/cpu/ref.h"
#include "op_cases.h"
#include "oracle.h"

static op_case *cases;
static size_t   n_cases;

static int make_cases(void **state)
{
    (void)state;
    cases = op_cases(&n_cases);
    for (size_t i = 0; i < n_cases; i++)
        cases[i].seed = check_seed();
    print_message("%zu cases\n", n_cases);
    return cases == NULL;
}

static int free_cases(void **state)
{
    (void)state;
    free(cases);
    return 0;
}

static const char *name_of(const op_case *c)
{
    static char text[160];
    op_case_name(c, text, sizeof text - 32);
    snprintf(text + strlen(text), 32, ", seed %llu", (unsigned long long)c->seed);
    return text;
}

/* Whether the case does not run.  Large cases on `ref` take long and compare it with itself; in 16
 * bits they show no more than that the bounds allow for the one rounding of the result. */
static bool is_left_out(const ms_device *dev, const op_case *c)
{
    const op_kind *kind  = op_kind_of(c->op);
    const double   flops = kind->flops == NULL ? 0.0 : kind->flops(c);
    if (!op_fits(dev, c) || !check_takes_number((uint64_t)(c - cases), check_seed())) return true;
    if (strcmp(dev->name, "ref") != 0) return false;
    return flops > 1e7 || (op_is_half(c->dtype) && c->m * c->n > 2000);
}

static bool has_buffer(const op_mat *o) { return !o->absent && o->like < 0; }

static size_t bytes_of(const op_mat *o) { return (size_t)o->elems * ms_dtype_bytes(o->mat.dtype); }

/* All buffers as bytes, to be compared bit for bit; the caller frees them. */
static unsigned char *download_all(op_args *a, size_t *bytes)
{
    unsigned char *all;
    *bytes = 0;
    for (int i = 0; i < a->n_vecs; i++)
        *bytes += (size_t)a->vec[i].vec.count * sizeof(double);
    for (int i = 0; i < a->n_mats; i++)
        *bytes += has_buffer(&a->mat[i]) ? bytes_of(&a->mat[i]) : 0;
    all       = check_alloc(*bytes);
    size_t at = 0;
    for (int i = 0; i < a->n_mats; i++) {
        if (!has_buffer(&a->mat[i])) continue;
        CHECK_OK(a->d, op_download(a, i, all + at));
        at += bytes_of(&a->mat[i]);
    }
    for (int i = 0; i < a->n_vecs; i++) {
        const size_t vec_bytes = (size_t)a->vec[i].vec.count * sizeof(double);
        CHECK_OK(a->d, a->d->ops->download(a->d, a->vec[i].vec.data, vec_bytes, all + at));
        at += vec_bytes;
    }
    return all;
}

/* ---- the table ------------------------------------------------------------------------------- */

TEST_EACH_DEVICE(every_op_is_implemented, dev)
{
    void (*row)(void);
    for (size_t i = 0; op_kind_at(i) != NULL; i++) {
        memcpy(&row, (const char *)dev->ops + op_kind_at(i)->row, sizeof row);
        CHECK(row != NULL, "%s has no %s", dev->name, op_kind_at(i)->name);
    }
}

TEST(every_op_has_cases)
{
    const size_t rows =
        (sizeof(ms_device_ops) - offsetof(ms_device_ops, alloc)) / sizeof(void (*)(void));
    size_t n_kinds = 0;
    for (const op_kind *kind; (kind = op_kind_at(n_kinds)) != NULL; n_kinds++) {
        size_t n = 0;
        for (size_t j = 0; j < n_cases; j++)
            n += strcmp(cases[j].op, kind->name) == 0;
        CHECK(n > 0, "no case for %s", kind->name);
        for (size_t j = 0; j < n_kinds; j++)
            CHECK(kind->row != op_kind_at(j)->row, "%s is there twice", kind->name);
    }
    CHECK(n_kinds == rows, "%zu rows, %zu of them have cases", rows, n_kinds);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Inputs are unchanged, and so is what lies between the elements of an output. */
static void check_untouched(const op_args *a, int i, void *got, const char *name)
{
    const op_mat *o     = &a->mat[i];
    const size_t  bytes = bytes_of(o), each = ms_dtype_bytes(o->mat.dtype);
    if (o->role != OP_IN) { /* put the elements back: the rest must be equal */
        const ms_mat now = op_host_view(a, i, got), was = op_host_view(a, i, o->image);
        for (int64_t b = 0; b < now.count; b++)
            for (int64_t r = 0; r < now.rows; r++)
                for (int64_t c = 0; c < now.cols; c++) {
                    const size_t at = (size_t)ms_mat_offset(now, b, r, c) * each;
                    memcpy((char *)now.data + at, (const char *)was.data + at, each);
                }
    }
    CHECK(memcmp(got, o->image, bytes) == 0, "%s: operand %d: %s", name, i,
          o->role == OP_IN ? "an input changed" : "something beside the matrix changed");
}

static void check_ids_untouched(const op_args *a, int i)
{
    const op_ids *o     = &a->ids[i];
    const size_t  bytes = (size_t)o->elems * sizeof *o->image;
    void         *got   = check_alloc(bytes);
    CHECK_OK(a->d, a->d->ops->download(a->d, o->buffer, bytes, got));
    CHECK(memcmp(got, o->image, bytes) == 0, "%s: ids %d changed", name_of(&a->c), i);
    free(got);
}

/* The largest difference from `ref` in float64 for an output of this dtype.  `size` is |op|, or the
 * bound itself (op_cases.h).  Below the smallest normal number 16 bits have an absolute error,
 * which the rest of an op may enlarge: 16 times is enough for all of them. */
static double allowed(const op_kind *kind, const op_case *c, musec_dtype dtype, double size)
{
    const double factor = kind->rounding(c), eps = ms_dtype_eps(dtype);
    if (kind->bounded) return size;
    double bound = factor * ms_dtype_eps(ms_dtype_accum(dtype)) * size;
    if (op_is_half(dtype))
        bound += (kind->stored > 0.0 ? kind->stored : 0.5) * eps * size +
                 16.0 * eps * ms_dtype_tiny(dtype);
    return bound;
}

/* Whether `got` is `want` rounded once, or rounded to float32 first, in which devices compute. */
static bool is_rounded(double got, double want, musec_dtype dtype)
{
    return got == op_rounded(want, dtype) ||
           (op_is_half(dtype) && got == op_rounded((double)(float)want, dtype));
}

static bool agrees(const op_args *a, double got, double want, musec_dtype dtype, double size)
{
    if (isnan(want)) return isnan(got);
    if (got == want) return true; /* infinities, too */
    if (!a->kind->bounded && a->kind->rounding(&a->c) == 0.0) return is_rounded(got, want, dtype);
    return fabs(got - want) <= allowed(a->kind, &a->c, dtype, size);
}

static void check_mat(const op_args *a, int i, ms_mat got, ms_mat want, ms_mat size)
{
    const bool spectrum = a->mat[a->n_mats - 1].basis; /* of size |X|_2 throughout */
    for (int64_t b = 0; b < got.count; b++) {
        double norm = 0.0;
        for (int64_t c = 0; spectrum && c < want.cols; c++)
            norm = fmax(norm, fabs(ms_at(want, b, 0, c)));
        for (int64_t r = 0; r < got.rows; r++)
            for (int64_t c = 0; c < got.cols; c++) {
                const double g = ms_at(got, b, r, c), w = ms_at(want, b, r, c);
                const double s = spectrum ? norm : fabs(ms_at(size, b, r, c));
                CHECK(agrees(a, g, w, got.dtype, s),
                      "%s: operand %d (%lld, %lld, %lld): %.17g, ref %.17g, allowed %g",
                      name_of(&a->c), i, (long long)b, (long long)r, (long long)c, g, w,
                      allowed(a->kind, &a->c, got.dtype, s));
            }
    }
}

static void check_vec(op_args *a, int i, op_args *want, op_args *size)
{
    const size_t count = (size_t)a->vec[i].vec.count;
    double      *g = check_alloc(count * sizeof *g), *w = check_alloc(count * sizeof *w),
           *s = check_alloc(count * sizeof *s);
    CHECK_OK(a->d, ms_vec_download(a->d, a->vec[i].vec, g));
    CHECK_OK(want->d, ms_vec_download(want->d, want->vec[i].vec, w));
    CHECK_OK(size->d, ms_vec_download(size->d, size->vec[i].vec, s));
    for (size_t b = 0; b < count; b++) {
        const bool same =
            a->vec[i].role == OP_IN ? g[b] == w[b] : agrees(a, g[b], w[b], MUSEC_F64, fabs(s[b]));
        CHECK(same, "%s: vector %d (%zu): %.17g, ref %.17g", name_of(&a->c), i, b, g[b], w[b]);
    }
    free(g), free(w), free(s);
}

static void check_case(ms_device *dev, ms_device *ref, const op_case *c)
{
    op_args    a, want, size;
    const bool has_size = op_kind_of(c->op)->size != NULL;
    CHECK_OK(dev, op_setup(&a, dev, c, 0));
    CHECK_OK(ref, op_setup(&want, ref, c, OP_AS_F64));
    CHECK_OK(ref, op_setup(&size, ref, c, OP_AS_F64 | (has_size ? 0 : OP_ABSOLUTE)));
    CHECK_OK(dev, op_run(&a));
    CHECK_OK(ref, op_run(&want));
    if (has_size)
        size.kind->size(&size);
    else
        CHECK_OK(ref, op_run(&size));
    for (int i = 0; i < a.n_mats; i++) {
        if (!has_buffer(&a.mat[i])) continue;
        void *image = check_alloc(bytes_of(&a.mat[i]));
        CHECK_OK(dev, op_download(&a, i, image));
        if (a.mat[i].role != OP_IN && !a.mat[i].basis)
            check_mat(&a, i, op_host_view(&a, i, image), want.mat[i].mat, size.mat[i].mat);
        check_untouched(&a, i, image, name_of(c));
        free(image);
    }
    for (int i = 0; i < a.n_vecs; i++)
        check_vec(&a, i, &want, &size);
    for (int i = 0; i < a.n_ids; i++)
        check_ids_untouched(&a, i);
    op_teardown(&a), op_teardown(&want), op_teardown(&size);
}

TEST_EACH_DEVICE(values_match_ref, dev)
{
    ms_device *ref = check_open("ref");
    for (size_t i = 0; i < n_cases; i++) {
        /* `ref` in float64 would be compared with itself */
        const bool itself = dev->kind == ref->kind && cases[i].dtype == MUSEC_F64;
        if (!itself && !is_left_out(dev, &cases[i])) check_case(dev, ref, &cases[i]);
    }
    musec_ctx_destroy(ref);
}

TEST_EACH_DEVICE(symmetric_results_equal_their_transposes, dev)
{
    for (size_t i = 0; i < n_cases; i++) {
        const int out = 1;
        op_args   a;
        if (is_left_out(dev, &cases[i]) || !op_is_symmetric(&cases[i])) continue;
        CHECK_OK(dev, op_setup(&a, dev, &cases[i], 0));
        CHECK_OK(dev, op_run(&a));
        void *image = check_alloc(bytes_of(&a.mat[out]));
        CHECK_OK(dev, op_download(&a, out, image));
        const ms_mat x = op_host_view(&a, out, image);
        for (int64_t b = 0; b < x.count; b++)
            for (int64_t r = 0; r < x.rows; r++)
                for (int64_t c = 0; c < r; c++)
                    CHECK(ms_at(x, b, r, c) == ms_at(x, b, c, r), "%s: (%lld, %lld)",
                          name_of(&cases[i]), (long long)r, (long long)c);
        free(image);
        op_teardown(&a);
    }
}

/* ---- the same bits --------------------------------------------------------------------------- */

TEST_EACH_DEVICE(a_stack_has_the_bits_of_its_matrices_one_by_one, dev)
{
    if (dev->kind->batch_variant) SKIP_DEVICE("%s promises no such thing", dev->name);
    for (size_t i = 0; i < n_cases; i++) {
        op_args a;
        size_t  bytes;
        if (is_left_out(dev, &cases[i]) || cases[i].count == 1 || op_kind_of(cases[i].op)->by_stack)
            continue;
        CHECK_OK(dev, op_setup(&a, dev, &cases[i], 0));
        CHECK_OK(dev, op_run(&a));
        unsigned char *whole = download_all(&a, &bytes);
        CHECK_OK(dev, op_reset(&a));
        for (int64_t b = 0; b < cases[i].count; b++) {
            op_args one = op_slice(&a, b);
            CHECK_OK(dev, op_run(&one));
        }
        unsigned char *parts = download_all(&a, &bytes);
        CHECK(memcmp(whole, parts, bytes) == 0, "%s: one by one it differs", name_of(&cases[i]));
        free(whole), free(parts);
        op_teardown(&a);
    }
}

/* The CPU runs with one, two and three threads. */
TEST_EACH_DEVICE(runs_have_the_same_bits_with_any_threads, dev)
{
    const bool cpu = strcmp(dev->kind->name, "cpu") == 0;
    if (strcmp(dev->name, "ref") == 0) return; /* it has no threads */
    for (size_t i = 0; i < n_cases; i++) {
        op_args a;
        size_t  bytes;
        if (is_left_out(dev, &cases[i])) continue;
        CHECK_OK(dev, op_setup(&a, dev, &cases[i], 0));
        if (cpu) CHECK_OK(dev, musec_ctx_set_threads(dev, 1));
        CHECK_OK(dev, op_run(&a));
        unsigned char *one = download_all(&a, &bytes);
        for (int n = 2; n <= (cpu ? 3 : 2); n++) {
            if (cpu) CHECK_OK(dev, musec_ctx_set_threads(dev, n));
            CHECK_OK(dev, op_reset(&a));
            CHECK_OK(dev, op_run(&a));
            unsigned char *more = download_all(&a, &bytes);
            CHECK(memcmp(one, more, bytes) == 0, "%s: run %d differs from the first",
                  name_of(&cases[i]), n);
            free(more);
        }
        free(one);
        op_teardown(&a);
    }
    if (cpu) CHECK_OK(dev, musec_ctx_set_threads(dev, 0));
}

/* The workspace grows in the first run, and the second joins its chunks. */
TEST_EACH_DEVICE(warm_runs_allocate_nothing, dev)
{
    for (size_t i = 0; i < n_cases; i++) {
        op_args a;
        if (is_left_out(dev, &cases[i])) continue;
        CHECK_OK(dev, op_setup(&a, dev, &cases[i], 0));
        CHECK_OK(dev, op_run(&a));
        CHECK_OK(dev, op_run(&a));
        const size_t n_allocs = dev->scratch.n_allocs;
        CHECK_OK(dev, op_run(&a));
        CHECK(dev->scratch.n_allocs == n_allocs, "%s allocates", name_of(&cases[i]));
        CHECK(dev->scratch.in_use == 0, "%s keeps workspace", name_of(&cases[i]));
        op_teardown(&a);
    }
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* A dense random G in device memory for every output that is compared. */
static void make_cotangents(op_args *a, op_cotangent *g)
{
    const ms_device_ops *op = a->d->ops;
    *g                      = (op_cotangent){ 0 };
    for (int i = 0; i < a->n_mats; i++) {
        const ms_mat x = a->mat[i].mat;
        if (!has_buffer(&a->mat[i]) || a->mat[i].role == OP_IN) continue;
        if (a->mat[i].basis || a->mat[i].aside) continue;
        g->mat[i] = ms_mat_of(musec_view_dense(NULL, MUSEC_F64, x.count, x.rows, x.cols));
        CHECK_OK(a->d, op->alloc(a->d, (size_t)(x.count * x.rows * x.cols) * 8, &g->mat[i].data));
        CHECK_OK(a->d, op->normal(a->d, 77 + (uint64_t)i, 0.0, 1.0, g->mat[i]));
    }
    for (int i = 0; i < a->n_vecs; i++) {
        void         *data  = NULL;
        const int64_t count = a->vec[i].vec.count;
        if (a->vec[i].role == OP_IN || a->vec[i].aside) continue;
        CHECK_OK(a->d, op->alloc(a->d, (size_t)count * 8, &data));
        g->vec[i]        = (ms_vec){ .data = data, .count = count };
        const ms_mat row = ms_mat_of(musec_view_dense(data, MUSEC_F64, 1, 1, count));
        CHECK_OK(a->d, op->normal(a->d, 99 + (uint64_t)i, 0.0, 1.0, row));
    }
}

static void free_cotangents(op_args *a, op_cotangent *g)
{
    for (int i = 0; i < OP_MATS; i++)
        a->d->ops->free(a->d, g->mat[i].data);
    for (int i = 0; i < OP_VECS; i++)
        a->d->ops->free(a->d, g->vec[i].data);
}

/* <G, x> summed over the matrices of an operand x; both are in device memory, G is dense. */
static double inner(op_args *a, int i, ms_mat g)
{
    const size_t n     = (size_t)(g.count * g.rows * g.cols);
    double      *dense = check_alloc(n * sizeof *dense), sum = 0.0;
    void        *image = check_alloc(bytes_of(&a->mat[i]));
    CHECK_OK(a->d, a->d->ops->download(a->d, g.data, n * sizeof *dense, dense));
    CHECK_OK(a->d, op_download(a, i, image));
    const ms_mat x = op_host_view(a, i, image);
    for (int64_t b = 0, at = 0; b < x.count; b++)
        for (int64_t r = 0; r < x.rows; r++)
            for (int64_t c = 0; c < x.cols; c++, at++)
                sum += dense[at] * ms_at(x, b, r, c);
    free(dense), free(image);
    return sum;
}

/* The sum of <G, output> over all outputs of the last run. */
static double objective(op_args *a, const op_cotangent *g)
{
    double sum = 0.0;
    for (int i = 0; i < a->n_mats; i++)
        if (g->mat[i].data != NULL) sum += inner(a, i, g->mat[i]);
    for (int i = 0; i < a->n_vecs; i++) {
        if (g->vec[i].data == NULL) continue;
        double x[16], w[16];
        CHECK(g->vec[i].count <= 16, "a stack of %lld", (long long)g->vec[i].count);
        CHECK_OK(a->d, ms_vec_download(a->d, a->vec[i].vec, x));
        CHECK_OK(a->d, ms_vec_download(a->d, g->vec[i], w));
        for (int64_t b = 0; b < g->vec[i].count; b++)
            sum += w[b] * x[b];
    }
    return sum;
}

/* x <- x + h E in the image of an operand, E being dense. */
static void move(op_args *a, int by, const double *e, double h)
{
    const ms_mat x = op_host_view(a, by, a->mat[by].image);
    for (int64_t b = 0, at = 0; b < x.count; b++)
        for (int64_t r = 0; r < x.rows; r++)
            for (int64_t c = 0; c < x.cols; c++, at++)
                ms_put(x, b, r, c, ms_at(x, b, r, c) + h * e[at]);
}

/* A random direction E, symmetric where the operand is. */
static double *direction(const op_args *a, int by)
{
    const ms_mat x = a->mat[by].mat;
    double      *e = oracle_gaussian(x.count * x.rows, x.cols, 31 + (uint64_t)by);
    for (int64_t b = 0; b < x.count && a->mat[by].make != OP_RANDOM; b++)
        for (int64_t r = 0; r < x.rows; r++)
            for (int64_t c = 0; c < r; c++)
                e[(b * x.rows + c) * x.cols + r] = e[(b * x.rows + r) * x.cols + c];
    return e;
}

/* Compares the slope along E by the gradient with (f(h) - f(-h)) / 2h.  The error of the latter is
 * h^2 f'''/6 plus eps |f| / h, about 1e-10 and 1e-11 of f for h = 1e-5.  The norms of E and of the
 * gradient bound f; 1e-7 of that allows for the close singular values of random matrices. */
static void check_gradient(ms_device *dev, const op_case *c, int by)
{
    const double h = 1e-5;
    op_args      a;
    op_cotangent g;
    CHECK_OK(dev, op_setup(&a, dev, c, 0));
    make_cotangents(&a, &g);
    const ms_mat x   = a.mat[by].mat;
    const size_t n   = (size_t)(x.count * x.rows * x.cols);
    ms_mat       out = ms_mat_of(musec_view_dense(NULL, MUSEC_F64, x.count, x.rows, x.cols));
    double      *e = direction(&a, by), *grad = check_alloc(n * sizeof *grad), f[2];
    CHECK_OK(dev, dev->ops->alloc(dev, n * sizeof *grad, &out.data));
    CHECK_OK(dev, op_run(&a));
    CHECK_OK(dev, a.kind->grad(&a, &g, by, out));
    CHECK_OK(dev, dev->ops->download(dev, out.data, n * sizeof *grad, grad));
    for (int side = 0; side < 2; side++) {
        move(&a, by, e, side == 0 ? -h : 2.0 * h);
        CHECK_OK(dev, op_reset(&a));
        CHECK_OK(dev, op_run(&a));
        f[side] = objective(&a, &g);
    }
    double along = 0.0, e_norm = 0.0, grad_norm = 0.0;
    for (size_t i = 0; i < n; i++) {
        along += grad[i] * e[i];
        e_norm    = hypot(e_norm, e[i]);
        grad_norm = hypot(grad_norm, grad[i]);
    }
    const double slope = (f[1] - f[0]) / (2.0 * h);
    CHECK(fabs(slope - along) <= 1e-7 * (1.0 + e_norm * grad_norm),
          "%s: by operand %d: gradient %.12g, differences %.12g", name_of(c), by, along, slope);
    free(e), free(grad);
    dev->ops->free(dev, out.data);
    free_cotangents(&a, &g);
    op_teardown(&a);
}

/* The points are always the same: where two singular values happen to be close, differences are too
 * coarse to compare with. */
TEST_EACH_DEVICE(gradients_match_finite_differences, dev)
{
    for (size_t i = 0; i < n_cases; i++) {
        op_case        at   = cases[i];
        const op_case *c    = &at;
        const op_kind *kind = op_kind_of(c->op);
        const bool     fits = !is_left_out(dev, c) && c->m * c->n <= 5000 && c->dtype == MUSEC_F64;
        at.seed             = 0;
        if (!fits || kind->grad == NULL || c->variant < kind->grad_variant ||
            c->variant > kind->grad_variant + kind->more_grads)
            continue;
        for (int by = 0; by < OP_MATS; by++)
            if ((kind->grad_by >> by & 1u) != 0) check_gradient(dev, c, by);
    }
}

TEST_GROUP(make_cases, free_cases)
