#!/bin/sh
# First process of the User-mode Linux guest: the kernel's own NBD client against the server under test.
# The host's root tree is the guest's, read-only. The kernel command line gives, as environment variables,
# WRITE_PORT and READ_PORT (two nodes of one volume, at 10.77.0.1) and EXPORT, its name.
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
mount -t tmpfs tmpfs /run
mkdir /run/volume
insmod "/usr/lib/uml/modules/$(uname -r)/kernel/drivers/block/nbd.ko"
ip link set lo up
ip addr add 10.77.0.2/24 dev vec0
ip link set vec0 up

attach() { nbd-client 10.77.0.1 "$1" /dev/nbd0 -N "$EXPORT" -b 4096; }
detach() { nbd-client -d /dev/nbd0; }
sums() { (cd /run/volume && find . -type f -print0 | sort -z | xargs -0 sha256sum); }

attach "$WRITE_PORT"
echo "guest: attached $(blockdev --getsize64 /dev/nbd0) bytes"
mkfs.ext4 -q -F /dev/nbd0
mount -t ext4 /dev/nbd0 /run/volume
dd if=/dev/urandom of=/run/volume/large bs=1M count=24 status=none
mkdir /run/volume/small
for i in 1 2 3 4 5 6 7 8 9 10; do
    dd if=/dev/urandom of=/run/volume/small/$i bs=1000 count=$i status=none
done
sums > /run/written
sync
echo 3 > /proc/sys/vm/drop_caches
sums > /run/reread
cmp /run/written /run/reread
echo "guest: reread"
umount /run/volume
detach

attach "$READ_PORT"
e2fsck -fn /dev/nbd0 > /run/e2fsck 2>&1 || { cat /run/e2fsck; exit 1; }
mount -t ext4 -o ro,noload /dev/nbd0 /run/volume
sums > /run/elsewhere
cmp /run/written /run/elsewhere
echo "guest: read elsewhere"
umount /run/volume
detach
