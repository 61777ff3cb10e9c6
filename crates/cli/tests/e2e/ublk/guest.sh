#!/bin/sh
# First process of the guest: a daemon, and its volume as a disk of the ublk driver. Everything lies in memory.
export PATH=/bin RUST_LOG=info

finish() {
    status=$?
    [ $status = 0 ] || cat /run/*.log
    echo "guest: exit $status"
    # No file system is to be kept, and one that hangs would keep it from ending.
    echo o > /proc/sysrq-trigger
    while :; do sleep 1; done
}

say() { echo "guest: $*"; }
until_true() { n=0; until "$@"; do n=$((n + 1)); [ $n -lt 600 ] || { say "timeout: $*"; exit 1; }; sleep 0.1; done; }
begin() {
    cards serve --config /node.toml >> /run/daemon.log 2>&1 & daemon=$!
    until attached; do
        if ended $daemon; then return 1; fi
        sleep 0.1
    done
}
# The kernel may hold a dead daemon's lock of the disk for a moment longer than the daemon lives.
serve() { until_true begin; }
attached() { cards status --socket "$socket" 2> /dev/null | grep -q disk; }
ended() { ! kill -0 "$1" 2> /dev/null; }
device() {
    rm -f /run/said
    cards device disk --socket "$socket" --mode rw --ublk > /run/said 2>> /run/device.log & device=$!
    until_true grep -q block /run/said
    disk=$(sed 's/.*"block":"\([^"]*\)".*/\1/' /run/said)
}

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /run
mkdir -p /run/volume /run/n1 /tmp
trap finish EXIT
set -e
ip link set lo up
socket=/run/n1/admin.sock

truncate -s 96M /run/disk.img
serve

# Without the driver it says what is missing.
if cards device disk --socket $socket --ublk > /run/refused 2>&1; then exit 1; fi
grep -q ublk_drv /run/refused
say refused

insmod /ublk_drv.ko
device
queue=/sys/block/${disk#/dev/}/queue
say "disk of $(blockdev --getsize64 "$disk") bytes, sectors of $(blockdev --getss "$disk"), blocks of $(cat "$queue/physical_block_size")"
say "cache $(cat "$queue/write_cache"), fua $(cat "$queue/fua"), discard $(cat "$queue/discard_max_bytes"), zeroes $(cat "$queue/write_zeroes_max_bytes")"

/sbin/mkfs.ext4 -q -F "$disk"
mount -t ext4 "$disk" /run/volume
dd if=/dev/urandom of=/run/volume/first bs=1M count=8 2> /dev/null
dd if=/dev/urandom of=/run/want bs=1M count=24 2> /dev/null
sync
say written

# It goes on while something is mounted.
kill -TERM $device
until_true grep -q 'is in use' /run/device.log
say "in use"

# The daemon dies in the middle of a copy.
sha256sum < /run/volume/first > /run/first.sum
dd if=/run/want of=/run/volume/second bs=64k conv=fsync 2> /run/dd.log & copy=$!
usleep 300000
kill -9 $daemon
sleep 1
if ended $copy; then say "the copy was over before"; fi
serve
until_true ended $copy
wait $copy
say "copied over a restart"
echo 3 > /proc/sys/vm/drop_caches
cmp /run/want /run/volume/second
sha256sum < /run/volume/first | cmp - /run/first.sum
umount /run/volume
say "read again"

# Zeroes and a discard, past any file system.
dd if=/run/want of="$disk" bs=1M count=4 conv=fsync 2> /dev/null
/sbin/blkdiscard -z -o 1048576 -l 1048576 "$disk"
dd if="$disk" bs=1M skip=1 count=1 2> /dev/null | cmp -n 1048576 - /dev/zero
/sbin/blkdiscard -o 2097152 -l 1048576 "$disk"
dd if="$disk" bs=1M count=1 2> /dev/null | cmp -n 1048576 - /run/want
say zeroed

kill -TERM $device
until_true ended $device
test ! -e "$disk"
test ! -e "/dev/ublkc${disk#/dev/ublkb}"
say detached

# A device that is killed leaves nothing that is in the way of the next.
device
kill -9 $device
until_true test ! -e "$disk"
device
cmp -n 1048576 "$disk" /run/want
kill -TERM $device
until_true ended $device
test -z "$(ls /dev | grep 'ublk[bc][0-9]')"
say "started after a kill"

# What people type.
disk=$(cards attach disk --ublk --socket $socket)
cmp -n 1048576 "$disk" /run/want
exec 3< "$disk"
if cards detach disk --socket $socket 2> /run/detach.log; then exit 1; fi
cmp -n 1048576 "$disk" /run/want
exec 3<&-
cards detach disk --socket $socket
test ! -e "$disk"
say "attached and detached"

# A disk that can only be read says so to the kernel. Until here the card was that of the configuration.
cards volume detach disk --socket $socket
disk=$(cards attach disk --ublk --mode ro --socket $socket)
test "$(blockdev --getro "$disk")" = 1
if dd if=/run/want of="$disk" bs=4k count=1 conv=notrunc 2> /dev/null; then exit 1; fi
cmp -n 1048576 "$disk" /run/want
cards detach disk --socket $socket
say "read only"

# Lazily, what is mounted goes out of sight, and the disk goes with the last open file.
disk=$(cards attach disk --ublk --socket $socket)
/sbin/mkfs.ext4 -q -F "$disk"
mount -t ext4 "$disk" /run/volume
exec 3> /run/volume/open
echo before >&3
cards detach disk --lazy --socket $socket 2> /run/lazy.log
grep -q 'still in use' /run/lazy.log
if grep -q /run/volume /proc/mounts; then exit 1; fi
echo after >&3
test -e "$disk"
exec 3>&-
until_true test ! -e "$disk"
until_true test ! -e /run/n1/dev/disk.json
cards detach disk --socket $socket
say "detached lazily"

# The process is killed under a mount.
disk=$(cards attach disk --ublk --socket $socket)
mount -t ext4 "$disk" /run/volume
test "$(tr '\n' ' ' < /run/volume/open)" = "before after "
kill -9 "$(sed 's/.*"pid":\([0-9]*\).*/\1/' /run/n1/dev/disk.json)"
until_true test ! -e "$disk"
if cards attach disk --ublk --socket $socket 2> /run/dead.log; then exit 1; fi
grep -q 'was killed.*mounted at /run/volume' /run/dead.log
cards umount /run/volume --socket $socket
cards detach disk --socket $socket 2> /run/dead.log
grep -q 'was killed' /run/dead.log
no_device() { test -z "$(ls /dev | grep 'ublk[bc][0-9]')"; }
until_true no_device
say "killed under a mount"
