#!/bin/sh
# First process of a User-mode Linux guest that is a disk node: its disk is /dev/ubda, and the guest is killed with what
# its page cache has. The host's root tree is the guest's, read-only; STATE is a directory of the host that outlives the
# guest. The kernel command line gives CARDS, the program, CONFIG, its configuration, and STATE as environment variables.
set -eu
export PATH=/usr/sbin:/usr/bin:/sbin:/bin

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mountpoint -q /dev || mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /run
mkdir -p /run/n1/state
mount -t hostfs none /run/n1/state -o "$STATE"
# Nothing is written back unless it is asked for.
echo 0 > /proc/sys/vm/dirty_writeback_centisecs
ip link set lo up
ip addr add 10.77.0.2/24 dev vec0
ip link set vec0 up
exec "$CARDS" serve --config "$CONFIG"
