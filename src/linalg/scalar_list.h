/* scalar_list.h - the per-matrix scalar programs: X(name, numbers in, numbers out).
 *
 * The file is included several times.  A row makes structs whose members have these names
 * (scalar_programs.h), so that neither a program nor its caller counts positions.  XT marks the
 * programs that also read a table.  What each program computes: scalar_programs.h. */
#ifndef XT
#define XT X
#endif
X(average_scale, (m_weight, g_weight, m_absmax, g_absmax, threshold), (scale, m_coef, g_coef))
X(pow2_scale, (absmax, threshold), (s))
X(scale_threshold, (tiny, s, threshold), (sd, sd2))
X(scaled_input, (tiny, scale, threshold), (scale, s, sd, sd2))
X(inv_norm, (sumsq, factor, eps, is_floor), (inverse))
X(quintic_coefs,
  (eps, is_floor, gram_scale, out_scale, ap_scale, max_exponent, n_steps, first_b, first_c, last_a,
   last_b, last_c, min_trace, trace, norm_factor, scale),
  (pap_coef, first_b, first_c, last_a, last_b, last_c, residual, boost, is_boosted, scale))
X(inv_residual, (eps, sumsq, fresh_sumsq), (inverse))
X(divide, (numerator, denominator), (quotient))
X(is_excess, (absmax, scale, max), (excess))
X(decide_step, (excess, found_inf, scale, taken, skipped), (take, taken, skipped))
X(count_step, (take, has_grad, steps, beta1, beta2), (steps, correct1, correct2))
X(validate_scale,
  (predicted, observed, slack, m_weight, g_weight, bound, threshold, factor, max, prediction),
  (redo, absmax, scale, m_coef, g_coef, bound, prediction))
X(next_bound, (m_weight, g_weight, bound, absmax, factor, max, prediction), (bound, prediction))
X(step_rates, (lr, size, after, decay0, decay1, decay2), (size, decay))
X(second_moment, (v, sumsq, inv_n, beta, eps), (v, factor, sumsq))
X(factor_value, (value, sumsq, inv_n, beta, floor), (value))
X(keep_norm, (before, after), (factor))
X(on_ball, (lr, weight, update), (size))
X(to_ball, (size, before, after), (size, decay))
X(rms, (factor, rank, scale, sumsq), (threshold))
X(normalise_gram, (rank, min_ratio, pow2_norm, gram_sumsq, gram_trace, scale, s, sd2),
  (norm2, trace, mean, gram_coef, diag, shifted_diag, fro))
X(load_gram_norms, (tiny, rank, scale, threshold, gram_sumsq, gram_trace),
  (scale, s, sd, sd2, norm2, gram_coef, diag))
X(revalidate_gram_norms, (rank, b_sumsq, b_trace, gram_coef, diag, norm2, scale, s, sd2),
  (redo, gram_coef, diag, diag_fix, norm2, trace, mean, fro, gram_sumsq, gram_trace))
X(alpha_fro, (norm2, sd, s, threshold, scale, max_exponent, out_scale),
  (alpha, u_min, gain, residual))
X(alpha_c4,
  (rank, margin, square_scale, norm2, trace, fro, square_sumsq, max_lambda, sd, s, threshold, scale,
   max_exponent, out_scale),
  (inv_alpha, alpha, u_min, gain, residual))
XT(pick_stage, (n_plans, loose, reductions, u_min), (v1, v0, q0, t1, t0))
XT(pick_ends, (n_plans, loose, reductions, u_min),
   (v1, v0, q0, t1, t0, last_v1, last_v0, last_q0, last_t1, last_t0, q, n_stages))
X(first_stage, (square_scale, wt_scale, v1, v0, q0, t1, t0, q, n_stages, w_coef, gain, mean, e1),
  (c2, c1, c0, t1, t0, w_mean, e1))
X(last_stage, (v1, v0, q0, t1, t0, q, gain), (e1, e0, q0, z1, z0))
X(handoff, (stage, n_stages, e1, e0), (e1, e0))
X(stage_masks, (q, n_stages),
  (square, no_square, single, several, several_square, second, third, even, odd))
XT(begin_reduction,
   (reach, min_u, min_shift, margin, max_exponent, tiny, u_min, alpha, norm2, mean, s, sd, sd2,
    scale, threshold),
   (mask, inv_alpha, mean, gain, scale, s, sd, sd2, threshold, max_lambda))
X(end_reduction,
  (mask, old_norm2, old_mean, old_inv_alpha, old_alpha, old_u_min, old_gain, old_residual, norm2,
   mean, inv_alpha, alpha, u_min, gain, residual, reductions),
  (norm2, mean, inv_alpha, alpha, u_min, gain, residual, reductions))
X(vector_gain, (sharpness, sumsq, s, sd, threshold), (first, second))
X(sharp_coef, (scale, residual, out_scale), (square))
#undef XT
