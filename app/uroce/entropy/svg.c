/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loads of paths as bars: a small plot for each policy (row) and hash (column), with one scale
 * for all plots of the same number of paths. Legible on light and dark backgrounds. See spread.h.
 */
#include <math.h>

#include "common.h"
#include "spread.h"

enum {
    MARGIN = 16,
    LABELS = 92, /* the policies' names */
    PLOT_WIDTH = 192,
    PLOT_HEIGHT = 84,
    GAP_X = 18,
    GAP_Y = 34, /* with the line of text under a plot */
    TITLE = 66,
    HEADING = 34, /* of each number of paths */
};

static const char style[] =
    "<style>\n"
    "svg { color-scheme: light dark; }\n"
    "text { font: 11px system-ui, sans-serif; fill: #24292f; }\n"
    ".title { font-size: 15px; font-weight: 600; }\n"
    ".head { font-size: 12px; font-weight: 600; }\n"
    ".note { fill: #57606a; }\n"
    ".ground { fill: #ffffff; }\n"
    ".plot { fill: #f3f5f7; }\n"
    ".bar { fill: #2f6fb7; }\n"
    ".over { fill: #c4461c; }\n"
    ".chance { fill: #8c959f; fill-opacity: 0.25; }\n"
    ".mean { stroke: #24292f; stroke-dasharray: 4 3; }\n"
    "@media (prefers-color-scheme: dark) {\n"
    "text { fill: #e6edf3; } .note { fill: #9aa4af; } .ground { fill: #0d1117; }\n"
    ".plot { fill: #1b222b; } .bar { fill: #5aa2ee; } .over { fill: #f0844f; }\n"
    ".mean { stroke: #e6edf3; }\n"
    "}\n"
    "</style>\n";

/* The load at the plot's upper edge: the fullest path's, but at largest three times the mean.
 * Higher bars are cut; they would flatten all others. */
static double top_load(const struct spread_result *r, unsigned paths)
{
    double mean = (double)r->flows / paths, largest = 0;

    for (unsigned i = 0; i < r->spreads; i++)
        if (r->spread[i].paths == paths)
            largest = max_of(largest, r->spread[i].imbalance * mean);
    return min_of(max_of(1.05 * largest, 1.5 * mean), 3 * mean);
}

/* All cut bars, or all others, as one shape. */
static void print_bars(FILE *out, const struct spread *s, double x, double bottom, double top,
                       bool over)
{
    double step = (double)PLOT_WIDTH / s->paths, gap = step > 3 ? 1 : step / 4;

    fprintf(out, "<path class=\"%s\" d=\"", over ? "over" : "bar");
    for (unsigned p = 0; p < s->paths; p++) {
        double height = min_of(s->load[p] / top, 1.0) * PLOT_HEIGHT;

        if (s->load[p] > 0 && (s->load[p] > top) == over)
            fprintf(out, "M%.2f %.2fv%.2fh%.2fv%.2fz", x + p * step + gap / 2, bottom, -height,
                    step - gap, height);
    }
    fputs("\"/>\n", out);
}

static void print_plot(FILE *out, const struct spread *s, unsigned flows, double top, int x, int y)
{
    double mean = (double)flows / s->paths, bottom = y + PLOT_HEIGHT;
    double deviation = sqrt(mean * (1 - 1.0 / s->paths));
    double high = min_of(mean + deviation, top) / top * PLOT_HEIGHT;
    double low = max_of(mean - deviation, 0) / top * PLOT_HEIGHT;

    fprintf(out, "<rect class=\"plot\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", x, y,
            PLOT_WIDTH, PLOT_HEIGHT);
    print_bars(out, s, x, bottom, top, false);
    print_bars(out, s, x, bottom, top, true);
    fprintf(out, "<rect class=\"chance\" x=\"%d\" y=\"%.2f\" width=\"%d\" height=\"%.2f\"/>\n", x,
            bottom - high, PLOT_WIDTH, high - low);
    fprintf(out, "<path class=\"mean\" d=\"M%d %.2fh%d\"/>\n", x, bottom - mean / top * PLOT_HEIGHT,
            PLOT_WIDTH);
    fprintf(out, "<text class=\"note\" x=\"%d\" y=\"%d\">max/mean %.2f, cv %.2f, idle %u</text>\n",
            x, y + PLOT_HEIGHT + 14, s->imbalance, s->cv, s->idle);
}

static void print_heading(FILE *out, const struct spread_plan *plan,
                          const struct spread_baseline *b, int y)
{
    fprintf(out,
            "<text class=\"head\" x=\"%d\" y=\"%d\">%u path%s</text>\n"
            "<text class=\"note\" x=\"%d\" y=\"%d\">random assignment: max/mean %.2f, cv %.2f, "
            "idle %.1f</text>\n",
            MARGIN, y, b->paths, b->paths == 1 ? "" : "s", MARGIN + LABELS, y, b->random_imbalance,
            b->random_cv, b->random_idle);
    for (unsigned i = 0; i < plan->hashes; i++)
        fprintf(out, "<text class=\"head\" x=\"%d\" y=\"%d\">%s</text>\n",
                MARGIN + LABELS + (int)i * (PLOT_WIDTH + GAP_X), y + 18,
                spread_hash_name[plan->hash[i]]);
}

static void print_block(FILE *out, const struct spread_plan *plan, const struct spread_result *r,
                        unsigned number, int y)
{
    unsigned per_block = plan->policies * plan->hashes;
    double top = top_load(r, plan->paths[number]);

    print_heading(out, plan, &r->baseline[number], y);
    for (unsigned i = 0; i < per_block; i++) {
        const struct spread *s = &r->spread[number * per_block + i];
        int column = (int)(i % plan->hashes), row = (int)(i / plan->hashes);
        int plot_y = y + HEADING - 8 + row * (PLOT_HEIGHT + GAP_Y);
        char policy[ENTROPY_TEXT_MAX];

        entropy_policy_format(policy, &s->policy);
        if (!column)
            fprintf(out, "<text class=\"head\" x=\"%d\" y=\"%d\">%s</text>\n", MARGIN,
                    plot_y + PLOT_HEIGHT / 2, policy);
        print_plot(out, s, r->flows, top, MARGIN + LABELS + column * (PLOT_WIDTH + GAP_X), plot_y);
    }
}

int spread_print_svg(FILE *out, const struct spread_plan *plan, const struct spread_result *r)
{
    int block_height = HEADING + (int)plan->policies * (PLOT_HEIGHT + GAP_Y);
    int width = 2 * MARGIN + LABELS + (int)plan->hashes * (PLOT_WIDTH + GAP_X) - GAP_X;
    int height = TITLE + (int)plan->path_counts * block_height + MARGIN;

    width = max_of(width, 560); /* the lines of text */
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
            "height=\"%d\" role=\"img\">\n<title>%u flows over paths</title>\n%s"
            "<rect class=\"ground\" width=\"%d\" height=\"%d\"/>\n",
            width, height, width, height, r->flows, style, width, height);
    fprintf(out,
            "<text class=\"title\" x=\"%d\" y=\"26\">%u flow%s by source port policy and "
            "hash</text>\n"
            "<text class=\"note\" x=\"%d\" y=\"44\">Bars: flows on each path. Dashed: the mean. "
            "Grey: one standard deviation of chance. Red: cut off.</text>\n",
            MARGIN, r->flows, r->flows == 1 ? "" : "s", MARGIN);
    for (unsigned i = 0; i < plan->path_counts; i++)
        print_block(out, plan, r, i, TITLE + (int)i * block_height);
    fputs("</svg>\n", out);
    return 0;
}
