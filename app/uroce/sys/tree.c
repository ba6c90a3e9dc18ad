/* SPDX-License-Identifier: BSD-3-Clause */
/* See tree.h. */
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "counters.h"
#include "cover.h"
#include "host_cpus.h"

/* ---- one file ---- */

__attribute__((format(printf, 3, 4))) static void format(struct sys_tree *t, char path[PATH_MAX],
                                                         const char *text, ...)
{
    va_list args;
    int n;

    va_start(args, text);
    n = vsnprintf(path, PATH_MAX, text, args);
    va_end(args);
    if (n >= PATH_MAX && t->err == 0)
        t->err = -ENAMETOOLONG;
}

static void check(struct sys_tree *t, int result)
{
    if (result < 0 && t->err == 0)
        t->err = -errno;
}

static void make_folder(struct sys_tree *t, const char *folder, const char *name)
{
    char path[PATH_MAX];

    format(t, path, "%s/%s", folder, name);
    if (mkdir(path, 0755) != 0 && errno != EEXIST)
        check(t, -1);
}

static void make_link(struct sys_tree *t, const char *target, const char *folder, const char *name)
{
    char path[PATH_MAX];

    format(t, path, "%s/%s", folder, name);
    check(t, symlink(target, path));
}

/* Returns a descriptor for writing, or -1. */
static int make_file(struct sys_tree *t, const char *folder, const char *name, const char *text)
{
    char path[PATH_MAX];
    int fd;

    format(t, path, "%s/%s", folder, name);
    fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0444);
    check(t, fd);
    if (fd >= 0 && text[0] != '\0')
        check(t, write(fd, text, strlen(text)) < 0 ? -1 : 0);
    return fd;
}

__attribute__((format(printf, 4, 5))) static void
make_constant(struct sys_tree *t, const char *folder, const char *name, const char *text, ...)
{
    char value[PATH_MAX];
    va_list args;
    int fd;

    va_start(args, text);
    vsnprintf(value, sizeof(value), text, args);
    va_end(args);
    fd = make_file(t, folder, name, value);
    if (fd >= 0)
        close(fd);
}

/* Files that have a whole new inode when they change: where there may be none before or after. */
static void replace_file(struct sys_tree *t, const char *folder, const char *name, const char *text)
{
    char path[PATH_MAX], next[PATH_MAX];

    format(t, path, "%s/%s", folder, name);
    format(t, next, "%s/.next", folder);
    unlink(next);
    make_constant(t, folder, ".next", "%s", text);
    rmdir(path);
    check(t, rename(next, path));
}

/* ---- files that change ---- */

enum { FILE_STATE, FILE_PHYS_STATE, FILE_RATE, FILE_COUNTERS };

static void value_text(const struct sys_tree *t, const struct face_device *d, unsigned number,
                       struct sys_file *file, char text[32])
{
    uint64_t value;

    if (number == FILE_STATE) {
        strcpy(text, d->active ? "4: ACTIVE\n" : "1: DOWN\n");
    } else if (number == FILE_PHYS_STATE) {
        strcpy(text, d->active ? "5: LinkUp\n" : "3: Disabled\n");
    } else if (number == FILE_RATE) {
        snprintf(text, 32, "%s\n", face_rate(d->port.speed_mbps));
    } else {
        /* A sum is taken while queue pairs go, and may lack one. */
        value = sys_counter_value(&sys_counters[number - FILE_COUNTERS], d);
        if (value > file->value || t->is_new)
            file->value = value;
        snprintf(text, 32, "%" PRIu64 "\n", file->value);
    }
}

static void make_values(struct sys_tree *t, struct sys_port *p, const struct face_device *d)
{
    static const char *const name[] = {"state", "phys_state", "rate"};

    t->files = FILE_COUNTERS; /* each device has the same */
    while (sys_counters[t->files - FILE_COUNTERS].name != NULL)
        t->files++;
    p->file = calloc(t->files, sizeof(*p->file));
    if (p->file == NULL) {
        t->err = -ENOMEM;
        return;
    }
    for (unsigned i = 0; i < t->files; i++) {
        const struct sys_counter *c = i < FILE_COUNTERS ? NULL : &sys_counters[i - FILE_COUNTERS];
        char folder[PATH_MAX];

        format(t, folder, "%s/%s", p->path, c != NULL ? c->folder : "");
        value_text(t, d, i, &p->file[i], p->file[i].text);
        p->file[i].length = (unsigned)strlen(p->file[i].text);
        p->file[i].fd = make_file(t, folder, c != NULL ? c->name : name[i], p->file[i].text);
    }
}

/* Readers see the old value or the new one: both are written at once, and a shorter one is cut
 * after. */
static void update_value(struct sys_file *file, const char *text)
{
    unsigned length = (unsigned)strlen(text);

    if (strcmp(text, file->text) == 0 || pwrite(file->fd, text, length, 0) != (ssize_t)length)
        return;
    if (length < file->length && ftruncate(file->fd, length) != 0)
        return;
    strcpy(file->text, text);
    file->length = length;
}

/* ---- GIDs ---- */

/* A file of the kernel that cannot be read, as those of unused GIDs. NULL: there is none. */
static const char *find_unreadable(void)
{
    static const char *const name[] = {"/sys/class/net/lo/duplex", "/sys/class/net/lo/speed"};
    char byte;

    for (unsigned i = 0; i < sizeof(name) / sizeof(name[0]); i++) {
        int fd = open(name[i], O_RDONLY | O_CLOEXEC);
        bool is_it = fd >= 0 && read(fd, &byte, 1) < 0 && errno == EINVAL;

        if (fd >= 0)
            close(fd);
        if (is_it)
            return name[i];
    }
    return NULL;
}

/* A folder can be opened, and not be read, either. */
static void make_unreadable(struct sys_tree *t, const char *folder, const char *name)
{
    const char *target = t->unreadable;
    char path[PATH_MAX];

    format(t, path, "%s/%s", folder, name);
    unlink(path);
    if (target != NULL)
        make_link(t, target, folder, name);
    else
        make_folder(t, folder, name);
}

static void write_gid(struct sys_tree *t, const struct sys_port *p, unsigned index,
                      const struct face_gid *g)
{
    const uint8_t *r = g->raw;
    char folder[PATH_MAX], name[16], text[64];

    snprintf(name, sizeof(name), "%u", index);
    snprintf(text, sizeof(text),
             "%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x\n", r[0],
             r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8], r[9], r[10], r[11], r[12], r[13],
             r[14], r[15]);
    format(t, folder, "%s/gids", p->path);
    replace_file(t, folder, name, text);
    for (int is_type = 0; is_type < 2; is_type++) {
        format(t, folder, "%s/gid_attrs/%s", p->path, is_type ? "types" : "ndevs");
        snprintf(text, sizeof(text), "%s\n",
                 !is_type   ? g->ndev
                 : g->is_v2 ? "RoCE v2"
                            : "IB/RoCE v1");
        if (g->used)
            replace_file(t, folder, name, text);
        else
            make_unreadable(t, folder, name);
    }
}

static void update_gids(struct sys_tree *t, struct sys_port *p, const struct face_device *d,
                        bool is_first)
{
    for (unsigned i = 0; i < FACE_GIDS_MAX; i++)
        if (is_first || memcmp(&p->gid[i], &d->gid[i], sizeof(p->gid[i])) != 0) {
            write_gid(t, p, i, &d->gid[i]);
            p->gid[i] = d->gid[i];
        }
}

/* ---- folders ---- */

static void make_port(struct sys_tree *t, struct sys_port *p, const struct face_device *d)
{
    char folder[PATH_MAX], netdev[PATH_MAX];

    make_folder(t, p->path, "gids");
    make_folder(t, p->path, "gid_attrs");
    make_folder(t, p->path, "gid_attrs/types");
    make_folder(t, p->path, "gid_attrs/ndevs");
    make_folder(t, p->path, "pkeys");
    make_folder(t, p->path, "counters");
    make_folder(t, p->path, "hw_counters");
    make_folder(t, p->path, "net");
    make_constant(t, p->path, "link_layer", "Ethernet\n");
    make_constant(t, p->path, "lid", "0x0\n");
    make_constant(t, p->path, "lid_mask_count", "0\n");
    make_constant(t, p->path, "sm_lid", "0x0\n");
    make_constant(t, p->path, "sm_sl", "0\n");
    make_constant(t, p->path, "cap_mask", "0x00010000\n"); /* it has a connection manager */
    make_constant(t, p->path, "pkeys/0", "0xffff\n");
    make_constant(t, p->path, "hw_counters/lifespan", "10\n"); /* ms: watch.c */
    format(t, netdev, "/sys/class/net/%s", d->port.netdev);
    if (d->port.netdev[0] != '\0' && access(netdev, F_OK) == 0) {
        format(t, folder, "%s/net", p->path);
        make_link(t, netdev, folder, d->port.netdev);
    }
    make_values(t, p, d);
    update_gids(t, p, d, true);
}

static void make_guid(struct sys_tree *t, const char *folder, const char *name, uint64_t guid)
{
    uint8_t b[8];

    memcpy(b, &guid, sizeof(b));
    make_constant(t, folder, name, "%02x%02x:%02x%02x:%02x%02x:%02x%02x\n", b[0], b[1], b[2], b[3],
                  b[4], b[5], b[6], b[7]);
}

static void make_ib_device(struct sys_tree *t, const char *folder, const char *name,
                           const struct ctl_device *info)
{
    char host[65] = "";

    gethostname(host, sizeof(host) - 1);
    make_constant(t, folder, "node_type", "1: CA\n");
    make_guid(t, folder, "node_guid", info->node_guid);
    make_guid(t, folder, "sys_image_guid", info->node_guid);
    make_constant(t, folder, "fw_ver", "%s\n", info->fw_version);
    make_constant(t, folder, "hw_rev", "%u\n", info->hw_version);
    make_constant(t, folder, "hca_type", "uroce\n");
    make_constant(t, folder, "board_id", "uroce\n");
    make_constant(t, folder, "node_desc", "%s %s\n", host, name);
}

/* The link is faster than any port, as programs take the slower of both. */
static void make_pci_device(struct sys_tree *t, const char *folder, const struct ctl_device *info)
{
    char mask[4096], list[4096];
    int node = host_cpus(mask, list, sizeof(mask));

    make_constant(t, folder, "vendor", "0x%04x\n", info->vendor_id >> 16 & 0xFFFF);
    make_constant(t, folder, "device", "0x%04x\n", info->vendor_part_id & 0xFFFF);
    make_constant(t, folder, "subsystem_vendor", "0x%04x\n", info->vendor_id >> 16 & 0xFFFF);
    make_constant(t, folder, "subsystem_device", "0x0000\n");
    make_constant(t, folder, "revision", "0x00\n");
    make_constant(t, folder, "class", "0x020000\n"); /* an Ethernet controller */
    make_constant(t, folder, "numa_node", "%d\n", node);
    make_constant(t, folder, "local_cpulist", "%s\n", list);
    make_constant(t, folder, "local_cpus", "%s\n", mask);
    make_constant(t, folder, "current_link_speed", "32.0 GT/s PCIe\n");
    make_constant(t, folder, "max_link_speed", "32.0 GT/s PCIe\n");
    make_constant(t, folder, "current_link_width", "16\n");
    make_constant(t, folder, "max_link_width", "16\n");
    make_link(t, "../../../bus/pci/drivers/uroce", folder, "driver");
    make_link(t, "../../../bus/pci", folder, "subsystem");
}

/* The device that the file is now: whatever opens it does not get a NIC of the kernel. */
static void make_device_file(struct sys_tree *t, const char *name)
{
    static const char *const like[] = {"/dev/full", "/dev/null"};
    char path[PATH_MAX];
    int err = t->dev != NULL ? -1 : 0;

    format(t, path, "%s/%s", t->dev != NULL ? t->dev : "", name);
    for (unsigned i = 0; err != 0 && i < sizeof(like) / sizeof(like[0]); i++)
        err = cover_file(like[i], path);
    if (err != 0 && t->err == 0)
        t->err = err;
}

static void make_verbs_device(struct sys_tree *t, const char *folder, const char *name)
{
    struct stat st = {0};

    make_constant(t, folder, "abi_version", "1\n");
    make_constant(t, folder, "ibdev", "%s\n", name);
    if (stat("/dev/full", &st) == 0)
        make_constant(t, folder, "dev", "%u:%u\n", major(st.st_rdev), minor(st.st_rdev));
    make_link(t, "../../../../../class/infiniband_verbs", folder, "subsystem");
}

/* root/devices/pciD:B/D:B:00.0 and what leads there; programs look for the last characters. */
static void make_device(struct sys_tree *t, const struct face_device *d)
{
    struct sys_port *p = &t->port[t->ports++];
    unsigned bus = d->info.index + 1, index = d->info.index;
    char name[CTL_NAME_MAX], pci[PATH_MAX], bridge[PATH_MAX], path[PATH_MAX], link[PATH_MAX];
    char verbs[32];

    ctl_device_name(t->names, d->info.index, d->info.name, name);
    snprintf(verbs, sizeof(verbs), "uverbs%u", index);
    format(t, bridge, "%s/devices/pci%04x:%02x", t->root, t->domain, bus);
    make_folder(t, bridge, "");
    make_folder(t, bridge, "pci_bus");
    format(t, path, "pci_bus/%04x:%02x", t->domain, bus);
    make_folder(t, bridge, path);
    format(t, pci, "%s/%04x:%02x:00.0", bridge, t->domain, bus);
    make_folder(t, pci, "");
    make_pci_device(t, pci, &d->info);
    make_folder(t, pci, "net");
    format(t, link, "/sys/class/net/%s", d->port.netdev);
    if (d->port.netdev[0] != '\0' && access(link, F_OK) == 0) {
        format(t, path, "%s/net", pci);
        make_link(t, link, path, d->port.netdev);
    }

    make_folder(t, pci, "infiniband");
    format(t, path, "%s/infiniband/%s", pci, name);
    make_folder(t, path, "");
    format(t, link, "../../../%04x:%02x:00.0", t->domain, bus);
    make_link(t, link, path, "device");
    make_link(t, "../../../../../class/infiniband", path, "subsystem");
    make_ib_device(t, path, name, &d->info);
    make_folder(t, path, "ports");
    format(t, p->path, "%s/ports/1", path);
    make_folder(t, p->path, "");
    make_port(t, p, d);

    make_folder(t, pci, "infiniband_verbs");
    format(t, path, "%s/infiniband_verbs/%s", pci, verbs);
    make_folder(t, path, "");
    make_link(t, link, path, "device");
    make_verbs_device(t, path, name);
    make_device_file(t, verbs);

    format(t, link, "../../devices/pci%04x:%02x/%04x:%02x:00.0/infiniband/%s", t->domain, bus,
           t->domain, bus, name);
    format(t, path, "%s/class/infiniband", t->root);
    make_link(t, link, path, name);
    format(t, link, "../../devices/pci%04x:%02x/%04x:%02x:00.0/infiniband_verbs/%s", t->domain, bus,
           t->domain, bus, verbs);
    format(t, path, "%s/class/infiniband_verbs", t->root);
    make_link(t, link, path, verbs);
    format(t, link, "../../devices/pci%04x:%02x/pci_bus/%04x:%02x", t->domain, bus, t->domain, bus);
    format(t, path, "%s/class/pci_bus", t->root);
    format(t, bridge, "%04x:%02x", t->domain, bus);
    make_link(t, link, path, bridge);
}

#define FIRST_DOMAIN 0x00ce

static bool domain_is_free(const struct sys_tree *t)
{
    char path[PATH_MAX];

    for (unsigned bus = 1; bus <= FACE_DEVICES_MAX; bus++) {
        snprintf(path, sizeof(path), "%s/devices/pci%04x:%02x", t->root, t->domain, bus);
        if (access(path, F_OK) == 0)
            return false;
    }
    return true;
}

int sys_tree_make(struct sys_tree *t, const struct face *f)
{
    char folder[PATH_MAX];

    t->unreadable = find_unreadable();
    for (t->domain = FIRST_DOMAIN; t->domain < 0xFFFF && !domain_is_free(t);)
        t->domain++;
    format(t, folder, "%s/class", t->root);
    make_folder(t, folder, "infiniband");
    make_folder(t, folder, "infiniband_verbs");
    make_folder(t, folder, "pci_bus");
    make_constant(t, folder, "infiniband_verbs/abi_version", "6\n");
    for (unsigned i = 0; i < f->devices && t->err == 0; i++)
        make_device(t, &f->device[i]);
    make_device_file(t, "rdma_cm");
    return t->err;
}

void sys_tree_update(struct sys_tree *t, const struct face *f)
{
    char text[32];

    for (unsigned i = 0; i < t->ports; i++) {
        for (unsigned number = 0; number < t->files; number++) {
            struct sys_file *file = &t->port[i].file[number];

            value_text(t, &f->device[i], number, file, text);
            update_value(file, text);
        }
        update_gids(t, &t->port[i], &f->device[i], false);
    }
    t->is_new = false;
}
