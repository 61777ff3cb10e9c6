#!/bin/sh
# First process of a User-mode Linux guest that has its swap area on a volume: the kernel's own NBD client against a node's server.
# The host's root tree is the guest's, read-only. The kernel command line gives PORT, at 10.77.0.1, and EXPORT as environment variables.
# More is written to a tmpfs than the guest has memory for, and then read again and again.
set -eu
export PATH=/usr/sbin:/usr/bin:/sbin:/bin

finish() {
    echo "guest: exit $?"
    echo o > /proc/sysrq-trigger
    while :; do sleep 1; done
}

mount -t proc proc /proc
trap finish EXIT
mount -t sysfs sysfs /sys
mountpoint -q /dev || mount -t devtmpfs devtmpfs /dev
mount -t tmpfs -o size=260m tmpfs /run
insmod "/usr/lib/uml/modules/$(uname -r)/kernel/drivers/block/nbd.ko"
ip link set lo up
ip addr add 10.77.0.2/24 dev vec0
ip link set vec0 up
nbd-client 10.77.0.1 "$PORT" /dev/nbd0 -N "$EXPORT" -b 4096 -swap
mkswap /dev/nbd0 > /dev/null
swapon /dev/nbd0
mkdir /run/pages
cd /run/pages
for file in $(seq 24); do
    dd if=/dev/urandom of="$file" bs=1M count=10 status=none
    sha256sum "$file" >> ../sums
done
echo "guest: swapped $(awk '/^Swap(Total|Free)/ { kib = $2 - kib } END { print -kib }' /proc/meminfo) KiB"
for round in $(seq 6); do
    sha256sum --quiet -c ../sums
    # What is read moves in, and something else out.
    dd if=/dev/urandom of="$round" bs=1M count=10 status=none
    sed -i "/ $round\$/d" ../sums
    sha256sum "$round" >> ../sums
    echo "guest: round $round"
done
cd /
rm -r /run/pages
swapoff /dev/nbd0
nbd-client -d /dev/nbd0
