#!/bin/sh
# First process of a User-mode Linux guest that is a disk node: its disk is /dev/ubda, and the guest is killed with what
# its page cache has. The host's root tree is the guest's, read-only; STATE is a directory of the host that outlives the
# guest. The kernel command line gives as environment variables CARDS, the program, CONFIG, its configuration, RUNTIME, its
# directory for sockets, which has STATE in it, ADDRESS and GATEWAY of its network, and WRITEBACK, after how many hundredths of
# a second what nobody asks for is written back: 0 for never.
set -eu
export PATH=/usr/sbin:/usr/bin:/sbin:/bin

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mountpoint -q /dev || mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /run
mkdir -p "$RUNTIME/state"
mount -t hostfs none "$RUNTIME/state" -o "$STATE"
echo "$WRITEBACK" > /proc/sys/vm/dirty_writeback_centisecs
echo "$WRITEBACK" > /proc/sys/vm/dirty_expire_centisecs
ip link set lo up
ip addr add "$ADDRESS/24" dev vec0
ip link set vec0 up
ip route add default via "$GATEWAY"
exec "$CARDS" serve --config "$CONFIG"
