/* scalar_list.h - the per-matrix scalar programs: X(name, params, numbers in, vectors out).
 * Included several times; -1 is "as many as the caller says".  What each computes: scalar_fn.h. */
X(POW2_SCALE, 0, 2, 1)   /* absmax, D -> s */
X(THRESHOLD, 1, 2, 2)    /* {tiny} s, D -> s D, max((s D)^2, tiny) */
X(INV_SQRT, 0, 1, 1)     /* x -> 1 / sqrt(x), 0 for 0 */
X(INV_NORM, 1, 2, 1)     /* {eps} x, f -> 1 / (f sqrt(x) + eps) */
X(INV_RESIDUAL, 1, 2, 1) /* {eps} x, y -> 1 / sqrt(x), 0 where sqrt(x) <= eps sqrt(y) */
X(DIVIDE, 0, 2, 1)       /* x, c -> c / x */
X(RMS, 2, 1, 1)          /* {k, r} |M|_F^2 -> k |M|_F / sqrt(r), 1 where that is 0 */
X(MEAN_SHIFT, 1, 1, 2)   /* {r} tr A -> m, -m with m = tr A / r */
/* {r, least} |G|_F^2, tr G, own, s, (s D)^2 -> |A|_F^2, tr A1, m, then the factor of G and those of
 * I in A1 and in A1 - m I; A = (s / own)^2 G + (s D)^2 I, the latter at least `least` |A|_F */
X(GRAM, 2, 5, 6)
/* |A|_F^2, s D, s, D, own, reach -> alpha, u_low, gain, rest */
X(ALPHA_FRO, 0, 6, 4)
/* {r, margin} |A|_F^2, tr A1, quart, s D, s, D, own, reach -> 1/a, alpha, u_low, gain, rest */
X(ALPHA_C4, 2, 8, 5)
/* {rows, cols, keys, table} x -> the first row with key <= x, else the last */
X(PICK, -1, 1, -1)
/* v1 v0 q0 t1 t0, win, gain, m -> the same numbers for gain T(win (B + m I)) as a function of B */
X(STAGE, 0, 8, 5)
X(SQUARE, 0, 3, 3)      /* v1 v0 q0 -> (v1 W + v0 I)^2 + q0 I as coefficients of W^2, W, I */
X(VECTOR_GAIN, 1, 4, 2) /* {map} |s x|^2, s, s D, D -> the two factors on x that an ms_map is */
