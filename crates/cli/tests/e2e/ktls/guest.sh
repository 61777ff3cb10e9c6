#!/bin/sh
# First process of the guest: two daemons, and a file at each that is one volume. Everything lies in memory.
export PATH=/bin RUST_LOG=info

finish() {
    status=$?
    cat /proc/net/tls_stat
    [ $status = 0 ] || tail -n 40 /run/*.log
    echo "guest: exit $status"
    echo o > /proc/sysrq-trigger
    while :; do sleep 1; done
}

say() { echo "guest: $*"; }
until_true() { n=0; until "$@"; do n=$((n + 1)); [ $n -lt 600 ] || { say "timeout: $*"; exit 1; }; sleep 0.1; done; }
ended() { ! kill -0 "$1" 2> /dev/null; }
status() { cards status --socket "/run/$1/admin.sock" 2> /dev/null; }
is_well() { status "$1" | grep -q "all is well"; }
# What a node says of the other one, and the same for programs.
encrypts() {
    status "$1" | grep -q "^  n[12]: TLS 1.3 in the $2" &&
        cards status --json --socket "/run/$1/admin.sock" | grep -q "\"encryption\": *\"$2\""
}
start() { cards serve --config "/run/$1.toml" >> "/run/$1.log" 2>&1 & eval "$1=\$!"; }
stop() { kill -TERM $1; until_true ended $1; }
both_in() { for node in n1 n2; do until_true is_well $node; until_true encrypts $node "$1"; done; }
begin() {
    for node in n1 n2; do sed "s/BLOCK/$1/" /$node.toml > /run/$node.toml; done
    start n1
    start n2
    both_in "$2"
    for node in n1 n2; do
        cards attach disk --socket /run/$node/admin.sock > /run/$node.device
    done
    one=$(cat /run/n1.device) other=$(cat /run/n2.device)
}
end() {
    for node in n1 n2; do cards detach disk --socket /run/$node/admin.sock; done
    stop $n2
    stop $n1
}
# What is written at each is read at the other, from its memory.
exchange() {
    for way in "$one $other" "$other $one"; do
        set -- $way
        dd if=/dev/urandom of=/run/want bs=1M count=16 2> /dev/null
        dd if=/run/want of="$1" bs=256k conv=notrunc,fsync 2> /dev/null
        echo 3 > /proc/sys/vm/drop_caches
        cmp -n 16777216 /run/want "$2"
    done
}

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /run
mkdir -p /run/n1/state /run/n2/state /tmp
trap finish EXIT
set -e
ip link set lo up
for node in n1 n2; do cp -a /identity/$node /run/$node/state/identity; done
truncate -s 64M /run/disk.img

begin 64K daemon
say "in the daemon"
exchange
say "the same in the daemon"

# Connections that are made anew ask the kernel anew. It has TLS now, and lacks what that needs.
insmod /tls.ko
stop $n2
start n2
both_in daemon
test "$(awk '/TlsTxSw/ { print $2 }' /proc/net/tls_stat)" = 0
say "in the daemon without a cipher"

for module in gf128mul ghash-generic crypto_null gcm; do insmod /$module.ko; done
stop $n2
start n2
both_in kernel
say "in the kernel"
exchange
say "the same in the kernel, blocks of 64K"

# The network is gone for longer than a connection waits.
cut() { ! status n1 | grep -q "TLS 1.3"; }
ip link set lo down
until_true cut
ip link set lo up
both_in kernel
exchange
say "connected again"

# A node dies in the middle of a copy, and its connections with it.
dd if=/run/want of="$other" bs=64k conv=notrunc,fsync 2> /run/dd.log & copy=$!
usleep 300000
if ended $copy; then say "the copy was over before"; fi
kill -9 $n2
sleep 1
start n2
both_in kernel
until_true ended $copy
wait $copy
echo 3 > /proc/sys/vm/drop_caches
cmp -n 16777216 /run/want "$one"
say "copied over a kill"
end

begin 4K kernel
exchange
say "the same in the kernel, blocks of 4K"
end
