/* scalar_list.h - the per-matrix scalar programs: X(name, params, numbers in, vectors out).
 * Included several times; -1 is "as many as the caller says".  What each computes: scalar_fn.h. */
/* {keep, add} max|M|, max|G|, D -> own, a scale for keep M + add G, then own keep and own add */
X(AVERAGE, 2, 3, 3)
X(POW2_SCALE, 0, 2, 1) /* absmax, D -> s */
X(THRESHOLD, 1, 2, 2)  /* {tiny} s, D -> s D, max((s D)^2, tiny) */
X(SCALED, 1, 2, 4)     /* {tiny} own, D -> own, s, s D, max((s D)^2, tiny), absmax being 1 / own */
X(INV_NORM, 1, 2, 1)   /* {eps} x, f -> 1 / (f sqrt(x) + eps), 0 for 0 */
/* {eps, g, unit, low, reach, n, b, c, a', b', c', least} tr, f, own -> what rides on the first n
 * steps of Muon, g X X^T being of trace tr: with y = 1 / (f sqrt(tr / g) + eps own), 0 for 0, and
 * rho rest = y / unit, rest a power of two: y^2 / g / low; y^2 / g times b, its square times c; rho
 * times a', b' and c', of the first step if n is 1; rest.  All that of X times a power of two where
 * tr is below `least`; that power; 1 if it is not 1, else 0; own times it */
X(QUINTIC, 12, 3, 10)
X(INV_RESIDUAL, 1, 2, 1) /* {eps} x, y -> 1 / sqrt(x), 0 where sqrt(x) <= eps sqrt(y) */
X(DIVIDE, 0, 2, 1)       /* x, c -> c / x */
X(RMS, 2, 1, 1)          /* {k, r} |M|_F^2 -> k |M|_F / sqrt(r), 1 where that is 0 */
/* {r, least, whole} |G|_F^2, tr G, own, s, (s D)^2 -> N^2, tr w, m, the factor of G and those of I
 * in w and in w - m I, |w|_F; w = A / N, N being |A|_F or the next power of two, A = (s / own)^2 G
 * + (s D)^2 I, the latter at least `least` |A|_F */
X(GRAM, 3, 5, 7)
/* {tiny, r} own, D, |G|_F^2 and tr G as they were, in units of M, 0 unknown -> own, s, s D,
 * max((s D)^2, tiny), N^2, and B as it may be: the factor of G and that of I */
X(RECALL, 2, 4, 7)
/* {r} |B|_F^2, tr B, the two factors, N^2 as it was taken to be, own, s, (s D)^2 -> 1 where B has
 * to be made anew; the two factors for that; else what B lacks on its diagonal; N^2, tr w, m,
 * |w|_F; |G|_F^2 and tr G in units of M */
X(RENORM, 1, 8, 10)
/* |A|_F^2, s D, s, D, own, reach, unit -> alpha, u_low, gain, rest */
X(ALPHA_FRO, 0, 7, 4)
/* {r, margin, lift} N^2, tr w, |w|_F, quart, s D, s, D, own, reach, unit -> 1/a, alpha, u_low,
 * gain, rest; N is |A|_F or near it */
X(ALPHA_C4, 3, 10, 5)
/* {rows, cols, keys, table} x -> the first row with key <= x, else the last */
X(PICK, -1, 1, -1)
/* {lift, up} v1 v0 q0 t1 t0, q, n, win, gain, m, e1 -> c2 c1 c0, t1 t0, win m, e1 win / up: the
 * first of n stages, T of degree q in W = win (B + m I), as polynomials of B and lift B B; the only
 * one, if n is 1, with the gain on it */
X(START, 2, 11, 7)
/* v1 v0 q0 t1 t0, q, gain -> e1 e0, q0, z1 z0: the last stage, with the gain on it, from
 * E = e1 W + e0 I */
X(LAST, 0, 7, 5)
/* {i} n, e1, e0 -> what stage i of n hands on: these if the next is the last, else 1, 0 */
X(ENTRY, 1, 3, 2)
X(STAGE_MASKS, 0, 2, 9) /* q, n -> MS_STAGE_MASK_* as 0 or 1 */
X(VECTOR_GAIN, 1, 4,
  2) /* {map} |s x|^2, s, s D, D -> the two factors on x that an ms_exact_fn is */
