/* coeffs.c - see coeffs.h. */
#include "coeffs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

/* Up to max numbers; returns how many there are. */
static int numbers(const char *text, double *out, int max)
{
    int n = 0;
    for (char *end = NULL; n < max; n++, text = end) {
        out[n] = strtod(text, &end);
        if (end == text) break;
    }
    return n;
}

static void read_plan(const char *line, coeffs_plan *p)
{
    double v[4];
    int    after = 0;
    CHECK(sscanf(line, "plan %23s%n", p->name, &after) == 1, "%s", line);
    CHECK(numbers(line + after, v, 4) == 4, "%s", line);
    p->u_d      = v[0];
    p->products = (int)v[1];
    p->n_stages = (int)v[2];
    p->tol      = v[3];
    CHECK(p->n_stages >= 1 && p->n_stages <= COEFFS_STAGES, "%s", line);
}

/* q, a number, and the q + 1 numbers of `row`. */
static void read_row(const char *line, int *q, double *first, double *row)
{
    double    v[2 + COEFFS_Q + 1];
    const int n = numbers(line, v, 2 + COEFFS_Q + 1);
    CHECK(n >= 4 && n == (int)v[0] + 3, "%s", line);
    *q     = (int)v[0];
    *first = v[1];
    memcpy(row, v + 2, (size_t)(*q + 1) * sizeof *v);
}

size_t coeffs_read(coeffs_plan *plans, size_t max)
{
    char         path[512], line[1024];
    size_t       n      = 0;
    int          stages = 0, q = 0; /* of the current plan so far */
    coeffs_plan *p = NULL;

    snprintf(path, sizeof path, "%s/golden/coeffs.txt", check_data_dir());
    FILE *f = fopen(path, "r");
    CHECK(f != NULL, "%s cannot be opened", path);
    while (fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, "plan ", 5) == 0) {
            CHECK(n < max, "more than %zu plans", max);
            p      = &plans[n++];
            stages = 0;
            read_plan(line, p);
        } else if (strncmp(line, "stage ", 6) == 0) {
            CHECK(p != NULL && stages < p->n_stages, "%s", line);
            coeffs_stage *s = &p->stage[stages++];
            read_row(line + 6, &s->q, &s->error, s->c);
        } else if (strncmp(line, "cheb ", 5) == 0) {
            CHECK(p != NULL && stages > 0, "%s", line);
            coeffs_stage *s = &p->stage[stages - 1];
            read_row(line + 5, &q, &s->wmax, s->k);
            CHECK(q == s->q, "%s", line);
            s->has_cheb = true;
        } else {
            CHECK(line[0] == '#' || line[0] == '\n', "%s", line);
        }
    }
    fclose(f);
    return n;
}
