/* dlpack_test.c - weights and gradients inspected by one call, with a made-up Python: objects have
 * a class and a description, and a list holds their addresses. */
#include <musec/dlpack.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { N = 4, TYPE_AT = 8, FLOAT = 2, BFLOAT = 4, INT = 0 };

typedef struct object {
    void          *count; /* what Python has there */
    const void    *type;
    musec_dltensor tensor;
    int64_t        shape[3], strides[3];
    bool           raises;
} object;

static const int tensor_type, parameter_type, other_type, none_object;
static int       raised; /* exceptions that nobody cleared */

static int describe(void *o, musec_dltensor *out)
{
    object *one = o;
    if (one->raises) {
        raised++;
        return -1;
    }
    *out = one->tensor;
    return 0;
}

static void *item(void *list, ptrdiff_t index)
{
    void **items = list;
    if (items[index] == NULL) raised++; /* as where a list is shorter */
    return items[index];
}

static void clear(void) { raised = 0; }

typedef struct world {
    object                  weights[N], grads[N];
    void                   *weight_list[N], *grad_list[N];
    musec_dltensor          expected[N];
    musec_view              views[N];
    musec_tensor_inspection inspection;
    char                    memory[2 * N][64];
} world;

static void set_shape(object *o, int ndim, int64_t a, int64_t b)
{
    o->shape[0]       = a;
    o->shape[1]       = b;
    o->strides[0]     = ndim > 1 ? b : 1;
    o->strides[1]     = 1;
    o->tensor.ndim    = ndim;
    o->tensor.shape   = o->shape;
    o->tensor.strides = o->strides;
}

static void set_object(object *o, const void *type, void *data)
{
    memset(o, 0, sizeof *o);
    o->type   = type;
    o->tensor = (musec_dltensor){
        .data = data, .device_type = 2, .device_id = 1, .code = FLOAT, .bits = 32, .lanes = 1
    };
    set_shape(o, 2, 3, 5);
}

/* The caller's own copies of what the weights are. */
static void make_world(world *w, int64_t expected_dims[N][2][3])
{
    memset(w, 0, sizeof *w);
    for (int i = 0; i < N; i++) {
        set_object(&w->weights[i], i == 1 ? &tensor_type : &parameter_type, w->memory[i]);
        set_object(&w->grads[i], &tensor_type, w->memory[N + i]);
        w->weight_list[i] = &w->weights[i];
        w->grad_list[i]   = &w->grads[i];
        w->expected[i]    = w->weights[i].tensor;
        memcpy(expected_dims[i][0], w->weights[i].shape, sizeof expected_dims[i][0]);
        memcpy(expected_dims[i][1], w->weights[i].strides, sizeof expected_dims[i][1]);
        w->expected[i].shape   = expected_dims[i][0];
        w->expected[i].strides = expected_dims[i][1];
    }
    w->inspection = (musec_tensor_inspection){
        .size        = sizeof w->inspection,
        .describe    = describe,
        .item        = item,
        .clear       = clear,
        .none        = &none_object,
        .types       = { &tensor_type, &parameter_type },
        .type_offset = TYPE_AT,
        .n           = N,
        .expected    = w->expected,
        .views       = w->views,
    };
    raised = 0;
}

static size_t inspect(world *w)
{
    return musec_inspect_tensors(&w->inspection, w->weight_list, w->grad_list);
}

TEST(all_gradients_are_found)
{
    world   w;
    int64_t dims[N][2][3];
    make_world(&w, dims);
    w.grad_list[2]  = (void *)(uintptr_t)&none_object;
    w.views[2].data = w.memory[0];
    CHECK(inspect(&w) == N && w.inspection.n_none == 1, "%zu none", w.inspection.n_none);
    for (int i = 0; i < N; i++) {
        CHECK(w.views[i].data == (i == 2 ? NULL : w.memory[N + i]), "view %d", i);
        CHECK(i == 2 || w.views[i].dtype == MUSEC_F32, "view %d: dtype %d", i, w.views[i].dtype);
    }
    w.grad_list[2] = &w.grads[2];
    CHECK(inspect(&w) == N && w.inspection.n_none == 0 && w.views[2].data == w.memory[N + 2],
          "it is back");
}

/* What spoils weight or gradient 2. */
static void moved(world *w) { w->weights[2].tensor.data = w->memory[0]; }
static void elsewhere(world *w) { w->weights[2].tensor.device_id = 0; }
static void other_device(world *w) { w->weights[2].tensor.device_type = 1; }
static void other_code(world *w) { w->weights[2].tensor.code = BFLOAT; }
static void other_bits(world *w) { w->weights[2].tensor.bits = 16; }
static void other_ndim(world *w) { set_shape(&w->weights[2], 1, 15, 0); }
static void other_shape(world *w) { set_shape(&w->weights[2], 2, 5, 3); }
static void other_strides(world *w) { w->weights[2].strides[0] = 6; }
static void other_class(world *w) { w->weights[2].type = &other_type; }
static void weight_raises(world *w) { w->weights[2].raises = true; }
static void no_weight(world *w) { w->weight_list[2] = NULL; }
static void grad_elsewhere(world *w) { w->grads[2].tensor.device_id = 0; }
static void grad_class(world *w) { w->grads[2].type = &other_type; }
static void grad_raises(world *w) { w->grads[2].raises = true; }
static void no_grad(world *w) { w->grad_list[2] = NULL; }
static void grad_no_data(world *w) { w->grads[2].tensor.data = NULL; }
static void grad_offset(world *w) { w->grads[2].tensor.byte_offset = 4; }
static void grad_shape(world *w) { set_shape(&w->grads[2], 2, 5, 3); }
static void grad_ndim(world *w) { set_shape(&w->grads[2], 1, 15, 0); }
static void grad_turned(world *w) { w->grads[2].strides[0] = 1, w->grads[2].strides[1] = 3; }
static void grad_gaps(world *w) { w->grads[2].strides[0] = 6; }
static void grad_expanded(world *w) { w->grads[2].strides[0] = 0; }
static void grad_no_strides(world *w) { w->grads[2].tensor.strides = NULL; }
static void grad_integer(world *w) { w->grads[2].tensor.code = INT; }
static void grad_lanes(world *w) { w->grads[2].tensor.lanes = 2; }
static void grad_double(world *w) { w->grads[2].tensor.bits = 64; }

static void grad_bf16(world *w) { w->grads[2].tensor.code = BFLOAT, w->grads[2].tensor.bits = 16; }

TEST(what_is_out_of_the_ordinary_is_left_to_the_caller)
{
    static const struct {
        const char *name;
        void (*spoil)(world *w);
        bool mixed_takes;
    } rows[] = {
        { "moved", moved, false },
        { "elsewhere", elsewhere, false },
        { "other device", other_device, false },
        { "other code", other_code, false },
        { "other bits", other_bits, false },
        { "other ndim", other_ndim, false },
        { "other shape", other_shape, false },
        { "other strides", other_strides, false },
        { "other class", other_class, false },
        { "weight raises", weight_raises, false },
        { "no weight", no_weight, false },
        { "gradient elsewhere", grad_elsewhere, false },
        { "gradient's class", grad_class, false },
        { "gradient raises", grad_raises, false },
        { "no gradient", no_grad, false },
        { "gradient without data", grad_no_data, false },
        { "gradient at an offset", grad_offset, false },
        { "gradient's shape", grad_shape, false },
        { "gradient's ndim", grad_ndim, false },
        { "gradient transposed", grad_turned, false },
        { "gradient with gaps", grad_gaps, false },
        { "gradient expanded", grad_expanded, false },
        { "gradient without strides", grad_no_strides, false },
        { "gradient of integers", grad_integer, false },
        { "gradient of vectors", grad_lanes, false },
        { "gradient of f64", grad_double, false },
        { "gradient of bf16", grad_bf16, true },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        for (uint32_t mixed = 0; mixed < 2; mixed++) {
            world   w;
            int64_t dims[N][2][3];
            make_world(&w, dims);
            w.inspection.any_grad_dtype = mixed;
            rows[i].spoil(&w);
            const size_t want = rows[i].mixed_takes && mixed ? N : 2;
            CHECK(inspect(&w) == want, "%s, mixed %u", rows[i].name, mixed);
            CHECK(raised == 0, "%s: an exception is left", rows[i].name);
            CHECK(want == 2 || w.views[2].dtype == MUSEC_BF16, "%s: dtype %d", rows[i].name,
                  w.views[2].dtype);
        }
    }
}

TEST(dimensions_of_one_element_have_any_stride)
{
    world   w;
    int64_t dims[N][2][3];
    make_world(&w, dims);
    set_shape(&w.weights[2], 2, 1, 5);
    set_shape(&w.grads[2], 2, 1, 5);
    memcpy(dims[2][0], w.weights[2].shape, sizeof dims[2][0]);
    memcpy(dims[2][1], w.weights[2].strides, sizeof dims[2][1]);
    w.grads[2].strides[0] = 99;
    CHECK(inspect(&w) == N, "the gradient is contiguous");
    w.weights[2].strides[0] = 99;
    CHECK(inspect(&w) == 2, "the weight is another than it was");
}

TEST(numbers_without_dimensions_are_tensors)
{
    world   w;
    int64_t dims[N][2][3];
    make_world(&w, dims);
    w.weights[2].tensor.ndim = w.grads[2].tensor.ndim = w.expected[2].ndim = 0;
    w.weights[2].tensor.shape = w.grads[2].tensor.shape = NULL;
    w.weights[2].tensor.strides = w.grads[2].tensor.strides = NULL;
    CHECK(inspect(&w) == N, "both are numbers");
}

/* A hint may be any address: nothing is read there. */
TEST(weights_may_be_fetched_beforehand)
{
    const void *const hints[N] = { NULL, (const void *)16, (const void *)UINTPTR_MAX, "x" };
    world             w;
    int64_t           dims[N][2][3];
    make_world(&w, dims);
    musec_prefetch_tensors(NULL, w.weight_list);
    musec_prefetch_tensors(&w.inspection, w.weight_list);
    w.inspection.shape_hints = hints;
    musec_prefetch_tensors(&w.inspection, w.weight_list);
    CHECK(inspect(&w) == N, "nothing has changed");
    w.weight_list[2] = NULL;
    musec_prefetch_tensors(&w.inspection, w.weight_list);
    CHECK(raised == 0, "an exception is left");
}

TEST(another_version_is_refused)
{
    world   w;
    int64_t dims[N][2][3];
    make_world(&w, dims);
    CHECK(musec_inspect_tensors(NULL, w.weight_list, w.grad_list) == 0, "no question");
    w.inspection.size -= 4;
    CHECK(inspect(&w) == 0, "an older one");
    w.inspection.size = 0;
    CHECK(inspect(&w) == 0, "none was said");
}
