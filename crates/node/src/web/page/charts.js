// The charts of the page. Each can show the cluster, a node, or a volume.

import { Chart } from "./chart.js";
import { byId, byteRate, rate, time } from "./dom.js";

const per = (field) => (ring, index) => ring.rate(index, field);
const series = (label, style, field) => ({ label, style, of: per(field) });
/** Nodes count it for all their volumes together. */
const ofNodes = (...of) => ({ ...series(...of), ofNodes: true });

/** All of them; what only nodes count is left out where a volume is shown. */
export function charts() {
  const figures = byId("charts");
  const activity = byId("activity");
  return [
    new Chart(figures, {
      title: "Blocks read by clients", note: "where they came from", format: rate, least: 10, stacked: true,
      series: [
        series("disk", "disk", "disk_reads"),
        series("another node's cache", "remote", "remote_hits"),
        series("own cache", "local", "local_hits"),
      ],
    }),
    new Chart(figures, {
      title: "Throughput", format: byteRate, base: 1024, least: 1024,
      series: [
        series("clients read", "local", "bytes_read"),
        series("clients write", "written", "bytes_written"),
        ofNodes("between nodes", "remote", "bytes_sent"),
        ofNodes("disks read", "disk", "disk_bytes_read"),
      ],
    }),
    new Chart(activity, {
      title: "Latency", note: "at the daemons, log scale", format: time, log: true,
      series: [
        { label: "reads, mean", style: "local", of: (ring, index) => ring.mean(index, "read") },
        { label: "99 %", style: "local dashed", of: (ring, index) => ring.p99(index, "read") },
        { label: "writes, mean", style: "written", of: (ring, index) => ring.mean(index, "write") },
        { label: "99 %", style: "written dashed", of: (ring, index) => ring.p99(index, "write") },
      ],
    }),
    new Chart(activity, {
      title: "Locks", format: rate, least: 1,
      series: [
        series("asked for", "local", "locks_asked"),
        series("given up", "remote", "locks_given_up"),
        series("reads that waited", "written", "lock_waits"),
        series("copies invalidated", "disk", "invalidations"),
      ],
    }),
    new Chart(activity, {
      title: "Policy", note: "blocks that leave a cache", format: rate, least: 1,
      series: [
        series("evicted", "disk", "evictions"),
        series("sent to another node", "remote", "forwarded"),
        series("taken in for others", "local", "stored_for_others"),
      ],
    }),
  ];
}

/** Of what is looked at, whether a chart has anything to show: nodes count the last two for all their volumes together. */
export const isFor = (chart, look) => look?.kind !== "volume" || !["Locks", "Policy"].includes(chart.title);
