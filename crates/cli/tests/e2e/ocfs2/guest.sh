#!/bin/sh
# First process of a User-mode Linux guest that is one node of an OCFS2 cluster of two.
# The host's root tree is the guest's, read-only. The kernel command line gives, as environment variables, NODE
# (0 or 1), TOOLS, the directory of this file, and ORDERS, a directory of the host. The guest runs the shell
# commands in $ORDERS/1, $ORDERS/2, … as they appear there, and says after each `guest: did N STATUS`. The last
# one is `leave`.
set -u
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
volume=/run/volume
peer=$((1 - NODE))

start() {
    mount -t proc proc /proc &&
    mount -t sysfs sysfs /sys &&
    { mountpoint -q /dev || mount -t devtmpfs devtmpfs /dev; } &&
    mount -t tmpfs tmpfs /run &&
    mkdir $volume || return
    for module in drivers/block/nbd fs/quota/quota_tree fs/configfs/configfs fs/ocfs2/cluster/ocfs2_nodemanager \
        fs/ocfs2/ocfs2_stackglue fs/ocfs2/dlm/ocfs2_dlm fs/ocfs2/ocfs2_stack_o2cb fs/ocfs2/ocfs2; do
        insmod "/usr/lib/uml/modules/$(uname -r)/kernel/$module.ko" || return
    done
    hostname "node$NODE" &&
    ip link set lo up &&
    ip addr add "10.77.0.1$NODE/24" dev vec0 &&
    ip link set vec0 up
}

# join SECONDS: enters the cluster; a node without heartbeat for that long is dead to the others.
join() {
    mount -t tmpfs tmpfs /etc/ocfs2 &&
    mount -t configfs configfs /sys/kernel/config &&
    {
        echo "cluster:"
        printf '\t%s\n' "name = cards" "heartbeat_mode = local" "node_count = 2"
        for number in 0 1; do
            echo "node:"
            printf '\t%s\n' "name = node$number" "number = $number" "cluster = cards" \
                "ip_address = 10.77.0.1$number" "ip_port = 7777"
        done
    } > /etc/ocfs2/cluster.conf &&
    echo o2cb > /sys/fs/ocfs2/cluster_stack &&
    o2cb register-cluster cards &&
    # A beat every two seconds, and the first one does not count.
    echo $(($1 / 2 + 1)) > /sys/kernel/config/cluster/cards/heartbeat/dead_threshold
}

# attach PORT: the export `disk` of the server there becomes /dev/nbd0.
attach() {
    nbd-client 10.77.0.1 "$1" /dev/nbd0 -N disk -b 4096 &&
    echo "guest: attached $(blockdev --getsize64 /dev/nbd0) bytes"
}

# attach_for_ever PORT: the same, and a broken connection is made again.
attach_for_ever() {
    /usr/bin/python3 "$TOOLS/attach.py" 10.77.0.1 "$1" &
    until [ "$(blockdev --getsize64 /dev/nbd0)" != 0 ]; do sleep 0.2; done
}

enter() { mount.ocfs2 /dev/nbd0 $volume -o _netdev; }

# seen FILE: waits until FILE exists; another node makes it. Looking takes a lock from that node, so not too often.
seen() {
    tries=0
    until [ -e "$1" ]; do
        tries=$((tries + 1))
        [ $tries -lt 240 ] || { echo "guest: no $1"; return 1; }
        sleep 0.25
    done
}

# Publishes a file of $1 random KiB called $2 with its checksum as the name's end, whole or not at all.
publish() {
    dd if=/dev/urandom of=$volume/new.$NODE bs=1K count="$1" status=none &&
    sum=$(md5sum < $volume/new.$NODE) &&
    mv $volume/new.$NODE "$volume/$2.${sum%% *}" &&
    : > "$volume/$2"
}

# Takes the file $1 of the other node, compares it with its checksum, and deletes it.
take() {
    seen "$volume/$1" || return
    for file in "$volume/$1".*; do
        sum=$(md5sum < "$file")
        [ "${file##*.}" = "${sum%% *}" ] || { echo "guest: $file has the sum $sum"; return 1; }
    done
    rm "$file" "$volume/$1"
}

# rally ROUNDS: the nodes take turns; each checks and deletes the other's file, publishes one of its own, and adds
# a line to the log that both write.
rally() {
    round=1
    while [ $round -le "$1" ]; do
        [ "$NODE$round" = 01 ] || take "turn$peer.$((round - peer))" || return
        echo "node $NODE round $round" >> $volume/log &&
        publish $((round % 8 * 20 + 1)) "turn$NODE.$round" || return
        echo "guest: played $round"
        round=$((round + 1))
    done
    [ "$NODE" = 1 ] || take "turn1.$1"
}

# logged ROUNDS: whether the log has the lines of that many rounds and no others.
logged() {
    round=1
    while [ $round -le "$1" ]; do
        printf 'node %s\n' "0 round $round" "1 round $round"
        round=$((round + 1))
    done | cmp - $volume/log && rm $volume/log
}

# The contents of file $1, without a process: they cost most here.
text() {
    printf "file $1 line %s\n" 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20
    printf "file $1 verse %s\n" 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20
}

# Makes files without end, and says `guest: kept N` when the first N have reached the disk.
create() {
    mkdir $volume/crash || return
    number=0
    while :; do
        made=
        for _ in 1 2 3 4 5 6 7 8; do
            number=$((number + 1))
            text $number > $volume/crash/$number || return
            made="$made $volume/crash/$number"
        done
        sync $made || return
        echo "guest: kept $number"
    done
}

# kept N: whether the first N files that the other node made have their contents.
kept() {
    number=1
    while [ $number -le "$1" ]; do
        text $number
        number=$((number + 1))
    done > /run/expected
    (cd $volume/crash && seq "$1" | xargs cat) | cmp - /run/expected &&
    echo "guest: has $(find $volume/crash -type f | wc -l) files, and must have $1"
}

# Whether the file system is whole. With -n fsck reports what it finds as [CODE], and calls that a success.
check() {
    fsck.ocfs2 -fn /dev/nbd0 > /run/fsck 2>&1
    status=$?
    cat /run/fsck
    [ $status = 0 ] && ! grep -q '^\[' /run/fsck
}

leave() {
    nbd-client -d /dev/nbd0
    echo o > /proc/sysrq-trigger
}

start
echo "guest: started $?"
order=1
while :; do
    until [ -e "$ORDERS/$order" ]; do sleep 0.2; done
    . "$ORDERS/$order"
    echo "guest: did $order $?"
    order=$((order + 1))
done
