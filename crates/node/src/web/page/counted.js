// What a node counted between two of its statuses: from totals to differences. Nothing here knows of the page.

import { COUNTED } from "./ring.js";

/** Seconds between two statuses at least: of a shorter time, one burst would look like a rate. */
const LEAST = 1;

/** The totals of one node. */
function totals(status) {
  const all = { ...status.counters, disk_bytes_read: 0, disk_bytes_written: 0 };
  for (const disk of status.disks) {
    all.disk_bytes_read += disk.bytes_read;
    all.disk_bytes_written += disk.bytes_written;
  }
  return { ...all, ...sums(requests(status.volumes)) };
}

/** How many requests of each kind, and what they took together. */
function sums({ read, write }) {
  return { read_requests: read.count, read_us: read.us, write_requests: write.count, write_us: write.us };
}

/** The totals of one volume at one node. */
function totalsOf(volume) {
  const io = volume.io ?? {};
  const bytes = (op) => io.ops?.find((one) => one.op === op)?.bytes ?? 0;
  const { local_hits = 0, remote_hits = 0, disk_reads = 0, lock_waits = 0 } = io;
  return {
    reads: local_hits + remote_hits + disk_reads, local_hits, remote_hits, disk_reads, lock_waits,
    bytes_read: bytes("read"), bytes_written: bytes("write"), ...sums(requests([volume])),
  };
}

/** Requests of clients to volumes, by kind: how many, what they took together, and how many in each class of time. */
function requests(volumes) {
  const all = { read: { count: 0, us: 0, classes: new Map() }, write: { count: 0, us: 0, classes: new Map() } };
  for (const { op, total_us, latency } of volumes.flatMap(({ io }) => io?.ops ?? [])) {
    if (!all[op]) continue;
    all[op].us += total_us;
    for (const [begin, count] of latency) {
      all[op].count += count;
      all[op].classes.set(begin, (all[op].classes.get(begin) ?? 0) + count);
    }
  }
  return all;
}

/** The time in microseconds that 99 % of the requests since `before` took at most. */
function p99(before, now) {
  const since = [...now.classes].map(([begin, count]) => [begin, difference(count, before.classes.get(begin))]);
  let wanted = 0.99 * since.reduce((sum, [, count]) => sum + count, 0);
  for (const [begin, count] of since.sort(([a], [b]) => a - b)) {
    // Four classes for every power of two.
    const width = begin < 4 ? 1 : 2 ** (Math.floor(Math.log2(begin)) - 2);
    if (count > 0 && count >= wanted) return begin + (width * wanted) / count;
    wanted -= count;
  }
  return 0;
}

const difference = (now, before) => Math.max(0, (now ?? 0) - (before ?? 0));

/** What was counted between two totals, and the requests behind them. */
function since(before, now, asked, answered) {
  const counted = Object.fromEntries(COUNTED.map((name) => [name, difference(now[name], before[name])]));
  counted.read_p99_us = p99(asked.read, answered.read);
  counted.write_p99_us = p99(asked.write, answered.write);
  return counted;
}

const named = (list, name) => list?.find((item) => item.name === name);

/** Whether a status is of the same life as the one before it, and enough later. */
export const goesOn = (before, now) => now.time_ms - before.time_ms >= LEAST * 1000 && now.uptime_s >= before.uptime_s;

/** What the node did between two of its statuses. */
export function between(before, now) {
  const seconds = (now.time_ms - before.time_ms) / 1000;
  const counted = since(totals(before), totals(now), requests(before.volumes), requests(now.volumes));
  const disks = now.disks.map((disk) => {
    const old = named(before.disks, disk.name);
    return {
      name: disk.name,
      read: difference(disk.bytes_read, old?.bytes_read) / seconds,
      written: difference(disk.bytes_written, old?.bytes_written) / seconds,
    };
  });
  const sent = now.members.map((member) => {
    const old = named(before.members, member.name) ?? member;
    return { to: member.name, rate: difference(member.bytes_sent, old.bytes_sent) / seconds };
  });
  const volumes = new Map(now.volumes.filter(({ io }) => io?.ops?.length).map((volume) => {
    const old = named(before.volumes, volume.name) ?? { io: {} };
    return [volume.name, since(totalsOf(old), totalsOf(volume), requests([old]), requests([volume]))];
  }));
  return { seconds, counted, disks, sent, volumes };
}
