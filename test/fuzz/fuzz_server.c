/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The daemon's socket: several clients that connect, send messages of any size with any
 * descriptors, read replies or do not, and leave, in any order. One thread plays them and the
 * control thread. After each input no descriptor may be left.
 *
 * Input: actions, each an opcode byte and its operands. See make_server_corpus.py.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "device_kit.h"
#include "event_loop.h"
#include "fuzz.h"
#include "fuzz_input.h"
#include "server.h"

#define CLIENTS 4
#define FD_MAX  1024
#define ACTIONS 100

enum action { ACT_CONNECT, ACT_SEND, ACT_STEP, ACT_READ, ACT_CLOSE, ACT_SHUTDOWN, ACT_COUNT };

enum flaw {
    FLAW_NONE,
    FLAW_MAGIC,
    FLAW_VERSION,
    FLAW_LENGTH, /* another length: its low byte and its high byte follow */
    FLAW_CREDENTIALS,
    FLAW_MANY,   /* as many descriptors as a message can have */
    FLAW_POSTED, /* seq 0: there is no reply */
    FLAW_COUNT
};

enum { FD_MEMFD, FD_SEALED, FD_PIPE, FD_SOCKET, FD_OWN, FD_NULL, FD_EVENT, FD_COUNT };

#define MANY_FDS 253 /* the kernel's limit for a message */

static char path[64];
static struct rnic *rnic;
static struct event_loop *loop;
static struct server *server;
static int client[CLIENTS];
static int passed[FD_COUNT]; /* what clients pass */
static ns_t now;

static ns_t clock_now(void)
{
    return now += NS_PER_MS;
}

/* ---- clients ---- */

static int *pick(uint8_t which)
{
    return &client[which % CLIENTS];
}

static void leave(int *c)
{
    if (*c >= 0)
        close(*c);
    *c = -1;
}

static void step(unsigned n)
{
    while (n-- && event_loop_step(loop, 0))
        ;
}

static void connect_client(int *c)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};

    leave(c);
    strcpy(addr.sun_path, path);
    *c = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    REQUIRE(*c >= 0);
    if (connect(*c, (struct sockaddr *)&addr, sizeof(addr)))
        leave(c);
    step(2);
}

static void add_control(struct msghdr *msg, int type, const void *data, size_t bytes)
{
    struct cmsghdr *c = (struct cmsghdr *)((char *)msg->msg_control + msg->msg_controllen);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = type;
    c->cmsg_len = CMSG_LEN(bytes);
    memcpy(CMSG_DATA(c), data, bytes);
    msg->msg_controllen += CMSG_SPACE(bytes);
}

static void send_bytes(int sock, const void *bytes, size_t n, const int *fd, unsigned fds,
                       bool credentials)
{
    static char control[CMSG_SPACE(MANY_FDS * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
    struct ucred own = {getpid(), getuid(), getgid()};
    struct iovec iov = {(void *)bytes, n};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control};

    memset(control, 0, sizeof(control));
    if (fds)
        add_control(&msg, SCM_RIGHTS, fd, fds * sizeof(*fd));
    if (credentials)
        add_control(&msg, SCM_CREDENTIALS, &own, sizeof(own));
    sendmsg(sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Client; type; how many descriptors (low bits), from which kind on (high bits); flaw; the body's
 * length and bytes. */
static void send_message(struct input *in)
{
    static uint8_t bytes[65536];
    static uint32_t seq;
    int fd[MANY_FDS], *c = pick(take(in));
    struct ctl_msg m = {.magic = CTL_MAGIC, .version = CTL_VERSION, .type = take(in)};
    uint8_t what = take(in), flaw = take(in) % FLAW_COUNT;
    unsigned fds = flaw == FLAW_MANY ? MANY_FDS : what & 7;
    size_t n = sizeof(m);

    if (flaw == FLAW_LENGTH)
        n = take(in) | (size_t)take(in) << 8;
    m.seq = flaw == FLAW_POSTED ? 0 : ++seq;
    m.magic ^= flaw == FLAW_MAGIC;
    m.version += flaw == FLAW_VERSION;
    take_bytes(in, m.bytes, take(in));
    /* Rings of thousands of entries are slow and find nothing new. */
    if (m.type == CTL_CREATE_QP) {
        m.create_qp.caps.max_send_wr &= 0xc03f;
        m.create_qp.caps.max_recv_wr &= 0xc03f;
    }
    for (unsigned i = 0; i < fds; i++)
        fd[i] = passed[((what >> 3) + i) % FD_COUNT];
    memset(bytes, 0, sizeof(m));
    memcpy(bytes, &m, sizeof(m));
    if (*c >= 0)
        send_bytes(*c, bytes, n, fd, fds, flaw == FLAW_CREDENTIALS);
}

/* All replies that wait, and their descriptors. Each is a whole message of this version. */
static void read_replies(int sock)
{
    struct ctl_msg m;
    int fd[CTL_MAX_FDS];
    unsigned fds;

    while (sock >= 0) {
        int err = ctl_recv(sock, &m, fd, &fds, MSG_DONTWAIT);

        REQUIRE(err != -EPROTO && err != -EPROTONOSUPPORT);
        if (err)
            return;
        REQUIRE(m.status <= 0);
        while (fds)
            close(fd[--fds]);
    }
}

/* ---- the world ---- */

static unsigned open_fds(void)
{
    struct pollfd p[FD_MAX];
    unsigned n = 0;

    for (int fd = 0; fd < FD_MAX; fd++)
        p[fd] = (struct pollfd){.fd = fd};
    poll(p, FD_MAX, 0);
    for (int fd = 0; fd < FD_MAX; fd++)
        n += !(p[fd].revents & POLLNVAL);
    return n;
}

/* Each in its own state: what an application may do to a file that it passed is done by others. */
static void open_passed(void)
{
    int pair[2];

    passed[FD_MEMFD] = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    passed[FD_SEALED] = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    REQUIRE(!ftruncate(passed[FD_MEMFD], KIT_BYTES) && !ftruncate(passed[FD_SEALED], KIT_BYTES));
    fcntl(passed[FD_SEALED], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL);
    REQUIRE(!pipe2(pair, O_CLOEXEC));
    passed[FD_PIPE] = pair[0];
    close(pair[1]);
    REQUIRE(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
    passed[FD_SOCKET] = pair[0];
    passed[FD_OWN] = pair[1];
    passed[FD_NULL] = open("/dev/null", O_RDWR | O_CLOEXEC);
    passed[FD_EVENT] = eventfd(0, EFD_CLOEXEC);
}

static void begin_process(void)
{
    struct rlimit fds = {FD_MAX, FD_MAX};

    snprintf(path, sizeof(path), "/tmp/uroce-fuzz.%d", getpid());
    signal(SIGPIPE, SIG_IGN);
    setrlimit(RLIMIT_NOFILE, &fds);
    open_passed();
}

static void begin(void)
{
    struct server_config config = {.path = path, .mode = 0600, .group = -1, .stop_fd = -1};
    int err;

    now = NS_PER_SEC;
    loop = event_loop_create(&err);
    rnic = kit_rnic(NULL, clock_now);
    config.loop = loop;
    config.rnic = rnic;
    server = server_open(&config, &err);
    REQUIRE(server);
    for (unsigned i = 0; i < CLIENTS; i++)
        client[i] = -1;
}

static void end(void)
{
    for (unsigned i = 0; i < CLIENTS; i++)
        leave(&client[i]);
    step(UINT32_MAX);
    server_close(server);
    rnic_destroy(rnic);
    event_loop_destroy(loop);
}

static void act(struct input *in)
{
    uint8_t action = take(in) % ACT_COUNT;

    if (action == ACT_SEND)
        send_message(in);
    else if (action == ACT_STEP)
        step(take(in));
    else if (action == ACT_READ)
        read_replies(*pick(take(in)));
    else if (action == ACT_CONNECT)
        connect_client(pick(take(in)));
    else if (action == ACT_CLOSE)
        leave(pick(take(in)));
    else
        shutdown(*pick(take(in)), take(in) % 3);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    unsigned before;

    if (!path[0])
        begin_process();
    before = open_fds(); /* the fuzzer opens some in between */
    begin();
    for (unsigned n = 0; in.left && n < ACTIONS; n++)
        act(&in);
    end();
    REQUIRE(open_fds() == before);
    return 0;
}
