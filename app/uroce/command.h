/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The subcommands of uroce. Each takes its own argument vector (argv[0] is the subcommand's name)
 * and returns the process's exit status: 0, 1 for a failure that was reported on stderr, 2 for
 * wrong usage.
 */
#ifndef UROCE_COMMAND_H
#define UROCE_COMMAND_H

enum {
    EXIT_USAGE = 2,
};

/* uroce run [OPTIONS] [--] PROGRAM [ARG...]: replaces this process by the program on success.
 * As with env(1), the status is 127 when the program is not found and 126 when it cannot be
 * executed. */
int cmd_run(int argc, char **argv);

/* uroce show [TOPIC] [--socket PATH] [--json]: the daemon's state as tables or as JSON. */
int cmd_show(int argc, char **argv);

/* uroce top [--period S] [--count N] [--qps]: the rates of ports, workers and programs. */
int cmd_top(int argc, char **argv);

/* uroce rdma OBJECT [show ...]: what iproute2's rdma prints, of the daemon. */
int cmd_rdma(int argc, char **argv);

/* uroce metrics [--socket PATH] [--format FORMAT]: the daemon's counters for monitors. */
int cmd_metrics(int argc, char **argv);

/* uroce trace [--qpn N] [--socket PATH] [--json]: recent unusual events. */
int cmd_trace(int argc, char **argv);

/* uroce why [QPN | wr_id=N | pid=N|NAME | code=N]: why did it fail? */
int cmd_why(int argc, char **argv);

/* uroce fault add RULE... | now ... | list | remove N|all: packets and calls go wrong on purpose.
 */
int cmd_fault(int argc, char **argv);

/* uroce entropy: how source port policies spread flows over paths. */
int cmd_entropy(int argc, char **argv);

/* uroce sim: engines of many hosts over a network in virtual time. */
int cmd_sim(int argc, char **argv);

#endif
