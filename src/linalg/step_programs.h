/* step_programs.h - the scalar programs of optimizer steps: a part of scalar_programs.h, which is
 * what includes it. */
#ifndef MS_LINALG_STEP_PROGRAMS_H
#define MS_LINALG_STEP_PROGRAMS_H

MS_FN ms_divide_out ms_eval_divide(ms_divide_in in)
{
    const ms_divide_out out = { in.numerator / in.denominator };
    return out;
}

/* 1 where a gradient, divided by its scale, is not finite or above what its state can hold. */
MS_FN ms_is_excess_out ms_eval_is_excess(ms_is_excess_in in)
{
    const ms_is_excess_out out = { in.absmax / in.scale <= in.max ? 0.0 : 1.0 };
    return out;
}

/* A step is taken (1) if there is no excess, nobody found an infinity, and the scale is one. */
MS_FN ms_decide_step_out ms_eval_decide_step(ms_decide_step_in in)
{
    const int take =
        in.excess == 0.0 && in.found_inf == 0.0 && in.scale > 0.0 && in.scale <= DBL_MAX;
    ms_decide_step_out out;
    out.take    = take ? 1.0 : 0.0;
    out.taken   = in.taken + out.take;
    out.skipped = in.skipped + (1.0 - out.take);
    return out;
}

/* The steps of a parameter after one that is taken or not, and what undoes the start of its moments
 * from zero at that step. */
MS_FN ms_count_step_out ms_eval_count_step(ms_count_step_in in)
{
    ms_count_step_out out;
    out.steps    = in.steps + in.take * in.has_grad;
    out.correct1 = 1.0 - pow(in.beta1, in.steps + 1.0);
    out.correct2 = 1.0 - pow(in.beta2, in.steps + 1.0);
    return out;
}

/* The bound of a momentum m_weight M + g_weight G once it was clipped, which multiplies it by
 * `factor` and leaves it at most `max`, and the prediction of max|G| at the next step. */
MS_FN ms_next_bound_out ms_eval_next_bound(ms_next_bound_in in)
{
    const double sum =
        in.factor * ((in.m_weight != 0.0 ? in.m_weight * in.bound : 0.0) + in.g_weight * in.absmax);
    ms_next_bound_out out;
    out.bound      = sum < in.max ? sum : in.max;
    out.prediction = in.prediction * in.absmax;
    return out;
}

/* Whether a direction was averaged by the scale of a prediction that does not hold, and all that it
 * takes to average it again; then what the next step predicts from. */
MS_FN ms_validate_scale_out ms_eval_validate_scale(ms_validate_scale_in in)
{
    const int holds = in.predicted > 0.0 && in.predicted <= DBL_MAX &&
                      in.observed <= in.predicted && in.observed >= in.predicted / in.slack;
    const double                absmax  = holds ? in.predicted : in.observed;
    const ms_average_scale_in   average = { in.m_weight, in.g_weight, in.bound, absmax,
                                            in.threshold };
    const ms_next_bound_in      next    = { in.m_weight, in.g_weight, in.bound,     in.observed,
                                            in.factor,   in.max,      in.prediction };
    const ms_average_scale_out  scaled  = ms_eval_average_scale(average);
    const ms_next_bound_out     bounds  = ms_eval_next_bound(next);
    const ms_validate_scale_out out     = { holds ? 0.0 : 1.0, absmax,        scaled.scale,
                                        scaled.m_coef,     scaled.g_coef, bounds.bound,
                                        bounds.prediction };
    return out;
}

/* The second moment of a row (or column) whose elements have this sum of squares, 1 / inv_n of
 * them: the new average, the factor on the row, and the sum of squares that this makes of it. */
MS_FN ms_second_moment_out ms_eval_second_moment(ms_second_moment_in in)
{
    ms_second_moment_out out;
    out.v      = in.beta * in.v + (1.0 - in.beta) * in.sumsq * in.inv_n;
    out.factor = 1.0 / (sqrt(out.v) + in.eps);
    out.sumsq  = out.factor * out.factor * in.sumsq;
    return out;
}

/* The average of a mean square, but at least `floor`: the eigenvalue of a factor of KL-Shampoo. */
MS_FN ms_factor_value_out ms_eval_factor_value(ms_factor_value_in in)
{
    const double              value = in.beta * in.value + (1.0 - in.beta) * in.sumsq * in.inv_n;
    const ms_factor_value_out out   = { value > in.floor ? value : in.floor };
    return out;
}

/* The factor that gives back the norm that an update had before. */
MS_FN ms_keep_norm_out ms_eval_keep_norm(ms_keep_norm_in in)
{
    const ms_keep_norm_out out = { in.after > 0.0 ? sqrt(in.before / in.after) : 0.0 };
    return out;
}

/* The factor on an update U that makes its norm lr |W|_F, from their sums of squares. */
MS_FN ms_on_ball_out ms_eval_on_ball(ms_on_ball_in in)
{
    const ms_on_ball_out out = { in.update > 0.0 ? in.lr * sqrt(in.weight / in.update) : 0.0 };
    return out;
}

/* That factor and the decay by which W - size U has the norm of W, from the sums of squares of W
 * and of that. */
MS_FN ms_to_ball_out ms_eval_to_ball(ms_to_ball_in in)
{
    const double         back = in.after > 0.0 ? sqrt(in.before / in.after) : 0.0;
    const ms_to_ball_out out  = { back * in.size, 1.0 - back };
    return out;
}

/* The rates of a weight from a learning rate that only the device knows: the decay is a polynomial
 * of it, and the step is proportional to it, or to it and to what the decay leaves. */
MS_FN ms_step_rates_out ms_eval_step_rates(ms_step_rates_in in)
{
    ms_step_rates_out out;
    out.decay = in.decay0 + in.lr * (in.decay1 + in.lr * in.decay2);
    out.size  = in.lr * in.size * (1.0 - in.after * out.decay);
    return out;
}

#endif
