/* SPDX-License-Identifier: BSD-3-Clause */
/* `uroce sim`: see sim.h. */
#include "sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "output.h"

#define TEXT_MAX (16u << 20)

struct run {
    struct series series;
    struct capture *capture;
};

/* ---- the file ---- */

/* NULL, with a message on stderr. */
static char *read_text(const char *name, size_t *len)
{
    bool standard = !strcmp(name, "-");
    FILE *in = standard ? stdin : fopen(name, "re");
    char *text = malloc(TEXT_MAX + 1);
    int err = in ? 0 : errno;

    *len = in && text ? fread(text, 1, TEXT_MAX + 1, in) : 0;
    if (in && !err && ferror(in))
        err = errno;
    if (in && !standard)
        fclose(in);
    if (!text)
        err = ENOMEM;
    else if (*len > TEXT_MAX)
        err = EFBIG;
    if (!err)
        return text;
    fprintf(stderr, "uroce sim: %s: %s\n", name, strerror(err));
    free(text);
    return NULL;
}

/* Exit status. */
static int add_faults(struct lab_spec *spec, const struct sim_arguments *a)
{
    char error[INJECT_ERROR_MAX];

    for (unsigned i = 0; i < a->faults; i++)
        if (lab_read_rule(spec, a->fault[i], error)) {
            fprintf(stderr, "uroce sim: --fault \"%s\": %s\n", a->fault[i], error);
            return EXIT_USAGE;
        }
    return EXIT_SUCCESS;
}

/* Exit status. */
static int read_spec(struct lab_spec *spec, const struct sim_arguments *a)
{
    struct lab_error error;
    size_t len;
    char *text = read_text(a->file, &len);
    int err;

    if (!text)
        return EXIT_FAILURE;
    err = lab_spec_read(spec, text, len, a->has_seed ? &a->seed : NULL, a->until, &error);
    free(text);
    if (!err)
        return add_faults(spec, a);
    if (error.line)
        fprintf(stderr, "uroce sim: %s:%u: %s\n", a->file, error.line, error.text);
    else
        fprintf(stderr, "uroce sim: %s: %s\n", a->file, error.text);
    return EXIT_FAILURE;
}

/* ---- the run ---- */

static void on_sample(void *ctx, struct lab *lab, ns_t now)
{
    struct run *run = ctx;

    series_sample(&run->series, lab, now);
}

static void on_frame(void *ctx, unsigned port, const uint8_t *data, uint32_t len, ns_t now)
{
    struct run *run = ctx;

    sim_capture_frame(run->capture, port, data, len, now);
}

/* Exit status. */
static int write_all(const struct sim_arguments *a, const struct sim_result *r)
{
    int err = a->json ? sim_print_json(stdout, r) : sim_print_text(stdout, r);

    if (output_end("uroce sim", err))
        return EXIT_FAILURE;
    if ((a->csv && !sim_write_csv(a->csv, r)) || (a->svg && !sim_write_svg(a->svg, r)))
        return EXIT_FAILURE;
    return EXIT_SUCCESS;
}

static int fail(int err)
{
    fprintf(stderr, "uroce sim: %s\n",
            err == -EDEADLK ? "an engine does not stop: this is a bug" : strerror(-err));
    return EXIT_FAILURE;
}

static int run_lab(const struct sim_arguments *a, const struct lab_spec *spec, struct run *run)
{
    struct lab_hooks hooks = {run, on_sample, run->capture ? on_frame : NULL};
    struct lab *lab = lab_create(spec, &hooks);
    struct sim_result r;
    int status, err;

    if (!lab)
        return fail(-ENOMEM);
    err = lab_run(lab);
    if (!err && run->series.failed)
        err = -ENOMEM;
    if (!err) {
        err = sim_compute(&r, spec, lab, &run->series);
        status = err ? EXIT_FAILURE : write_all(a, &r);
        sim_result_free(&r);
    }
    lab_destroy(lab);
    return err ? fail(err) : status;
}

static int run_spec(const struct sim_arguments *a, const struct lab_spec *spec)
{
    struct run run = {0};
    int status;

    /* A run may take long: what cannot be written is found out first. */
    if ((a->csv && !sim_make_folder(a->csv)) || (a->svg && !sim_make_folder(a->svg)))
        return EXIT_FAILURE;
    if (series_init(&run.series, spec))
        return fail(-ENOMEM);
    run.capture = a->pcap ? sim_capture_open(spec, a) : NULL;
    status = a->pcap && !run.capture ? EXIT_FAILURE : run_lab(a, spec, &run);
    if (run.capture && !sim_capture_close(run.capture))
        status = EXIT_FAILURE;
    series_fini(&run.series);
    return status;
}

int cmd_sim(int argc, char **argv)
{
    struct sim_arguments a = {0};
    struct lab_spec spec;
    int status = sim_parse_arguments(&a, argc, argv);

    if (status > 0) {
        fputs(sim_help, stdout);
        return EXIT_SUCCESS;
    }
    if (status < 0) {
        fputs("uroce sim --help says more\n", stderr);
        return EXIT_USAGE;
    }
    memset(&spec, 0, sizeof(spec));
    status = read_spec(&spec, &a);
    if (status == EXIT_SUCCESS)
        status = run_spec(&a, &spec);
    lab_spec_free(&spec);
    return status;
}
