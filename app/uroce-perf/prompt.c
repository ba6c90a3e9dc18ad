/* SPDX-License-Identifier: BSD-3-Clause */
/* The prompt: commands start and stop runs, which continue while commands are read. */
#include "result.h"
#include "run_wait.h"

#include <cmdline.h>
#include <cmdline_parse.h>
#include <cmdline_parse_string.h>
#include <cmdline_socket.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct prompt {
    struct perf_options *options;
    struct perf_ports *ports;
    struct perf perf;
    struct run_wait wait;
    bool has_run, quit;
    int status;
} prompt;

/* ---- what commands do ---- */

static void print_line(const char *text)
{
    printf("%s\n", text);
}

/* Reopens the ports if the workers, the path MTU or the use of ICRCs have changed. */
static int open_ports(struct prompt *x, char *error, size_t size)
{
    struct perf_ports *ports = x->ports;

    if (ports->rnic && ports->workers == x->options->workers && ports->mtu == x->options->mtu &&
        ports->icrc == x->options->icrc)
        return 0;
    perf_ports_close(ports);
    if (!perf_ports_open(ports, x->options, error, size))
        return 0;
    perf_ports_close(ports);
    return -1;
}

static void start_run(struct prompt *x)
{
    char error[ERROR_MAX];

    if (x->perf.running) {
        print_line("a run is in progress");
        return;
    }
    if (options_check(x->options, error, sizeof(error))) {
        print_line(error);
        return;
    }
    if (x->has_run)
        run_close(&x->perf);
    x->has_run = false;
    if (open_ports(x, error, sizeof(error)) ||
        run_start(&x->perf, x->options, x->ports, error, sizeof(error))) {
        print_line(error);
        return;
    }
    x->has_run = true;
    run_wait_begin(&x->wait, NS_NEVER);
    print_line("started");
}

/* Prints a failure once; the exit status reports it, too. */
static void stop_run(struct prompt *x)
{
    if (!x->perf.running) {
        print_line("no run is in progress");
        return;
    }
    run_stop(&x->perf);
    report_result(&x->perf);
    if (atomic_load(&x->perf.failed)) {
        printf("failed: %s\n", x->perf.error);
        x->status = EXIT_FAILURE;
    }
}

static void show_topic(struct prompt *x, const char *what)
{
    if (!strcmp(what, "config"))
        show_config(x->options);
    else if (!x->has_run)
        print_line("there was no run yet");
    else if (!strcmp(what, "stats"))
        report_table(&x->perf);
    else if (!strcmp(what, "latency"))
        report_latency(&x->perf);
    else if (!strcmp(what, "qps"))
        show_qps(&x->perf);
    else
        show_xstats(&x->perf);
}

static bool is_for_command_line(const char *name)
{
    static const char *const names[] = {"batch",  "interactive", "loads",
                                        "client", "server",      "port"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

static void set_option(struct prompt *x, const char *name, const char *value)
{
    char error[ERROR_MAX];

    if (is_for_command_line(name))
        print_line("this option is for the command line only");
    else if (options_set(x->options, name, value, error, sizeof(error)))
        print_line(error);
    else if (x->perf.running)
        print_line("takes effect at the next start");
}

static void print_help(void)
{
    puts("start                  begin a run with these settings\n"
         "stop                   end it and print the results\n"
         "show stats             rates of this run, or of the last\n"
         "show latency           its latencies\n"
         "show qps               its queue pairs\n"
         "show xstats            counters of engines, ports and workers\n"
         "show config            the settings\n"
         "set NAME VALUE         for the next start; names as on the command line:");
    options_help();
    puts("clear                  restart the measurement of rates and latencies\n"
         "quit");
}

/* ---- commands ---- */

struct words {
    cmdline_fixed_string_t command, first, second;
};

static void on_command(void *parsed, struct cmdline *cl, void *data)
{
    const struct words *w = parsed;
    struct prompt *x = &prompt;

    if (!strcmp(w->command, "start"))
        start_run(x);
    else if (!strcmp(w->command, "stop"))
        stop_run(x);
    else if (!strcmp(w->command, "show"))
        show_topic(x, w->first);
    else if (!strcmp(w->command, "set"))
        set_option(x, w->first, w->second);
    else if (!strcmp(w->command, "help"))
        print_help();
    else if (strcmp(w->command, "clear"))
        x->quit = true;
    else if (x->has_run && x->perf.running)
        run_clear(&x->perf);
    else
        print_line("no run is in progress");
    fflush(stdout);
    if (x->quit)
        cmdline_quit(cl);
}

static cmdline_parse_token_string_t plain =
    TOKEN_STRING_INITIALIZER(struct words, command, "start#stop#clear#help#quit");
static cmdline_parse_token_string_t show_word =
    TOKEN_STRING_INITIALIZER(struct words, command, "show");
static cmdline_parse_token_string_t topic =
    TOKEN_STRING_INITIALIZER(struct words, first, "stats#latency#qps#xstats#config");
static cmdline_parse_token_string_t set_word =
    TOKEN_STRING_INITIALIZER(struct words, command, "set");
static cmdline_parse_token_string_t name = TOKEN_STRING_INITIALIZER(struct words, first, NULL);
static cmdline_parse_token_string_t value = TOKEN_STRING_INITIALIZER(struct words, second, NULL);

static cmdline_parse_inst_t plain_command = {
    .f = on_command,
    .help_str = "start, stop, clear, help or quit",
    .tokens = {(cmdline_parse_token_hdr_t *)&plain, NULL},
};
static cmdline_parse_inst_t show_command = {
    .f = on_command,
    .help_str = "show stats, latency, qps, xstats or config",
    .tokens = {(cmdline_parse_token_hdr_t *)&show_word, (cmdline_parse_token_hdr_t *)&topic, NULL},
};
static cmdline_parse_inst_t set_command = {
    .f = on_command,
    .help_str = "set NAME VALUE: see help",
    .tokens = {(cmdline_parse_token_hdr_t *)&set_word, (cmdline_parse_token_hdr_t *)&name,
               (cmdline_parse_token_hdr_t *)&value, NULL},
};
static cmdline_parse_ctx_t commands[] = {&plain_command, &show_command, &set_command, NULL};

/* ---- waiting ---- */

/* Passes the input to the parser. False at its end. */
static bool pass_input(struct cmdline *cl)
{
    char text[256];
    ssize_t n = read(STDIN_FILENO, text, sizeof(text));

    for (ssize_t i = 0; i < n && !prompt.quit; i++)
        if (cmdline_in(cl, &text[i], 1) < 0)
            return false;
    return n > 0;
}

static void serve_prompt(struct prompt *x, struct cmdline *cl, int signal_fd)
{
    while (!x->quit) {
        struct pollfd pfd[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                               {.fd = signal_fd, .events = POLLIN}};
        int n = poll(pfd, ARRAY_SIZE(pfd), x->perf.running ? run_wait_timeout(&x->wait) : -1);

        if (n > 0 && pfd[1].revents)
            return;
        if (n > 0 && pfd[0].revents && !pass_input(cl))
            return;
        if (x->perf.running && run_wait_check(&x->wait, &x->perf))
            stop_run(x);
        fflush(stdout);
    }
}

int prompt_run(struct perf_options *o, struct perf_ports *ports, int signal_fd)
{
    struct prompt *x = &prompt;
    struct cmdline *cl;

    x->options = o;
    x->ports = ports;
    cl = cmdline_stdin_new(commands, "uroce-perf> ");
    if (!cl) {
        fprintf(stderr, "uroce-perf: no prompt: out of memory\n");
        return EXIT_FAILURE;
    }
    serve_prompt(x, cl, signal_fd);
    if (x->perf.running)
        stop_run(x);
    if (x->has_run)
        run_close(&x->perf);
    fflush(stdout);
    cmdline_stdin_exit(cl); /* frees it too */
    return x->status;
}
