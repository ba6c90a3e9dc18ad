/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading captures: the RoCE packets of a file, and whether they are correct. */
#ifndef UROCE_DISSECT_H
#define UROCE_DISSECT_H

/*
 * uroce dissect [--json] FILE: prints one line per frame of a pcap or pcapng file with Ethernet
 * frames ("-" is the standard input), and a summary. The fields of a management datagram follow on
 * indented lines. RoCE is what has UDP destination port 4791 or
 * ethertype 0x8915; other frames are noted as skipped. argv[0] is the subcommand's name.
 *
 * Returns the exit status: 0, or 1 when a RoCE frame does not parse or its ICRC is wrong, or 2 for
 * wrong usage and for a file that cannot be read to its end.
 */
int uroce_dissect(int argc, char **argv);

#endif
