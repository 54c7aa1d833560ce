/* op_cases.c - the list of cases, and the operands of one: see op_cases.h.
 *
 * The list combines the sizes, types and layouts of this file with the variants and operands in the
 * row of an op.  Small sizes are odd on purpose; the larger ones cross the boundaries of the tiles
 * into which devices divide matrices. */
#include "op_cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cpu/ref.h"

/* ---- the list -------------------------------------------------------------------------------- */

typedef struct sizes {
    int64_t m, n, k;
} sizes;

static const sizes plain[]   = { { 1, 1, 0 },     { 1, 9, 0 },    { 9, 1, 0 },
                                 { 3, 5, 0 },     { 17, 33, 0 },  { 64, 64, 0 },
                                 { 130, 170, 0 }, { 2, 5001, 0 }, { 5001, 2, 0 } };
static const sizes product[] = {
    { 1, 1, 1 },   { 1, 7, 3 },    { 7, 1, 2 },     { 3, 5, 4 },
    { 17, 33, 9 }, { 64, 64, 64 }, { 130, 70, 50 }, { 520, 1030, 3 },
};
static const sizes square[] = { { 1, 1, 1 }, { 3, 3, 3 }, { 17, 17, 17 }, { 70, 70, 70 } };
static const sizes svd[]    = { { 1, 1, 0 }, { 1, 7, 0 }, { 7, 1, 0 }, { 3, 5, 0 }, { 33, 17, 0 } };
static const sizes single_element[] = { { 1, 1, 0 } };
static const sizes memory[]         = { { 1, 1, 0 }, { 64, 64, 0 } };
static const sizes embed[]          = {
             { 1, 1, 1 }, { 7, 9, 5 }, { 65, 33, 3 }, { 130, 170, 40 }, { 257, 64, 300 }
};
static const sizes loss[]  = { { 1, 1, 0 },    { 1, 2, 0 },   { 7, 9, 0 },   { 65, 33, 0 },
                               { 130, 96, 0 }, { 257, 7, 0 }, { 3, 5001, 0 } };
static const sizes heads[] = {
    { 1, 6, 0 }, { 7, 6, 0 }, { 65, 64, 0 }, { 130, 128, 0 }, { 257, 64, 0 }
};
static const sizes attention[] = { { 1, 6, 0 }, { 7, 6, 0 }, { 19, 4, 0 } };

static const struct {
    const sizes *list;
    size_t       n;
} shapes[] = {
    [OP_SHAPES_PLAIN]     = { plain, COUNT(plain) },
    [OP_SHAPES_PRODUCT]   = { product, COUNT(product) },
    [OP_SHAPES_SQUARE]    = { square, COUNT(square) },
    [OP_SHAPES_SVD]       = { svd, COUNT(svd) },
    [OP_SHAPES_ONE]       = { single_element, COUNT(single_element) },
    [OP_SHAPES_MEMORY]    = { memory, COUNT(memory) },
    [OP_SHAPES_EMBED]     = { embed, COUNT(embed) },
    [OP_SHAPES_LOSS]      = { loss, COUNT(loss) },
    [OP_SHAPES_HEADS]     = { heads, COUNT(heads) },
    [OP_SHAPES_ATTENTION] = { attention, COUNT(attention) },
};

/* How a stack lies in memory.  Mask: which operands are transposed. */
typedef struct layout {
    int64_t  count, pad;
    unsigned trans;
    bool     small_only, fused;
} layout;

static const layout any_stack[] = {
    { 1, 0, 0x00, false, false }, { 5, 3, 0x00, false, false }, { 2, 0, 0xff, false, false },
    { 5, 3, 0x01, true, false },  { 5, 3, 0x02, true, false },  { 3, 1, 0x04, true, false },
    { 2, 2, 0x03, true, false },  { 2, 7, 0x05, true, false },  { 2, 3, 0x06, true, false },
    { 3, 3, 0x55, true, false },
};
static const layout upright[]    = { { 1, 0, 0, false, false }, { 5, 3, 0, false, false } };
static const layout head_stack[] = { { 1, 0, 0, false, false },
                                     { 5, 3, 0, false, false },
                                     { 3, 0, 0, false, true },
                                     { 4, 3, 0, true, true } };
static const layout one_matrix[] = { { 1, 0, 0, false, false }, { 1, 3, 0, false, false } };

static const struct {
    const layout *list;
    size_t        n;
} stacks[] = {
    [OP_STACKS_ANY]     = { any_stack, COUNT(any_stack) },
    [OP_STACKS_UPRIGHT] = { upright, COUNT(upright) },
    [OP_STACKS_HEADS]   = { head_stack, COUNT(head_stack) },
    [OP_STACKS_ONE]     = { one_matrix, COUNT(one_matrix) },
};

/* A symmetric product of several tiles. */
static const struct {
    musec_dtype dtype;
    int         variant;
} large_sym[] = { { MUSEC_F32, 6 }, { MUSEC_F32, 4 },  { MUSEC_F64, 5 },
                  { MUSEC_F16, 4 }, { MUSEC_BF16, 6 }, { MUSEC_F32, 3 } };

/* Cases that are slow with `ref`, a few of each: attention and its gradient, all dtypes. */
static const struct {
    int64_t rows, head, count, pad;
    bool    fused;
    int     variant;
} large_attention[] = {
    { 65, 64, 2, 0, true, 0 },    { 65, 64, 1, 3, false, 1 },  { 65, 64, 2, 3, true, 4 },
    { 65, 6, 3, 1, true, 3 },     { 65, 6, 2, 0, false, 5 },   { 65, 128, 1, 0, false, 7 },
    { 130, 128, 1, 0, false, 0 }, { 130, 128, 2, 5, true, 4 }, { 130, 6, 2, 0, true, 3 },
    { 130, 6, 2, 3, false, 8 },   { 257, 6, 2, 3, true, 0 },   { 257, 6, 1, 0, false, 1 },
    { 257, 6, 3, 0, true, 2 },    { 257, 6, 1, 1, false, 6 },  { 257, 6, 1, 0, false, 7 },
    { 257, 64, 1, 0, false, 3 },  { 257, 64, 2, 0, true, 2 },  { 530, 128, 1, 0, true, 4 },
    { 391, 128, 2, 8, true, 1 },  { 300, 128, 1, 0, true, 3 },
};
static const char *const attentions[] = { "attention", "attention_grad" };

static const musec_dtype dtypes[] = { MUSEC_F32, MUSEC_F64, MUSEC_BF16, MUSEC_F16 };

typedef struct list {
    op_case *at;
    size_t   n, room;
} list;

static void append(list *l, op_case c) /* without memory it only counts, which op_cases sees */
{
    if (l->n < l->room) l->at[l->n] = c;
    l->n++;
}

static void append_kind(list *l, const op_kind *kind)
{
    const size_t  n_layouts = kind->shapes == OP_SHAPES_MEMORY ? 1 : stacks[kind->stacks].n;
    const layout *layouts   = stacks[kind->stacks].list;
    for (size_t s = 0; s < shapes[kind->shapes].n; s++) {
        const sizes   at    = shapes[kind->shapes].list[s];
        const int64_t elems = at.m * at.n, most = elems > 2000 ? elems > 50000 ? 1 : 2 : 5;
        for (size_t y = 0; y < n_layouts; y++) {
            op_case c = { .op = kind->name, .m = at.m, .n = at.n, .k = at.k };
            c.count   = layouts[y].count < most ? layouts[y].count : most;
            c.pad     = layouts[y].pad;
            c.trans   = layouts[y].trans;
            c.fused   = layouts[y].fused;
            if (layouts[y].small_only && elems > 2000) continue;
            for (c.variant = 0; c.variant < kind->variants; c.variant++) {
                for (size_t t = 0; t < COUNT(dtypes); t++) {
                    c.dtype = dtypes[t];
                    if (kind->has == NULL || kind->has(&c)) append(l, c);
                }
            }
        }
    }
}

static void append_attention(list *l)
{
    for (size_t k = 0; k < COUNT(attentions); k++)
        for (size_t i = 0; i < COUNT(large_attention); i++)
            for (size_t t = 0; t < COUNT(dtypes); t++)
                append(l, (op_case){ .op      = attentions[k],
                                     .m       = large_attention[i].rows,
                                     .n       = large_attention[i].head,
                                     .count   = large_attention[i].count,
                                     .dtype   = dtypes[t],
                                     .pad     = large_attention[i].pad,
                                     .fused   = large_attention[i].fused,
                                     .variant = large_attention[i].variant });
}

static void append_all(list *l)
{
    for (size_t i = 0; op_kind_at(i) != NULL; i++)
        append_kind(l, op_kind_at(i));
    append_attention(l);
    for (size_t i = 0; i < COUNT(large_sym); i++) {
        op_case c = { .op = "product", .m = 530, .n = 530, .k = 530, .count = 1 };
        c.dtype   = large_sym[i].dtype;
        c.variant = large_sym[i].variant;
        append(l, c);
    }
}

op_case *op_cases(size_t *n)
{
    list l = { 0 };
    append_all(&l); /* once to count, once to write */
    l = (list){ .at = calloc(l.n, sizeof *l.at), .room = l.n };
    if (l.at == NULL) return NULL;
    append_all(&l);
    *n = l.n;
    return l.at;
}

void op_case_name(const op_case *c, char *text, size_t bytes)
{
    char   size[64];
    size_t used = 0;
    snprintf(size, sizeof size, c->k > 0 ? "%lldx%lldx%lld" : "%lldx%lld", (long long)c->m,
             (long long)c->n, (long long)c->k);
    used += (size_t)snprintf(text, bytes, "%s %s %s", c->op, size, ms_dtype_name(c->dtype));
    if (c->count > 1 && used < bytes)
        used += (size_t)snprintf(text + used, bytes - used, " x%lld", (long long)c->count);
    if (c->variant > 0 && used < bytes)
        used += (size_t)snprintf(text + used, bytes - used, ", variant %d", c->variant);
    if (c->trans != 0 && used < bytes)
        used += (size_t)snprintf(text + used, bytes - used, ", trans 0x%02x", c->trans);
    if (c->lists != 0 && used < bytes)
        used += (size_t)snprintf(text + used, bytes - used, ", lists 0x%02x", c->lists);
    if (c->fused && used < bytes) used += (size_t)snprintf(text + used, bytes - used, ", fused");
    if (c->pad > 0 && used < bytes)
        snprintf(text + used, bytes - used, ", pad %lld", (long long)c->pad);
}

/* ---- declaring operands ---------------------------------------------------------------------- */

op_mat *op_add_mat(op_args *a, op_role role, int64_t rows, int64_t cols)
{
    op_mat *o = &a->mat[a->n_mats++];
    *o        = (op_mat){ .role = role, .like = -1 };
    o->mat    = (ms_mat){ .rows = rows, .cols = cols, .count = a->c.count, .dtype = a->c.dtype };
    return o;
}

op_vec *op_add_vec(op_args *a, op_role role)
{
    op_vec *o = &a->vec[a->n_vecs++];
    *o        = (op_vec){ .role = role, .vec.count = a->c.count };
    return o;
}

op_ids *op_add_ids(op_args *a, int64_t count, int32_t (*at)(const op_args *a, int64_t i))
{
    op_ids *o = &a->ids[a->n_ids++];
    *o        = (op_ids){ .ids.count = count, .at = at };
    return o;
}

ms_mat op_host_view(const op_args *a, int i, void *image)
{
    ms_mat x = a->mat[i].mat;
    x.data   = (char *)image + (size_t)a->mat[i].first * ms_dtype_bytes(x.dtype);
    return x;
}

ms_ids op_host_ids(const op_args *a, int i)
{
    return (ms_ids){ .data = a->ids[i].image + a->ids[i].first, .count = a->ids[i].ids.count };
}

bool op_fits(const ms_device *d, const op_case *c)
{
    op_args a = { .c = *c, .kind = op_kind_of(c->op) };
    if (!ms_device_has(d, c->dtype)) return false;
    a.kind->operands(&a);
    for (int i = 0; i < a.n_mats; i++)
        if (!a.mat[i].absent && !ms_device_has(d, a.mat[i].mat.dtype)) return false;
    return true;
}

double op_rounded(double value, musec_dtype dtype)
{
    double       store; /* large enough for any dtype */
    const ms_mat one = {
        .data = &store, .rows = 1, .cols = 1, .ld = 1, .count = 1, .dtype = dtype
    };
    ms_put(one, 0, 0, 0, value);
    return ms_at(one, 0, 0, 0);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* A number in (-1, 1) from the seed, the operand and the element (splitmix64). */
static double value_of(uint64_t seed, uint64_t operand, uint64_t element)
{
    uint64_t z = (operand << 48) + (element + 1) * 0x9e3779b97f4a7c15u + seed * 0xd1342543de82ef95u;
    z          = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z          = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return ((double)((z ^ (z >> 31)) >> 11) + 0.5) * 0x1p-52 - 1.0;
}

/* Quiet NaNs of special bits, for memory that no op may read or write. */
static void set_sentinels(void *image, musec_dtype dtype, int64_t n)
{
    const uint32_t s32  = 0x7fc5a5a5u;
    const uint64_t s64  = 0x7ff8a5a5a5a5a5a5u;
    const uint16_t s16  = dtype == MUSEC_BF16 ? 0x7fe5u : 0x7ea5u;
    const size_t   each = ms_dtype_bytes(dtype);
    const void    *from = each == 2 ? (const void *)&s16 : each == 4 ? (const void *)&s32 : &s64;
    for (int64_t i = 0; i < n; i++)
        memcpy((char *)image + (size_t)i * each, from, each);
}

/* The diagonal of a symmetric matrix is coarse: 2 - x/2 is exact in every dtype, so that the
 * polynomial is one, and its products with the matrix are symmetric. */
static double input_at(const op_args *a, int i, int64_t b, int64_t row, int64_t col)
{
    const op_mat *o      = &a->mat[i];
    const bool    dense  = o->make == OP_RANDOM || o->make == OP_POSITIVE || o->make == OP_HUGE;
    const bool    mirror = !dense && col > row;
    const int64_t r = mirror ? col : row, c = mirror ? row : col;
    const double  x =
        value_of(a->c.seed, (uint64_t)i, (uint64_t)((b * o->mat.rows + r) * o->mat.cols + c));
    switch (o->make) {
    case OP_LOWER: return col > row ? (double)NAN : x;
    case OP_POSITIVE: return 0.01 + 0.99 * fabs(x);
    case OP_HUGE: return 1e4 * x;
    case OP_SYMMETRIC: return row == col ? round(32.0 * x) / 32.0 : x;
    case OP_POLYNOMIAL:
        return (row == col ? 2.0 : 0.0) +
               ((a->how & OP_ABSOLUTE) != 0 ? 0.5 : -0.5) *
                   ms_at(op_host_view(a, 0, a->mat[0].image), b, row, col);
    default: return x;
    }
}

/* The values are rounded to `dtype`, which need not be the dtype in which they are stored. */
static void fill_image(op_args *a, int i, musec_dtype dtype)
{
    op_mat      *o = &a->mat[i];
    const ms_mat x = op_host_view(a, i, o->image);
    set_sentinels(o->image, x.dtype, o->elems);
    if (o->role == OP_OUT) return;
    for (int64_t b = 0; b < x.count; b++) {
        for (int64_t r = 0; r < x.rows; r++) {
            for (int64_t c = 0; c < x.cols; c++) {
                const double value = op_rounded(input_at(a, i, b, r, c), dtype);
                ms_put(x, b, r, c, (a->how & OP_ABSOLUTE) != 0 ? fabs(value) : value);
            }
        }
    }
}

/* Timed operands are large: the device draws their values. */
static musec_status draw(const op_args *a, int i)
{
    const op_mat *o    = &a->mat[i];
    const double  high = o->make == OP_HUGE ? 1e4 : 1.0;
    return a->d->ops->uniform(a->d, a->c.seed + (uint64_t)i, o->make == OP_POSITIVE ? 0.01 : -high,
                              high, o->mat);
}

/* ---- operands -------------------------------------------------------------------------------- */

static musec_status no_memory(op_args *a)
{
    return ms_fail(&a->d->error, MUSEC_ENOMEM, "no memory for a case");
}

static void place(op_args *a, op_mat *o)
{
    const int64_t pad = a->c.pad;
    o->mat.ld         = (o->mat.trans ? o->mat.rows : o->mat.cols) + pad;
    o->mat.stride     = (o->mat.trans ? o->mat.cols : o->mat.rows) * o->mat.ld + pad;
    o->first          = pad;
    o->elems          = pad + o->mat.count * o->mat.stride;
    if (a->c.fused && o->head) {
        o->mat.stride = o->mat.cols;
        o->mat.ld     = 3 * o->mat.count * o->mat.cols + pad;
        o->elems      = pad + o->mat.rows * o->mat.ld;
    }
}

static musec_status make_list(op_args *a, op_mat *o)
{
    o->ptrs = calloc((size_t)o->mat.count, sizeof *o->ptrs);
    if (o->ptrs == NULL) return no_memory(a);
    for (int64_t b = 0; b < o->mat.count; b++)
        o->ptrs[b] = (ms_mat_ptr){ ms_mat_slice(o->mat, b, 1).data, o->mat.ld };
    o->mat.ptrs = o->ptrs;
    return MUSEC_OK;
}

static musec_status setup_mat(op_args *a, int i)
{
    op_mat           *o     = &a->mat[i];
    const musec_dtype dtype = o->mat.dtype;
    musec_status      st    = MUSEC_OK;
    if (o->absent) return MUSEC_OK;
    if (o->like >= 0) { /* the same view, so that it is in place */
        o->mat   = a->mat[o->like].mat;
        o->first = a->mat[o->like].first;
        o->elems = a->mat[o->like].elems;
        return MUSEC_OK;
    }
    if ((a->how & OP_AS_F64) != 0) o->mat.dtype = MUSEC_F64;
    o->mat.trans = !o->row && (a->c.trans >> i & 1u) != 0;
    place(a, o);
    const size_t bytes = (size_t)o->elems * ms_dtype_bytes(o->mat.dtype);
    if (!a->c.timing) {
        if ((o->image = malloc(bytes)) == NULL) return no_memory(a);
        fill_image(a, i, dtype);
    }
    if (!o->host) {
        TRY(a->d->ops->alloc(a->d, bytes, &o->buffer));
    } else if ((o->buffer = calloc(1, bytes)) == NULL) {
        return no_memory(a);
    }
    o->mat.data = (char *)o->buffer + (size_t)o->first * ms_dtype_bytes(o->mat.dtype);
    if (a->c.timing && !o->host) TRY(draw(a, i));
    if ((a->c.lists >> i & 1u) != 0) TRY(make_list(a, o));
done:
    return st;
}

static musec_status setup_vec(op_args *a, int i)
{
    op_vec      *o     = &a->vec[i];
    const size_t bytes = (size_t)o->vec.count * sizeof(double);
    void        *data  = NULL;
    musec_status st;
    o->image = malloc(bytes);
    if (o->image == NULL) return no_memory(a);
    for (int64_t b = 0; b < o->vec.count; b++) { /* one of them is 1, which scale may skip */
        o->image[b] =
            b == 1 ? 1.0 : 0.25 + fabs(value_of(a->c.seed, 100 + (uint64_t)i, (uint64_t)b));
        if (o->negative) o->image[b] = -o->image[b];
        if (o->role == OP_OUT) o->image[b] = (double)NAN;
    }
    TRY(a->d->ops->alloc(a->d, bytes, &data));
    o->vec.data = data;
done:
    return st;
}

static musec_status setup_ids(op_args *a, int i)
{
    const int64_t margin = 4;
    op_ids       *o      = &a->ids[i];
    musec_status  st;
    o->first = margin + a->c.pad;
    o->elems = o->first + o->ids.count + margin;
    o->image = malloc((size_t)o->elems * sizeof *o->image);
    if (o->image == NULL) return no_memory(a);
    for (int64_t e = 0; e < o->elems; e++) {
        const bool inside = e >= o->first && e < o->first + o->ids.count;
        o->image[e]       = inside ? o->at(a, e - o->first) : INT32_MIN;
    }
    TRY(a->d->ops->alloc(a->d, (size_t)o->elems * sizeof *o->image, &o->buffer));
    o->ids.data = (int32_t *)o->buffer + o->first;
done:
    return st;
}

musec_status op_setup(op_args *a, ms_device *d, const op_case *c, unsigned how)
{
    musec_status st = MUSEC_OK;
    *a              = (op_args){ .d = d, .c = *c, .kind = op_kind_of(c->op), .how = how };
    if (a->kind == NULL) return ms_fail(&d->error, MUSEC_EINVAL, "no op is called %s", c->op);
    a->kind->operands(a);
    for (int i = 0; i < a->n_mats; i++)
        TRY(setup_mat(a, i));
    for (int i = 0; i < a->n_vecs; i++)
        TRY(setup_vec(a, i));
    for (int i = 0; i < a->n_ids; i++)
        TRY(setup_ids(a, i));
    if (a->kind->prepare != NULL) TRY(a->kind->prepare(a));
    TRY(op_reset(a));
done:
    if (st != MUSEC_OK) op_teardown(a);
    return st;
}

musec_status op_reset(op_args *a)
{
    musec_status st = MUSEC_OK;
    for (int i = 0; i < a->n_mats; i++) {
        op_mat      *o     = &a->mat[i];
        const size_t bytes = (size_t)o->elems * ms_dtype_bytes(o->mat.dtype);
        if (o->absent || o->like >= 0 || o->image == NULL) continue;
        if (o->host)
            memcpy(o->buffer, o->image, bytes);
        else
            TRY(a->d->ops->upload(a->d, o->image, bytes, o->buffer));
    }
    for (int i = 0; i < a->n_vecs; i++)
        TRY(a->d->ops->upload(a->d, a->vec[i].image, (size_t)a->vec[i].vec.count * sizeof(double),
                              a->vec[i].vec.data));
    for (int i = 0; i < a->n_ids; i++)
        TRY(a->d->ops->upload(a->d, a->ids[i].image, (size_t)a->ids[i].elems * sizeof(int32_t),
                              a->ids[i].buffer));
    TRY(a->d->ops->sync(a->d)); /* the images may change as soon as this returns */
done:
    return st;
}

musec_status op_run(op_args *a) { return a->kind->run(a); }

void op_teardown(op_args *a)
{
    for (int i = 0; i < a->n_mats; i++) {
        if (a->mat[i].like >= 0) continue;
        if (a->mat[i].host)
            free(a->mat[i].buffer);
        else
            a->d->ops->free(a->d, a->mat[i].buffer);
        free(a->mat[i].image);
        free(a->mat[i].ptrs);
    }
    for (int i = 0; i < a->n_vecs; i++) {
        a->d->ops->free(a->d, a->vec[i].vec.data);
        free(a->vec[i].image);
    }
    for (int i = 0; i < a->n_ids; i++) {
        a->d->ops->free(a->d, a->ids[i].buffer);
        free(a->ids[i].image);
    }
    *a = (op_args){ 0 };
}

musec_status op_download(const op_args *a, int i, void *image)
{
    const op_mat *o     = &a->mat[i];
    const size_t  bytes = (size_t)o->elems * ms_dtype_bytes(o->mat.dtype);
    if (!o->host) return a->d->ops->download(a->d, o->buffer, bytes, image);
    memcpy(image, o->buffer, bytes);
    return MUSEC_OK;
}

static ms_mat column(ms_mat x, int64_t b)
{
    x.data = (char *)x.data + (size_t)ms_mat_offset(x, 0, 0, b) * ms_dtype_bytes(x.dtype);
    x.cols = 1;
    return x;
}

op_args op_slice(const op_args *a, int64_t b)
{
    op_args one = *a;
    one.c.count = 1;
    for (int i = 0; i < one.n_mats; i++) {
        op_mat *o = &one.mat[i];
        if (o->column) o->mat = column(o->mat, b);
        if (!o->absent && o->mat.count == a->c.count) o->mat = ms_mat_slice(o->mat, b, 1);
    }
    for (int i = 0; i < one.n_vecs; i++)
        one.vec[i].vec = ms_vec_slice(one.vec[i].vec, b, 1);
    return one;
}

double op_bytes(const op_args *a)
{
    double bytes = 0.0;
    for (int i = 0; i < a->n_mats; i++) {
        const op_mat *o = &a->mat[i];
        if (o->absent || o->like >= 0) continue;
        const int64_t rows = o->used > 0 ? o->used : o->mat.rows;
        bytes += (o->role == OP_INOUT ? 2.0 : 1.0) * (double)ms_dtype_bytes(o->mat.dtype) *
                 (double)(o->mat.count * rows * o->mat.cols);
    }
    return bytes;
}

double op_flops(const op_args *a)
{
    return a->kind->flops == NULL ? 0.0 : (double)a->c.count * a->kind->flops(&a->c);
}
