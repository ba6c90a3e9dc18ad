# SPDX-License-Identifier: BSD-3-Clause
# A target of tgtd in a file, and what iscsi-inq says of it, by iSER: a login by iSER wants the address and the name to be bound.
target=iqn.2001-04.com.example:disk initiator=iqn.2001-04.com.example:client
export TGT_IPC_SOCKET=$PWD/tgt.sock

admin() { tgtadm --lld iser "$@"; }

truncate -s 16M disk.img
tgtd -f -C 0 --iscsi portal=127.0.0.1:3260 & tgtd=$!
trap 'kill -9 $tgtd' EXIT
until admin --mode sys --op show >/dev/null 2>&1; do
    kill -0 $tgtd || exit 1
    sleep 0.1 # its socket has no event for others
done
admin --mode target --op new --tid 1 -T $target &&
    admin --mode logicalunit --op new --tid 1 --lun 1 -b "$PWD/disk.img" &&
    admin --mode target --op bind --tid 1 -I ALL &&
    admin --mode target --op bind --tid 1 -Q $initiator &&
    iscsi-inq -i $initiator "iscsi://127.0.0.1/$target/1?iser"
