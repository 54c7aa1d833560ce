/* op_timed.c - the cases that op_bench times: realistic sizes for a CPU and for a GPU.
 *
 * On a GPU they are larger: products that fill it, all matrices of a model at once, a micro-batch
 * of 32768 tokens.  small, medium and wide are the presets of width 768, 1024 and 2048, with 11, 16
 * and 16 layers. */
#include <stdlib.h>

#include "op_cases.h"
#include "timing.h"

enum { F32 = 1 << MUSEC_F32, F64 = 1 << MUSEC_F64, BF16 = 1 << MUSEC_BF16, F16 = 1 << MUSEC_F16 };
enum { TOKENS = 32768, VOCAB = 50304 };

typedef struct timed {
    const char *op;
    int64_t     m, n, k, count;
    unsigned    in; /* dtypes */
    unsigned    trans;
    int         variant;
    unsigned    lists;
    bool        fused, slow;
} timed;

/* The variant of unary_grad that is relu2 with dx on dout. */
enum { RELU2_GRAD = MS_UNARY_SIGMOID + 1 + MS_UNARY_RELU2 };

static const timed on_cpu[] = {
    { "gemm", 768, 768, 768, 4, .in = F32 | F64 },
    { "gemm", 768, 3072, 768, 4, .in = F32 | F64 },
    { "gemm", 1024, 4096, 1024, 1, .in = F32 | F64 },
    { "product", 768, 768, 768, 4, .in = F32 | F64, .variant = 6 },
    { "product", 768, 768, 768, 4, .in = F32 | F64, .variant = 5 },
    { "product", 768, 768, 768, 4, .in = F32 | F64, .variant = 3 },
    { "product", 768, 768, 3072, 4, .in = F32 | F64, .variant = 3 },
    { "product", 768, 768, 3072, 4, .in = F32 | F64, .trans = 1, .variant = 3 },
    { "product", 1024, 1024, 4096, 1, .in = F32 | F64, .variant = 3 },
    { "svd", 256, 768, 0, 1, .in = F32 | F64 },
    { "eigh", 768, 768, 768, 1, .in = F32 | F64 },
    { "upload", 1024, 4096, 0, 1, .in = F32 | F64 },
    { "download", 1024, 4096, 0, 1, .in = F32 | F64 },
    { "copy", 1024, 4096, 0, 4, .in = F32 | F64 },
    { "copy", 1024, 4096, 0, 4, .in = F32 | F64, .trans = 1 },
    { "copy", 1024, 4096, 0, 4, .in = F32 | F64, .variant = 1 },
    { "fill", 1024, 4096, 0, 4, .in = F32 | F64 },
    { "scale", 1024, 4096, 0, 4, .in = F32 | F64 },
    { "axpby", 1024, 4096, 0, 4, .in = F32 | F64 },
    { "combine", 768, 768, 0, 4, .in = F32 | F64 },
    { "combine", 768, 768, 0, 4, .in = F32 | F64, .variant = 1 },
    { "combine", 768, 768, 0, 4, .in = F32 | F64, .variant = 2 },
    { "scale_rows", 768, 3072, 0, 4, .in = F32 | F64 },
    { "prescale", 1024, 4096, 0, 4, .in = F32 | F64 },
    { "unary", 768, 3072, 0, 4, .in = F32 | F64, .variant = MS_UNARY_SIGN },
    { "moments", 768, 3072, 0, 4, .in = F32 | F64 },
    { "moments", 768, 3072, 0, 4, .in = F32 | F64, .variant = 2 }, /* with a slow average */
    { "decay_add", 768, 3072, 0, 4, .in = F32 | F64 },
    { "decay_add", 768, 3072, 0, 4, .in = F32 | F64, .variant = 2 }, /* cautious */
    { "embed", 4096, 768, 50304, 1, .in = F32 },
    { "embed_grad", 4096, 768, 50304, 1, .in = F32 },
    { "rmsnorm", 4096, 768, 0, 1, .in = F32 },
    { "rmsnorm_grad", 4096, 768, 0, 1, .in = F32, .variant = 3 }, /* added to dx */
    { "rope", 4096, 128, 0, 6, .in = F32, .variant = 2 },         /* with its norm */
    { "rope_grad", 4096, 128, 0, 6, .in = F32, .variant = 2 },
    { "unary", 4096, 3072, 0, 1, .in = F32, .variant = MS_UNARY_RELU2 },
    { "unary_grad", 4096, 3072, 0, 1, .in = F32, .variant = RELU2_GRAD },
    { "relu2_grad_from_out", 4096, 3072, 0, 1, .in = F32, .variant = 1 },
    { "attention", 4096, 64, 0, 4, .in = F32, .variant = 9 },   /* documents of 256 */
    { "attention", 2048, 128, 0, 6, .in = F32, .variant = 10 }, /* a window of 512 */
    { "attention_grad", 4096, 64, 0, 4, .in = F32, .variant = 9 },
    { "attention_grad", 2048, 128, 0, 6, .in = F32, .variant = 10 },
    { "gate", 4096, 128, 0, 6, .in = F32, .variant = 1 },
    { "gate_grad", 4096, 128, 0, 6, .in = F32 },
    { "mix", 4096, 768, 0, 1, .in = F32 },
    { "mix_grad", 4096, 768, 0, 1, .in = F32 },
    { "blend", 4096, 128, 0, 6, .in = F32 },
    { "blend_grad", 4096, 128, 0, 6, .in = F32 },
    { "multiply", 4096, 192, 0, 1, .in = F32 },
    { "exclude", 4096, 128, 0, 6, .in = F32 },
    { "exclude_grad", 4096, 128, 0, 6, .in = F32 },
    { "xent", 1024, 50304, 0, 1, .in = F32, .variant = 2 }, /* three weights, the sigmoid cap */
    { "xent", 4096, 320, 0, 1, .in = F32 },
    { "sum", 1024, 4096, 0, 4, .in = F32 | F64 },
    { "sumsq", 1024, 4096, 0, 4, .in = F32 | F64 },
    { "sumsq", 768, 768, 0, 1, .in = F32 | F64 },
    { "absmax", 1024, 4096, 0, 4, .in = F32 | F64 },
    { "count_nonfinite", 1024, 4096, 0, 4, .in = F32 | F64 },
    { "normal", 1024, 4096, 0, 1, .in = F32 | F64 },
};

/* The products of a model: forward, and the gradients of the MLP's and the head's weights. */
#define MODEL_GEMMS(width, mlp)                                                    \
    { "gemm", TOKENS, 3 * (width), width, 1, .in = BF16, .trans = 0x2 },           \
        { "gemm", TOKENS, width, width, 1, .in = BF16, .trans = 0x2 },             \
        { "gemm", TOKENS, mlp, width, 1, .in = BF16, .trans = 0x2 },               \
        { "gemm", TOKENS, width, mlp, 1, .in = BF16 },                             \
        { "gemm", TOKENS, VOCAB, width, 1, .in = BF16, .trans = 0x2 },             \
        { "gemm", mlp, width, TOKENS, 1, .in = BF16, .trans = 0x1, .variant = 3 }, \
    {                                                                              \
        "gemm", VOCAB, width, TOKENS, 1, .in = BF16, .trans = 0x1, .variant = 3    \
    }

/* The ops of the operators on all matrices of a model, n_mlp of which belong to the MLP; the gemm
 * of mlp x width applies the result. */
#define OPERATOR_OPS(width, mlp, n_mlp)                                                 \
    { "gemm", width, width, width, 3 * (n_mlp), .in = F16 },                            \
        { "gemm", width, width, width, 3 * (n_mlp), .in = F16, .variant = 2 },          \
        { "product", width, width, width, 3 * (n_mlp), .in = F16, .variant = 6 },       \
        { "product", width, width, width, 3 * (n_mlp), .in = F16, .variant = 8 },       \
        { "product", width, width, width, 2 * (n_mlp), .in = F16, .variant = 3 },       \
        { "product", width, width, mlp, n_mlp, .in = F16, .trans = 0x1, .variant = 3 }, \
        { "gemm", mlp, width, width, n_mlp, .in = F16, .variant = 2 },                  \
        { "average", width, width, 0, 3 * (n_mlp), .in = F32, .variant = 2 },           \
        { "combine", width, width, 0, 3 * (n_mlp), .in = F16 },                         \
        { "combine", width, width, 0, 3 * (n_mlp), .in = F32, .variant = 7 },           \
        { "combine", width, width, 0, 3 * (n_mlp), .in = F32, .variant = 9 },           \
        { "prescale", mlp, width, 0, n_mlp, .in = F32, .variant = 1 },                  \
    {                                                                                   \
        "sumsq", width, width, 0, 3 * (n_mlp), .in = F32 | F16                          \
    }

/* The ops of the network; rope includes its norm and rotates half of the columns. */
#define NETWORK_OPS(width, mlp, heads)                                                   \
    { "embed", TOKENS, width, VOCAB, 1, .in = BF16 },                                    \
        { "embed_grad", TOKENS, width, VOCAB, 1, .in = BF16 },                           \
        { "rmsnorm", TOKENS, width, 0, 1, .in = BF16 },                                  \
        { "rmsnorm_grad", TOKENS, width, 0, 1, .in = BF16, .variant = 3 },               \
        { "rope", TOKENS, 128, 0, heads, .in = BF16, .variant = 4, .fused = true },      \
        { "rope_grad", TOKENS, 128, 0, heads, .in = BF16, .variant = 4, .fused = true }, \
        { "unary", TOKENS, mlp, 0, 1, .in = BF16, .variant = MS_UNARY_RELU2 },           \
        { "unary_grad", TOKENS, mlp, 0, 1, .in = BF16, .variant = RELU2_GRAD },          \
        { "relu2_grad_from_out", TOKENS, mlp, 0, 1, .in = BF16, .variant = 1 },          \
        { "gate", TOKENS, 128, 0, heads, .in = BF16, .fused = true },                    \
        { "gate_grad", TOKENS, 128, 0, heads, .in = BF16, .fused = true },               \
        { "mix", TOKENS, width, 0, 1, .in = BF16 },                                      \
        { "blend", TOKENS, 128, 0, heads, .in = BF16, .fused = true },                   \
        { "blend_grad", TOKENS, 128, 0, heads, .in = BF16, .fused = true },              \
        { "multiply", TOKENS, 192, 0, 1, .in = BF16 },                                   \
        { "exclude", TOKENS, 128, 0, heads, .in = BF16, .fused = true },                 \
        { "exclude_grad", TOKENS, 128, 0, heads, .in = BF16, .fused = true },            \
    {                                                                                    \
        "mix_grad", TOKENS, width, 0, 1, .in = BF16                                      \
    }

static const timed on_gpu[] = {
    { "gemm", 768, 768, 768, 1, .in = BF16 },
    { "gemm", 1024, 1024, 1024, 1, .in = BF16 },
    { "gemm", 2048, 2048, 2048, 1, .in = BF16 },
    { "gemm", 4096, 4096, 4096, 1, .in = BF16 },
    { "gemm", 8192, 8192, 8192, 1, .in = BF16 },
    { "gemm", 8192, 8192, 8192, 1, .in = F16 | F32 | F64 },
    MODEL_GEMMS(768, 3072),
    MODEL_GEMMS(1024, 4096),
    MODEL_GEMMS(2048, 8192),
    OPERATOR_OPS(768, 3072, 22),
    OPERATOR_OPS(1024, 4096, 32),
    OPERATOR_OPS(2048, 8192, 32),
    { "gemm", 768, 768, 768, 66, .in = F32 },
    { "product", 768, 768, 768, 66, .in = F32, .variant = 6 },
    { "copy", 8192, 8192, 0, 8, .in = F32 },
    { "copy", 8192, 8192, 0, 8, .in = F32, .trans = 0x1 },
    { "copy", 8192, 8192, 0, 8, .in = F32, .variant = 2 }, /* to bf16 */
    { "copy", 8192, 8192, 0, 8, .in = BF16, .trans = 0x1 },
    { "fill", 8192, 8192, 0, 8, .in = F32 },
    { "scale", 8192, 8192, 0, 4, .in = F32 },
    { "axpby", 8192, 8192, 0, 4, .in = F32 },
    { "scale_rows", 8192, 8192, 0, 4, .in = F32 },
    { "unary", 8192, 8192, 0, 4, .in = F32, .variant = MS_UNARY_SIGN },
    { "sum", 8192, 8192, 0, 8, .in = F32 | BF16 },
    { "absmax", 8192, 8192, 0, 8, .in = F32 | BF16 },
    { "count_nonfinite", 8192, 8192, 0, 8, .in = F32 | BF16 },
    { "normal", 8192, 8192, 0, 4, .in = F32 },
    { "uniform", 8192, 8192, 0, 4, .in = F32 },
    { "stochastic_round", 8192, 8192, 0, 4, .in = F32 },
    { "axpby", 3072, 768, 0, 22, .in = F32, .lists = 0x1 }, /* all parameters at once */
    { "moments", 3072, 768, 0, 22, .in = F32, .lists = 0x1 },
    { "decay_add", 3072, 768, 0, 22, .in = F32, .variant = 4,
      .lists = 0x6 }, /* with a copy in bf16 */
    { "decay_add", 3072, 768, 0, 22, .in = F32, .variant = 5, .lists = 0x6 }, /* cautious */
    { "decay_add", 8192, 2048, 0, 32, .in = F32, .variant = 5, .lists = 0x6 },
    { "decay_add", 8192, 2048, 0, 32, .in = F32, .variant = 8, .lists = 0x6 }, /* u in f16 */
    { "moments", VOCAB, 2048, 0, 1, .in = F32 },
    NETWORK_OPS(768, 3072, 6),
    NETWORK_OPS(1024, 4096, 8),
    NETWORK_OPS(2048, 8192, 16),
    { "xent", TOKENS, VOCAB, 0, 1, .in = BF16, .variant = 2 }, /* three weights, the sigmoid cap */
    { "xent", TOKENS, VOCAB, 0, 1, .in = BF16 },               /* one, no cap */
    { "attention", TOKENS, 128, 0, 6, .in = BF16 | F16, .variant = 11,
      .fused = true }, /* window 1024, documents of 2048 */
    { "attention", TOKENS, 128, 0, 8, .in = BF16, .variant = 12, .fused = true }, /* 1024, 4096 */
    { "attention", TOKENS, 128, 0, 8, .in = BF16, .variant = 13, .fused = true }, /* 128, 4096 */
    { "attention", TOKENS, 128, 0, 8, .in = BF16, .variant = 14, .fused = true }, /* 3456, 4096 */
    { "attention", TOKENS, 128, 0, 16, .in = BF16, .variant = 12, .fused = true },
    { "attention", TOKENS, 128, 0, 6, .in = BF16, .variant = 15,
      .fused = true }, /* documents of 896 */
    { "attention", TOKENS, 64, 0, 12, .in = BF16, .variant = 11, .fused = true },
    { "attention_grad", TOKENS, 128, 0, 6, .in = BF16 | F16, .variant = 11,
      .fused = true }, /* window 1024, documents of 2048 */
    { "attention_grad", TOKENS, 128, 0, 8, .in = BF16, .variant = 12,
      .fused = true }, /* 1024, 4096 */
    { "attention_grad", TOKENS, 128, 0, 8, .in = BF16, .variant = 13,
      .fused = true }, /* 128, 4096 */
    { "attention_grad", TOKENS, 128, 0, 8, .in = BF16, .variant = 14,
      .fused = true }, /* 3456, 4096 */
    { "attention_grad", TOKENS, 128, 0, 16, .in = BF16, .variant = 12, .fused = true },
    { "attention_grad", TOKENS, 128, 0, 6, .in = BF16, .variant = 15, .fused = true },
    { "upload", 8192, 8192, 0, 1, .in = F32 },
    { "download", 8192, 8192, 0, 1, .in = F32 },
    { "eigh", 768, 768, 768, 1, .in = F32 | F64, .slow = true },
    { "svd", 768, 768, 0, 1, .in = F32, .slow = true },
};

op_case *op_timings(const ms_device *d, size_t *n)
{
    const bool   host = ms_is_on_host(d);
    const timed *from = host ? on_cpu : on_gpu;
    const size_t rows = host ? COUNT(on_cpu) : COUNT(on_gpu);
    op_case     *all  = calloc(rows * (MUSEC_F16 + 1), sizeof *all);

    *n = 0;
    for (size_t i = 0; all != NULL && i < rows; i++)
        for (musec_dtype t = MUSEC_F32; t <= MUSEC_F16; t = (musec_dtype)(t + 1))
            if ((from[i].in >> t & 1u) != 0)
                all[(*n)++] = (op_case){ .op      = from[i].op,
                                         .m       = from[i].m,
                                         .n       = from[i].n,
                                         .k       = from[i].k,
                                         .count   = from[i].count,
                                         .dtype   = t,
                                         .trans   = from[i].trans,
                                         .fused   = from[i].fused,
                                         .variant = from[i].variant,
                                         .timing  = true,
                                         .slow    = from[i].slow,
                                         .lists   = from[i].lists };
    return all;
}
