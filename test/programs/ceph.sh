# SPDX-License-Identifier: BSD-3-Clause
# A cluster of Ceph with two copies of each object, in memory: all that its monitor, its two OSDs and its clients say goes by RDMA.
set -e
mkdir -p ceph/mon ceph/0 ceph/1
export CEPH_CONF=$PWD/ceph/ceph.conf
cat >"$CEPH_CONF" <<END
[global]
ms type = async+rdma
mon host = v2:127.0.0.1:3300
public addr = 127.0.0.1
cluster addr = 127.0.0.1
auth cluster required = none
auth service required = none
auth client required = none
osd pool default size = 2
osd crush chooseleaf type = 0
osd objectstore = memstore
run dir = $PWD/ceph
log file = $PWD/ceph/\$name.log
admin socket = $PWD/ceph/\$name.asok
mon data = $PWD/ceph/mon
osd data = $PWD/ceph/\$id
END

started=
start() { "$@" -f & started="$started $!"; }
trap 'kill -9 $started' EXIT

monmaptool --create --addv a '[v2:127.0.0.1:3300]' ceph/monmap
ceph-mon -i a --mkfs --monmap ceph/monmap
start ceph-mon -i a
for i in 0 1; do
    uuid=$(cat /proc/sys/kernel/random/uuid)
    ceph osd new "$uuid" $i
    ceph-osd -i $i --mkfs --osd-uuid "$uuid"
    start ceph-osd -i $i
done
ceph osd pool create files 8
rados -p files put readme README.md # as soon as both OSDs serve
rados -p files get readme copy.md
cmp README.md copy.md
rados -p files bench 2 write -b 65536
ceph osd tree
