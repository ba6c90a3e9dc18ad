/* SPDX-License-Identifier: BSD-3-Clause */
/* The series and the completion times as plots. Legible on light and dark backgrounds. See sim.h.
 */
#include <math.h>
#include <stdlib.h>

#include "sim.h"

enum {
    WIDTH = 720,
    HEIGHT = 340,
    LEFT = 64,
    RIGHT = 150, /* with the legend */
    TOP = 44,
    BOTTOM = 44,
    LINES = 10, /* in one plot, at most */
    STEPS = 5,  /* of an axis, about */
    POINTS = 600,
};

static const char style[] =
    "<style>\n"
    "svg { color-scheme: light dark; }\n"
    "text { font: 11px system-ui, sans-serif; fill: #24292f; }\n"
    ".title { font-size: 14px; font-weight: 600; }\n"
    ".note { fill: #57606a; }\n"
    ".ground { fill: #ffffff; } .plot { fill: #f3f5f7; }\n"
    ".grid { stroke: #d0d7de; stroke-width: 1; fill: none; }\n"
    ".line { fill: none; stroke-width: 1.3; stroke-linejoin: round; }\n"
    "@media (prefers-color-scheme: dark) {\n"
    "text { fill: #e6edf3; } .note { fill: #9aa4af; }\n"
    ".ground { fill: #0d1117; } .plot { fill: #161b22; } .grid { stroke: #30363d; }\n"
    "}\n"
    "</style>\n";

static const char *const colours[LINES] = {"#2f6fb7", "#c4461c", "#2d8f4e", "#8957c5", "#b08800",
                                           "#1b9aaa", "#d1458b", "#6e7781", "#7a4f2a", "#4d8b00"};

struct plot {
    FILE *out;
    const char *title, *x_title, *y_title;
    double x_least, x_most, y_most; /* the axes; y begins with 0 */
    bool log_x;
    unsigned lines;
};

/* ---- axes ---- */

/* 1, 2 or 5 times a power of ten, so that a range has about STEPS of them. */
static double step_of(double range)
{
    double power = pow(10, floor(log10(range / STEPS))), part = range / STEPS / power;

    return power * (part < 1.5 ? 1 : part < 3.5 ? 2 : part < 7.5 ? 5 : 10);
}

static double x_at(const struct plot *p, double x)
{
    double part = p->log_x ? log(x / p->x_least) / log(p->x_most / p->x_least)
                           : (x - p->x_least) / (p->x_most - p->x_least);

    return LEFT + part * (WIDTH - LEFT - RIGHT);
}

static double y_at(const struct plot *p, double y)
{
    return HEIGHT - BOTTOM - y / p->y_most * (HEIGHT - TOP - BOTTOM);
}

static void draw_x_mark(const struct plot *p, double x)
{
    fprintf(p->out,
            "<path class=\"grid\" d=\"M%.1f %dV%d\"/><text class=\"note\" text-anchor=\"middle\" "
            "x=\"%.1f\" y=\"%d\">%.6g</text>\n",
            x_at(p, x), TOP, HEIGHT - BOTTOM, x_at(p, x), HEIGHT - BOTTOM + 14, x);
}

static void draw_y_mark(const struct plot *p, double y)
{
    fprintf(p->out,
            "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text class=\"note\" text-anchor=\"end\" "
            "x=\"%d\" y=\"%.1f\">%.6g</text>\n",
            LEFT, y_at(p, y), WIDTH - RIGHT, LEFT - 6, y_at(p, y) + 4, y);
}

static void draw_x_axis(const struct plot *p)
{
    double step = step_of(p->x_most - p->x_least);

    if (p->log_x) {
        for (double x = pow(10, ceil(log10(p->x_least) - 1e-9)); x <= p->x_most * 1.0001; x *= 10)
            draw_x_mark(p, x);
        return;
    }
    for (double i = fmax(ceil(p->x_least / step - 1e-9), 0); i * step <= p->x_most * 1.0001; i++)
        draw_x_mark(p, i * step);
}

static void begin_plot(struct plot *p)
{
    double step;

    if (p->y_most <= 0)
        p->y_most = 1;
    if (p->x_most <= p->x_least)
        p->x_most = p->x_least + 1;
    step = step_of(p->y_most);
    p->y_most = ceil(p->y_most / step) * step;
    fprintf(p->out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
            "height=\"%d\" role=\"img\">\n<title>%s</title>\n%s"
            "<rect class=\"ground\" width=\"%d\" height=\"%d\"/>\n"
            "<text class=\"title\" x=\"%d\" y=\"24\">%s</text>\n"
            "<rect class=\"plot\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT, p->title, style, WIDTH, HEIGHT, LEFT, p->title, LEFT, TOP,
            WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
    draw_x_axis(p);
    for (double i = 0; i * step <= p->y_most * 1.0001; i++)
        draw_y_mark(p, i * step);
    fprintf(p->out,
            "<text class=\"note\" text-anchor=\"middle\" x=\"%d\" y=\"%d\">%s</text>\n"
            "<text class=\"note\" x=\"%d\" y=\"%d\">%s</text>\n",
            LEFT + (WIDTH - LEFT - RIGHT) / 2, HEIGHT - 10, p->x_title, 8, TOP - 14, p->y_title);
}

/* A line's name in the legend; its points follow. */
static void begin_line(struct plot *p, const char *name)
{
    const char *colour = colours[p->lines % LINES];
    int y = TOP + 12 + 16 * (int)p->lines;

    fprintf(p->out,
            "<path class=\"line\" stroke=\"%s\" d=\"M%d %dh16\"/><text x=\"%d\" y=\"%d\">%.16s"
            "</text>\n<path class=\"line\" stroke=\"%s\" d=\"",
            colour, WIDTH - RIGHT + 8, y - 4, WIDTH - RIGHT + 28, y, name, colour);
    p->lines++;
}

static void end_line(const struct plot *p)
{
    fputs("\"/>\n", p->out);
}

static void add_point(const struct plot *p, double x, double y, bool first)
{
    fprintf(p->out, "%c%.1f %.1f", first ? 'M' : 'L', x_at(p, x), y_at(p, y));
}

/* ---- rates ---- */

/* Samples from `from` on that become one point. */
static unsigned samples_of_point(const struct series *s)
{
    return 1 + s->n / POINTS;
}

/* Gb/s of a flow, or of all (flow: s->flows), in the samples before `end`. */
static double rate_before(const struct series *s, unsigned flow, unsigned begin, unsigned end)
{
    double bytes = 0;

    for (unsigned n = begin; n < end; n++)
        bytes += flow == s->flows ? (double)s->total[n] : s->bytes[(size_t)n * s->flows + flow];
    return bytes * 8 / (double)(s->at[end - 1] - s->at[begin - 1]);
}

static void draw_rate(struct plot *p, const struct series *s, unsigned flow, const char *name)
{
    unsigned step = samples_of_point(s);

    begin_line(p, name);
    for (unsigned n = 1; n + step <= s->n; n += step)
        add_point(p, (double)s->at[n + step - 1] / 1e3, rate_before(s, flow, n, n + step), n == 1);
    end_line(p);
}

static void draw_rates(FILE *out, const struct sim_result *r)
{
    const struct series *s = r->series;
    unsigned step = samples_of_point(s), lines = min_of(s->flows, (unsigned)LINES - 1);
    struct plot p = {.out = out,
                     .title = "What arrives, by flow",
                     .x_title = "time, microseconds",
                     .y_title = "Gb/s",
                     .x_most = s->n ? (double)s->at[s->n - 1] / 1e3 : 0};

    for (unsigned n = 1; n + step <= s->n; n += step) {
        p.y_most = fmax(p.y_most, rate_before(s, s->flows, n, n + step));
        for (unsigned i = 0; i < lines; i++)
            p.y_most = fmax(p.y_most, rate_before(s, i, n, n + step));
    }
    begin_plot(&p);
    draw_rate(&p, s, s->flows, r->spec->flows > 1 ? "all" : r->spec->flow[0].name);
    for (unsigned i = 0; i < lines && r->spec->flows > 1; i++)
        draw_rate(&p, s, i, r->spec->flow[i].name);
    fputs("</svg>\n", out);
}

/* ---- queues ---- */

/* The ports of switches with the longest queues, none below a fiftieth of the longest; how many. */
static unsigned longest(const struct sim_result *r, unsigned port[LINES])
{
    const struct fabric *f = lab_fabric(r->lab);
    unsigned n = 0;

    for (unsigned i = 0; i < r->series->ports; i++) {
        const struct lab_link *l = &r->spec->link[i / 2];
        uint64_t most = fabric_counters(f, i)->queue_most;
        unsigned at = n;

        if (!most || !r->spec->node[i % 2 ? l->b : l->a].is_switch)
            continue;
        while (at && fabric_counters(f, port[at - 1])->queue_most < most)
            at--;
        if (at == LINES)
            continue;
        n = min_of(n + 1, (unsigned)LINES);
        for (unsigned j = n - 1; j > at; j--)
            port[j] = port[j - 1];
        port[at] = i;
    }
    while (n && 50 * fabric_counters(f, port[n - 1])->queue_most <
                    fabric_counters(f, port[0])->queue_most)
        n--;
    return n;
}

static double peak_before(const struct series *s, unsigned port, unsigned begin, unsigned end)
{
    uint32_t peak = 0;

    for (unsigned n = begin; n < end; n++)
        peak = max_of(peak, s->peak[(size_t)n * s->ports + port]);
    return peak / 1e3;
}

static void draw_queues(FILE *out, const struct sim_result *r)
{
    const struct series *s = r->series;
    unsigned step = samples_of_point(s), port[LINES], n = longest(r, port);
    struct plot p = {.out = out,
                     .title = "The longest queues",
                     .x_title = "time, microseconds",
                     .y_title = "kB",
                     .x_most = s->n ? (double)s->at[s->n - 1] / 1e3 : 0};

    for (unsigned i = 0; i < n; i++)
        p.y_most =
            fmax(p.y_most, (double)fabric_counters(lab_fabric(r->lab), port[i])->queue_most / 1e3);
    begin_plot(&p);
    for (unsigned i = 0; i < n; i++) {
        char name[SIM_LINK_NAME];
        char *sign;

        sim_port_name(r->spec, port[i], name);
        for (sign = name; *sign; sign++) /* ">" in the name is markup */
            *sign = *sign == '>' ? '-' : *sign;
        begin_line(&p, name);
        for (unsigned k = 0; k + step <= s->n; k += step)
            add_point(&p, (double)s->at[k + step - 1] / 1e3, peak_before(s, port[i], k, k + step),
                      k == 0);
        end_line(&p);
    }
    fputs("</svg>\n", out);
}

/* ---- completion times ---- */

/* Microseconds on an axis that has no 0: a flow may take less than a nanosecond. */
static double time_of(const struct sim_result *r, unsigned i)
{
    return (double)max_of(r->times[i], (ns_t)1) / 1e3;
}

static void draw_times(FILE *out, const struct sim_result *r)
{
    unsigned step = 1 + r->done / POINTS;
    struct plot p = {.out = out,
                     .title = "Flow completion times",
                     .x_title = "microseconds",
                     .y_title = "part of the flows",
                     .log_x = true,
                     .x_least = 1,
                     .x_most = 10,
                     .y_most = 1};

    if (r->done) {
        p.x_least = pow(10, floor(log10(time_of(r, 0))));
        p.x_most = pow(10, ceil(log10(time_of(r, r->done - 1)) + 1e-9));
        if (p.x_most <= p.x_least)
            p.x_most = 10 * p.x_least;
    }
    begin_plot(&p);
    begin_line(&p, "flows");
    for (unsigned i = 0; i < r->done; i += step)
        add_point(&p, time_of(r, i), (i + 1.0) / r->spec->flows, i == 0);
    if (r->done)
        add_point(&p, time_of(r, r->done - 1), (double)r->done / r->spec->flows, false);
    end_line(&p);
    fputs("</svg>\n", out);
}

bool sim_write_svg(const char *folder, const struct sim_result *r)
{
    static const struct {
        const char *name;
        void (*draw)(FILE *out, const struct sim_result *r);
    } files[] = {
        {"rates.svg", draw_rates},
        {"queues.svg", draw_queues},
        {"fct.svg", draw_times},
    };

    for (unsigned i = 0; i < ARRAY_SIZE(files); i++) {
        FILE *f = sim_open(folder, files[i].name);

        if (!f)
            return false;
        files[i].draw(f, r);
        if (!sim_close(f, folder, files[i].name))
            return false;
    }
    return true;
}
