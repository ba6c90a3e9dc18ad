#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""fabtests, libfabric's own tests, by libfabric's provider verbs over a loopback device: its endpoints of messages, and reliable
datagrams over them by ofi_rxm and over datagrams by ofi_rxd. TAP; a point per provider and test. The folder with libfabric's sources is
given; libfabric and fabtests are built in a folder uroce-build in it.

The tests, and what fabtests itself excludes for a provider, are those of the source: the lists in scripts/runfabtests.sh and the files
test_configs/*/*.exclude. That script is not started: it ends every process of the host whose name begins with fi_, and gives a server
one second to start.

usage: run_fabtests.py --build DIR [--source FOLDER] [--long] [--match TEXT]"""
import errno
import os
import re
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import uroce_kit as kit

PROVIDERS = ("verbs", "verbs;ofi_rxm", "verbs;ofi_rxd")
QUICK = ("unit", "functional", "short")
LONG = ("unit", "regression", "functional", "standard", "complex", "multinode", "threaded")
NEGATIVE = "neg_unit"
# Of TCP, where programs tell each other more than by the provider; that of fi_multinode is 8228 with its bytes swapped.
OWN_PORT, UBERTEST_PORT, NODES_PORT = 3000, 2710, 9248
SECONDS, LONG_SECONDS, COMPLEX_SECONDS, GRACE_SECONDS = 180, 600, 1500, 10
MAKE_SECONDS = 1800
NODES = 3
NOT_RUN = (errno.ENODATA, errno.ENOSYS)  # what a test ends with when the provider does not have what it needs
CONFIGURE = ("--enable-only", "--enable-verbs", "--enable-rxm", "--enable-rxd", "--enable-tcp", "--disable-static")

# Tests that fail for a reason that is not uroce's: provider, the beginning of the test, reason. doc/programs.md says more about each.
KNOWN = (("verbs", "fi_msg_sockets", "libfabric 2 resolves the client's address twice"),)


def known(provider, test):
    return next((reason for where, begin, reason in KNOWN if where == provider and test.startswith(begin)), None)


def other_address(daemon):
    """An IPv4 address of the host, but none of its loopback: libfabric's provider verbs forgets the port of a server there."""
    addresses = (row["address"] for row in daemon.show("gids"))
    try:
        return next(text for text in addresses if "." in text and not text.startswith("127."))
    except StopIteration:
        raise kit.Skipped("the host has no IPv4 address beside those of its loopback")


class Sources:
    """The lists of a source folder."""

    def __init__(self, folder):
        self.folder = os.path.abspath(folder)
        self.fabtests = os.path.join(self.folder, "fabtests")
        self.prefix = os.path.join(self.folder, "uroce-build", "installed")
        with open(os.path.join(self.fabtests, "scripts", "runfabtests.sh")) as script:
            text = script.read()
        self.lists = {name: re.findall(r'"([^"]+)"', body)
                      for name, body in re.findall(r"^(\w+)_tests=\(\s*\\?$(.*?)^\)", text, re.S | re.M)}

    def config(self, name):
        return os.path.join(self.fabtests, "test_configs", name)

    def excluded(self, provider):
        """What matches a test that fabtests excludes for the provider."""
        name = provider.split(";")[-1]
        with open(os.path.join(self.config(name), name + ".exclude")) as file:
            lines = [line.strip() for line in file]
        return re.compile("|".join(line for line in lines if line and not line.startswith("#")))

    def complex_config(self, provider):
        """What fi_ubertest is told, of two lists of the provider verbs alone the longer one: a copy in which every setting sends 5 messages
        of each fourth size, not up to 10,000 of each, which takes two minutes per setting on a machine of two cores."""
        core, *layer = provider.split(";")
        with open(self.config(os.path.join(layer[0], core) if layer else os.path.join(core, "all")) + ".test") as file:
            text = re.sub(r"\n\ttest_flags: FT_FLAG_QUICKTEST,?(?=\n)", "", file.read())
        assert "test_flags" not in text, "a flag that the copy would lose"
        copy = os.path.join(self.prefix, f"ubertest-{'-'.join([core, *layer])}.test")
        with open(copy, "w") as file:
            file.write(text.replace("\n}", "\n\ttest_flags: FT_FLAG_QUICKTEST,\n}"))
        return copy

    def tests(self, provider, sets):
        """(list, test) of those that are not excluded, and the number of the others."""
        excluded = self.excluded(provider)
        every = [(name, test) for name in sets for test in self.lists.get(name, ())]
        chosen = [(name, test) for name, test in every if not excluded.search(test)]
        return chosen, len(every) - len(chosen)

    def make(self):
        """Both, beside each other, installed below uroce-build. What is the same is not installed again: a new header builds fabtests."""
        for where, options in ((self.folder, CONFIGURE), (self.fabtests, (f"--with-libfabric={self.prefix}", "--disable-efa"))):
            build = os.path.join(self.folder, "uroce-build", os.path.basename(where))
            os.makedirs(build, exist_ok=True)
            configure = [os.path.join(where, "configure"), f"--prefix={self.prefix}", *options]
            for path, needed, command in ((where, not os.path.exists(configure[0]), ["./autogen.sh"]),
                                          (build, not os.path.exists(os.path.join(build, "Makefile")), configure),
                                          (build, True, ["make", f"-j{os.cpu_count()}", "INSTALL=install -C", "install"])):
                done = needed and subprocess.run(command, cwd=path, stdin=subprocess.DEVNULL, text=True, stdout=subprocess.PIPE,
                                                 stderr=subprocess.STDOUT, timeout=MAKE_SECONDS)
                if done and done.returncode:
                    raise kit.Failure(f"{' '.join(command)} in {path}:\n{done.stdout}")


class Fabtests:
    """Runs tests of a source folder over a daemon."""

    def __init__(self, daemon, sources, long=False):
        self.daemon, self.sources, self.long = daemon, sources, long
        self.address = other_address(daemon)
        self.open = []

    def start(self, words, seconds=None, **environment):
        """Its lines can be read when it has to be killed, too. seconds: how long it may take, at most."""
        program = kit.Program(self.daemon, ["stdbuf", "-oL", os.path.join(self.sources.prefix, "bin", words[0]), *words[1:]], environment)
        program.deadline = time.monotonic() + (seconds or (LONG_SECONDS if self.long else SECONDS))
        self.open.append(program)
        return program

    def wait(self, program):
        """Its exit status; None if it has not ended in its time, nor a little from now on."""
        try:
            return program.process.wait(max(program.deadline - time.monotonic(), GRACE_SECONDS))
        except subprocess.TimeoutExpired:
            return None

    def judge(self, programs, good=0):
        """All have ended well, or the first one says that the provider does not have what the test needs. When it has failed or hangs, the
        others wait in vain."""
        status = [self.wait(programs[0])]
        if status[0] in NOT_RUN and good == 0:
            raise kit.Skipped(f"not run: {os.strerror(status[0])}")
        status += [self.wait(program) if status[0] == 0 else program.process.poll() for program in programs[1:]]
        if any(s != good for s in status):
            raise kit.Failure("\n".join(f"{' '.join(program.command)}: exit status {s}:\n{program.text()}"
                                        for program, s in zip(programs, status)))

    def await_server(self, server, port=OWN_PORT):
        """It listens by rdma_cm or TCP, or, if it has only datagrams, has a queue pair."""
        def look():
            mine = [row for topic in ("cm_ids", "qps") for row in self.daemon.show(topic) if row["pid"] == server.process.pid]
            return (server.process.poll() is not None or kit.listens(port, server.process.pid) or
                    any(row["state"] == "LISTEN" or row.get("type") == "UD" for row in mine))
        kit.wait_until(look, 30, f"{' '.join(server.command)} listens")

    def client(self, words, server):
        """A client that has to do with a server. Some listen by TCP as well, after that; a client that is too early ends at once."""
        for _ in range(20):
            client = self.start(words)
            if self.wait(client) != 1 or "connect: Connection refused" not in client.text() or server.process.poll() is not None:
                break
        return client

    def unit(self, provider, test, good=0):
        words = test.replace("GOOD_ADDR", self.address).replace("SERVER_ADDR", self.address).split()
        self.judge([self.start([*words, "-p", provider])], good)

    def pair(self, provider, test):
        words = [*test.split(), "-p", provider, "-s", self.address]
        server = self.start(words)
        self.await_server(server)
        self.judge([self.client([*words, self.address], server), server])

    def several(self, provider, test):
        words = [*test.split(), "-n", str(NODES), "-p", provider, "-s", self.address]
        server = self.start(words)
        self.await_server(server, NODES_PORT)
        self.judge([*(self.start(words) for _ in range(1, NODES)), server])

    def complex(self, provider, test):
        server = self.start([*test.split(), "-x"], COMPLEX_SECONDS, FI_LOG_LEVEL="error")
        self.await_server(server, UBERTEST_PORT)
        words = [*test.split(), "-u", self.sources.complex_config(provider), self.address]
        client = self.start(words, COMPLEX_SECONDS, FI_LOG_LEVEL="error")
        self.judge([client, server])
        rows = re.findall(r"^(Success|Skipped|ENODATA|ENOSYS|EIO|ERROR)\s*: (\d+)", client.text(), re.M)
        results = {name: int(count) for name, count in rows}
        print(f"# {provider}: {results}")
        if not results.get("Success") or any(results.get(bad) for bad in ("ENOSYS", "EIO", "ERROR")):
            raise kit.Failure(client.text())

    def run(self, provider, kind, test):
        how = {"unit": self.unit, "regression": self.unit, "complex": self.complex, "multinode": self.several}.get(kind, self.pair)
        reason = known(provider, test)
        try:
            if kind == NEGATIVE:
                self.unit(provider, test, errno.ENODATA)
            else:
                how(provider, test)
        except kit.Failure:
            if reason:
                raise kit.Skipped(f"fails: {reason}")
            raise
        finally:
            self.end()

    def end(self):
        for program in self.open:
            program.kill()
        self.open = []

    def points(self):
        found = []
        for provider in PROVIDERS:
            tests, excluded = self.sources.tests(provider, (*(LONG if self.long else QUICK), NEGATIVE))
            print(f"# {provider}: {len(tests)} tests, and {excluded} that fabtests excludes")
            found += [(f"{provider}: {test}", lambda p=provider, k=kind, t=test: self.run(p, k, t)) for kind, test in tests]
        return found + [("nothing is left", self.nothing_is_left)]

    def nothing_is_left(self):
        for topic in ("qps", "cm_ids", "mr"):
            kit.wait_until(lambda topic=topic: not self.daemon.show(topic), 10, f"no {topic}")


def main():
    arguments = kit.point_arguments(more=[("--source", {"default": os.environ.get("UROCE_TEST_FABTESTS", "")}),
                                          ("--long", {"action": "store_true", "help": "all lists of fabtests"})])
    if not arguments.source:
        print("1..0 # SKIP no --source with a folder of libfabric's sources")
        return 0
    # What a shell starts in the background ignores SIGINT, and so would sighandler_test.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sources = Sources(arguments.source)
    sources.make()
    daemon = kit.Daemon(kit.Build(arguments.build), kit.scratch_folder())
    try:
        fabtests = Fabtests(daemon, sources, arguments.long)
        try:
            return kit.run_points(fabtests.points(), arguments.match)
        finally:
            fabtests.end()
    except kit.Skipped as reason:
        print(f"1..0 # SKIP {reason}")
        return 0
    finally:
        daemon.stop()


if __name__ == "__main__":
    sys.exit(main())
