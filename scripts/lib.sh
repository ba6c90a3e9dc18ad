# SPDX-License-Identifier: BSD-3-Clause
# Shared by scripts/demo, scripts/test and scripts/bench: packages, building, progress. Sourced by bash.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
JOBS=$(nproc 2>/dev/null || echo 2)

# The packages for building, for the programs of the demo, and additional ones for the tests.
PACKAGES_BUILD="gcc libc6-dev meson ninja-build pkg-config python3 libdpdk-dev libisal-dev libjansson-dev
    libpcap-dev libmnl-dev libnuma-dev libmicrohttpd-dev libibverbs-dev librdmacm-dev libcmocka-dev
    systemtap-sdt-dev"
PACKAGES_PROGRAMS="ibverbs-utils perftest"
PACKAGES_TEST="rdmacm-utils iperf3 qperf ncat socat netcat-traditional python3-pyverbs python3-scapy tshark
    iproute2 iputils-ping nftables valgrind binutils libjemalloc2 libtcmalloc-minimal4 infiniband-diags ucx-utils bubblewrap
    python3-seccomp python3-prometheus-client mkdocs ethtool gdb jq tcpdump"
PACKAGES_FUZZ="clang libclang-rt-dev"
# The programs of doc/programs.md, and what compiles those of test/programs.
PACKAGES_PAGE="fio libfabric-bin openmpi-bin libopenmpi-dev mpich libmpich-dev python3-mpi4py netpipe-openmpi hpcc
    prometheus-node-exporter collectl dapl2-utils tgt libiscsi-bin ceph-mon ceph-osd libgloo-dev g++ curl libucx-dev
    qemu-system-x86"
# What makes the folders with other distributions.
PACKAGES_DISTRIBUTIONS="debootstrap git podman runc"
# QEMU for the guest that is the peer of the interop suites; the guest's own packages are only unpacked.
PACKAGES_INTEROP="qemu-system-x86 binutils zstd"
# The programs with which scripts/bench compares. dpdk-dev has testpmd.
PACKAGES_BENCH="valgrind binutils iproute2 iperf3 qperf ucx-utils dpdk-dev util-linux coreutils"

say() { printf '%s\n' "$*"; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# step TEXT COMMAND...: one line for the step; the command's output only when it fails.
step() {
    local text=$1 log status start=$SECONDS
    shift
    log=$(mktemp) || return 1
    printf '%-58s ' "$text ..."
    "$@" >"$log" 2>&1 </dev/null
    status=$?
    if [ $status -eq 0 ]; then
        printf 'done (%d s)\n' $((SECONDS - start))
    else
        printf 'failed\n'
        tail -n 60 "$log" | sed 's/^/    /'
    fi
    rm -f "$log"
    return $status
}

is_installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# Since Debian 13 some libraries have t64 at the end of their names.
missing_packages() {
    local package
    for package in "$@"; do
        is_installed "$package" || is_installed "${package}t64" || printf '%s ' "$package"
    done
}

# A machine that has just started may be at its daily update: apt-get waits for dpkg's lock if it is told to, but not for that of the
# lists.
apt_update() {
    local said attempt
    for attempt in $(seq 60); do
        said=$("$@" apt-get -q update 2>&1) && return 0
        case $said in
            *"Could not get lock"*) sleep 2 ;;
            *) break ;;
        esac
    done
    printf '%s\n' "$said"
    return 1
}

apt_install() {
    local as_root=
    [ "$(id -u)" -eq 0 ] || as_root="sudo"
    apt_update $as_root env LC_ALL=C DEBIAN_FRONTEND=noninteractive timeout 300 &&
        $as_root env DEBIAN_FRONTEND=noninteractive timeout 900 apt-get -q -o DPkg::Lock::Timeout=300 install -y \
            --no-install-recommends "$@"
}

# need_packages PACKAGE...: installs the missing ones.
need_packages() {
    local missing count
    if ! command -v dpkg-query >/dev/null; then
        say "This is not a Debian system; continuing with the installed packages."
        say "Needed are the equivalents of these Debian 12 packages: $(echo $*)"
        return 0
    fi
    missing=$(missing_packages "$@")
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null ||
            die "packages are missing and there is no sudo. As root: apt-get install $missing"
        sudo -v || die "packages are missing. As root: apt-get install $missing"
    fi
    count=$(echo $missing | wc -w)
    step "installing $count Debian packages" apt_install $missing ||
        die "could not install: $missing"
}

# build DIRECTORY [MESON OPTION...]: configures the directory once, with $BUILD_OPTIONS too, and builds it, or only $TARGET if that
# is set.
build() {
    local directory=$1
    shift
    if [ ! -f "$ROOT/$directory/build.ninja" ]; then
        step "configuring $directory" timeout 300 meson setup ${BUILD_OPTIONS:-} "$@" "$ROOT/$directory" "$ROOT" || return 1
    fi
    step "building $directory" timeout 1200 ninja -C "$ROOT/$directory" -j "$JOBS" ${TARGET:-}
}

# Whether a process listens on TCP port $1 in the network namespace of process $2.
listens() {
    local hex
    hex=$(printf ':%04X' "$1")
    awk -v port="$hex" '$4 == "0A" && substr($2, length($2) - 4) == port { found = 1 }
        END { exit !found }' "/proc/$2/net/tcp" "/proc/$2/net/tcp6" 2>/dev/null
}

# await_listening PORT PID SECONDS: waits until process PID, or a child of it, listens.
await_listening() {
    local end=$((SECONDS + $3))
    until listens "$1" "$2"; do
        kill -0 "$2" 2>/dev/null || return 1
        [ $SECONDS -lt $end ] || return 1
        sleep 0.02
    done
}

# A free TCP port.
free_port() {
    local port
    for port in $(shuf -i 18600-28600 -n 50); do
        listens "$port" self || { echo "$port"; return; }
    done
}
