/* step_programs.h - the scalar programs of optimizer steps: a part of scalar_programs.h, which is
 * what includes it. */
#ifndef MS_LINALG_STEP_PROGRAMS_H
#define MS_LINALG_STEP_PROGRAMS_H

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
