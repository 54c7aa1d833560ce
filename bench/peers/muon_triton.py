"""muon_triton.py - Muon's orthogonalisation with symmetric products in Triton.

What public kernels of this kind do, written anew: of X X^T and b A + c A A only the tiles that
reach the lower triangle are computed, and each is stored a second time as its mirror image.  All
matrices of a shape are one launch, the sums are in float32, coefficients are applied before
rounding, and tiles are ordered by groups of rows, which L2 keeps.  Operands come by pointers or by
TMA; that, tile, warps and stages are whatever is fastest for each shape, by Triton's autotuner.
The product with X is cuBLAS's.

The coefficients are those of Polar Express with its safety factor, five steps.  A tall matrix is
used as it lies: its Gram matrix is X^T X, and X P takes the place of P X.
"""
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

POLAR_EXPRESS = (
    (8.156554524902461, -22.48329292557795, 15.878769915207462),
    (4.042929935166739, -2.808917465908714, 0.5000178451051316),
    (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
    (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
    (2.3465413258596377, -1.7097828382687081, 0.42323551169305323),
)
SAFETY, EPS = 1.02, 1e-6
GROUP = 8  # rows of tiles

# rows and columns of a tile, depth of a load, warps, stages
BY_POINTERS = ((128, 128, 64, 4, 3), (128, 128, 64, 4, 4), (128, 128, 32, 4, 5),
               (128, 128, 64, 8, 3), (256, 128, 64, 8, 3), (64, 64, 64, 4, 4))
BY_TMA = ((128, 128, 64, 4, 3), (128, 128, 64, 8, 4), (128, 128, 128, 8, 3), (256, 128, 64, 8, 4))


def set_boxes(args):
    """Sets the tile shapes of the TMA descriptors, which depend on the configuration."""
    m, n, k = args["BLOCK_M"], args["BLOCK_N"], args["BLOCK_K"]
    turned = args["TURNED"]
    args["x_rows"].block_shape = [1, k, m] if turned else [1, m, k]
    args["x_cols"].block_shape = [1, k, n] if turned else [1, n, k]


def configurations():
    return [triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP": GROUP, "TMA": tma},
                          num_warps=warps, num_stages=stages, pre_hook=set_boxes)
            for tma, some in ((False, BY_POINTERS), (True, BY_TMA))
            for m, n, k, warps, stages in some]


@triton.jit
def triangle_row(t):
    """The row of element t of a triangle: 0, 1 1, 2 2 2, ...  Exact for t below 2^21."""
    return ((tl.sqrt_rn(8.0 * t + 1.0) - 1.0) * 0.5).to(tl.int32)


@triton.jit
def tile_of(t, row_tiles, RATIO: tl.constexpr, GROUP: tl.constexpr):
    """Tile t of those that overlap the lower triangle, RATIO (i + 1) of them in row i.

    A group of rows begins with a rectangle, by columns, and ends with a triangle, by rows.
    """
    first = triangle_row(t // RATIO) // GROUP * GROUP
    height = tl.minimum(row_tiles - first, GROUP)
    t -= RATIO * (first * (first + 1) // 2)
    end = t - height * RATIO * first
    if end < 0:
        i = first + t % height
        j = t // height
    else:
        down = triangle_row(end // RATIO)
        i = first + down
        j = RATIO * first + end - RATIO * (down * (down + 1) // 2)
    return i, j


@triton.autotune(configs=configurations(), key=["rows", "cols", "TURNED", "POLYNOMIAL"])
@triton.heuristics({"WHOLE": lambda args: args["rows"] % args["BLOCK_M"] == 0
                    and args["cols"] % args["BLOCK_K"] == 0})
@triton.jit
def symmetric_kernel(x, x_rows, x_cols, out, rows, cols, x_matrix, x_row, x_col, alpha,
                     beta, diagonal, TURNED: tl.constexpr, POLYNOMIAL: tl.constexpr,
                     BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
                     GROUP: tl.constexpr, TMA: tl.constexpr, WHOLE: tl.constexpr):
    """out = alpha X X^T, for a polynomial + beta X + diagonal I, where X is symmetric.

    A tile is square, or RATIO times as high as wide.  Tiles of the squares on the diagonal cover
    these; only tiles left of them are mirrored.
    """
    RATIO: tl.constexpr = BLOCK_M // BLOCK_N
    i, j = tile_of(tl.program_id(0), tl.cdiv(rows, BLOCK_M), RATIO, GROUP)
    batch = tl.program_id(1)
    row, col = i * BLOCK_M, j * BLOCK_N
    m = row + tl.arange(0, BLOCK_M)
    n = col + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    x += batch.to(tl.int64) * x_matrix
    out += batch.to(tl.int64) * rows * rows
    inside = (m < rows)[:, None] & (n < rows)[None, :]
    a_at = x + m[:, None] * x_row + k[None, :] * x_col
    b_at = x + k[:, None] * x_col + n[None, :] * x_row
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for depth in range(0, cols, BLOCK_K):
        if TMA and TURNED:
            a = x_rows.load([batch, depth, row]).reshape(BLOCK_K, BLOCK_M).T
            b = x_cols.load([batch, depth, col]).reshape(BLOCK_K, BLOCK_N)
        elif TMA:
            a = x_rows.load([batch, row, depth]).reshape(BLOCK_M, BLOCK_K)
            b = x_cols.load([batch, col, depth]).reshape(BLOCK_N, BLOCK_K).T
        elif WHOLE:
            a = tl.load(a_at)
            b = tl.load(b_at)
        else:
            more = depth + k < cols
            a = tl.load(a_at, mask=(m < rows)[:, None] & more[None, :], other=0.0)
            b = tl.load(b_at, mask=(n < rows)[None, :] & more[:, None], other=0.0)
        acc = tl.dot(a, b, acc)
        a_at += BLOCK_K * x_col
        b_at += BLOCK_K * x_col
    acc *= alpha
    if POLYNOMIAL:
        at = x + m[:, None] * x_row + n[None, :] * x_col
        acc += beta * tl.load(at, mask=inside, other=0.0).to(tl.float32)
        acc += tl.where(m[:, None] == n[None, :], diagonal, 0.0)
    tile = acc.to(tl.bfloat16)
    tl.store(out + m[:, None] * rows + n[None, :], tile, mask=inside)
    if j < RATIO * i:
        tl.store(out + n[:, None] * rows + m[None, :], tile.T, mask=inside.T)


def symmetric(x, turned, alpha, beta, diagonal, polynomial):
    """For x (batch, rows, cols) in bf16, or its transposed matrices: (batch, rows, rows)."""
    batch, rows, cols = x.shape
    row_stride, col_stride = x.stride(1), x.stride(2)
    if turned:
        rows, cols, row_stride, col_stride = cols, rows, col_stride, row_stride
    out = torch.empty(batch, rows, rows, device=x.device, dtype=torch.bfloat16)
    box = [1, 64, 64]  # until set_boxes

    def grid(meta):
        high = triton.cdiv(rows, meta["BLOCK_M"])
        return meta["BLOCK_M"] // meta["BLOCK_N"] * high * (high + 1) // 2, batch

    symmetric_kernel[grid](
        x, TensorDescriptor.from_tensor(x, box), TensorDescriptor.from_tensor(x, box),
        out, rows, cols, x.stride(0), row_stride, col_stride, alpha, beta, diagonal,
        TURNED=turned, POLYNOMIAL=polynomial)
    return out


@torch.compiler.disable  # code before and after it may be compiled
def steps(x, on_diagonal):
    turned = x.size(-2) > x.size(-1)
    for a, b, c in POLAR_EXPRESS:
        gram = symmetric(x, turned, 1.0, 0.0, 0.0, False)
        poly = symmetric(gram, False, c, b, a if on_diagonal else 0.0, True)
        pair = (x, poly) if turned else (poly, x)
        x = torch.bmm(*pair) if on_diagonal else torch.baddbmm(x, *pair, beta=a)
    return x


def normalised(g):
    x = g.bfloat16()
    return x / (SAFETY * x.norm(dim=(-2, -1), keepdim=True) + EPS)


def ns5(g):
    """(batch, rows, cols) -> nearly orthogonal, in bf16; a X is added by the product with X."""
    return steps(normalised(g), False)


def ns5_diagonal(g):
    """The same with a I in the polynomial: a X is not copied before that product."""
    return steps(normalised(g), True)


def reference(g):
    """The same in the precision of g, by full products."""
    x = g / (SAFETY * g.norm(dim=(-2, -1), keepdim=True) + EPS)
    for a, b, c in POLAR_EXPRESS:
        gram = x.mT @ x
        x = a * x + x @ (b * gram + c * gram @ gram)
    return x


def relative_error(operator, g):
    """The error for the first matrices; it runs on the whole batch, which is tuned for."""
    exact = reference(g[:2].double())
    return ((operator(g)[:2] - exact).norm() / exact.norm()).item()
