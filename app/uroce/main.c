/* SPDX-License-Identifier: BSD-3-Clause */
/* The command uroce: finds the subcommand and runs it. See command.h. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "dissect.h"
#include "output.h"
#include "replay.h"

static const struct command {
    const char *name, *arguments, *help;
    int (*main)(int argc, char **argv);
} commands[] = {
    {"run", "[OPTIONS] [--] PROGRAM [ARG...]",
     "run an RDMA program on the software RNIC, starting a loopback daemon when none is running",
     cmd_run},
    {"show", "[TOPIC] [--socket PATH] [--json]",
     "devices, ports, queue pairs, counters and drops of the running uroced", cmd_show},
    {"top", "[--period S] [--count N] [--qps] [--latency] [--socket PATH] [--json]",
     "rates of ports, workers, programs and drops, again and again", cmd_top},
    {"rdma", "[-jpdo] [--socket PATH] dev|link|resource|statistic [show ...]",
     "what iproute2's rdma prints of kernel devices, of the running uroced's", cmd_rdma},
    {"metrics", "[--socket PATH] [--format openmetrics|prometheus]",
     "counters of the running uroced as Prometheus and others read them", cmd_metrics},
    {"trace", "[--qpn N] [--socket PATH] [--json]",
     "recent unusual events: drops, faults, timeouts, changes of state", cmd_trace},
    {"why", "[QPN | wr_id=N | pid=N|NAME | code=N] [--all] [--socket PATH] [--json]",
     "why a work request or queue pair failed: the cause in a sentence, and the evidence", cmd_why},
    {"fault", "add RULE... | now ... | list [--json] | remove N|all",
     "packets and calls of programs go wrong on purpose, by rules", cmd_fault},
    {"dissect", "FILE", "print the RoCEv2 packets of a capture", uroce_dissect},
    {"replay", "[--json] [--side A|B|both] FILE",
     "play each side of a capture and compare the engine's packets with the recorded ones",
     uroce_replay},
    {"entropy", "[FLOWS...] [OPTIONS]",
     "how source port policies spread queue pairs over the paths of a network", cmd_entropy},
    {"sim", "[OPTIONS] FILE",
     "run the engines of many hosts in virtual time, over switches with queues, marks and pauses",
     cmd_sim},
};

static void print_help(FILE *out)
{
    fputs("usage: uroce COMMAND [ARGUMENTS]\n\ncommands:\n", out);
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        fprintf(out, "  %s %s\n        %s\n", commands[i].name, commands[i].arguments,
                commands[i].help);
    fputs("\n  --help       this text; 'uroce COMMAND --help' for one command\n"
          "  --version    the version\n",
          out);
}

/* With stdin closed, for example, a socket would become descriptor 0. The placeholders are closed
 * on exec. Nothing can be written to them: what was printed to a closed output is lost. */
static void occupy_standard_descriptors(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

/* getopt's messages begin with "uroce" and the command's name. */
static int run_command(const struct command *c, int argc, char **argv)
{
    char name[64];
    int status;

    snprintf(name, sizeof(name), "uroce: %s", c->name);
    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        puts("uroce " UROCE_VERSION);
        return output_end(name, 0);
    }
    argv[0] = name;
    status = c->main(argc, argv);
    return status ? status : output_end(name, 0);
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcmp(name, commands[i].name) == 0)
            return &commands[i];
    return NULL;
}

/* A link to uroce with the name of another program, in the folder that `uroce run` puts before PATH
 * (run/installation.h), is the command of that name. */
static const struct command *command_of_link(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

    return strcmp(name, "rdma") == 0 ? find_command(name) : NULL;
}

int main(int argc, char **argv)
{
    const struct command *c = argc > 0 ? command_of_link(argv[0]) : NULL;
    const char *name = argc > 1 ? argv[1] : NULL;

    occupy_standard_descriptors();
    if (c)
        return run_command(c, argc, argv);
    if (!name) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_help(stdout);
        return output_end("uroce", 0);
    }
    if (strcmp(name, "--version") == 0) {
        puts("uroce " UROCE_VERSION);
        return output_end("uroce", 0);
    }
    c = find_command(name);
    if (c)
        return run_command(c, argc - 1, argv + 1);

    fprintf(stderr, "uroce: '%s' is not a command\n", name);
    print_help(stderr);
    return EXIT_USAGE;
}
