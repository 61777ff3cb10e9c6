//! Cortes, Girona and Labarta, *Design Issues of a Cooperative Cache with no Coherence Problems*, IOPADS 1997, sections 5 and 6.

mod reasons;
mod remote_hits;
mod site;
mod statements;
mod sweeps;
mod tables;

use crate::figure::Figure;
use crate::plan::{Plan, Results};
use crate::study::Scale;
use site::{NOW, PM, Site};

pub(crate) const TITLE: &str =
    "PAFS: a cooperative cache with no coherence problems (IOPADS 1997), simulated";

/// All runs.
#[derive(Debug)]
pub(crate) struct Runs {
    pm: Site,
    now: Site,
}

impl Runs {
    pub(crate) fn new(plan: &mut Plan, scale: Scale) -> Self {
        Self { pm: Site::new(plan, &PM, scale), now: Site::new(plan, &NOW, scale) }
    }

    pub(crate) fn figures(&self, results: &Results<'_>) -> Vec<Figure> {
        let (pm, now) = (&self.pm, &self.now);
        let with = |mut figure: Figure, judge: &dyn Fn(&mut Figure)| {
            judge(&mut figure);
            figure
        };
        vec![
            tables::workloads(pm, now),
            tables::machines(),
            with(sweeps::policies(pm, "Figure 2", results), &|f| statements::figure_2(f, pm, results)),
            remote_hits::equations(pm, results),
            with(sweeps::bandwidth(pm, "Figure 3", results), &|f| statements::figure_3(f, pm, results)),
            with(sweeps::caches(pm, "Figure 4", results), &|f| statements::figure_4(f, pm, results)),
            with(sweeps::levels(pm, "Figure 5", results), &|f| statements::figure_5(f, pm, results)),
            with(sweeps::policies(now, "Figure 6", results), &|f| statements::figure_6(f, now, results)),
            with(sweeps::bandwidth(now, "Figure 7", results), &|f| statements::figure_7(f, now, results)),
            with(sweeps::caches(now, "Figure 8", results), &|f| statements::figure_8(f, now, results)),
            with(sweeps::levels(now, "Figure 9", results), &|f| statements::figure_9(f, pm, now, results)),
        ]
    }
}

pub(crate) fn introduction(scale: Scale) -> Vec<String> {
    let mut all = vec![
        "What `cards paper pafs` finds: the figures of T. Cortes, S. Girona and J. Labarta, *Design Issues of a Cooperative Cache \
         with no Coherence Problems*, IOPADS 1997, section 6, from simulations of PAFS and of xFS (`docs/internals/pafs.md` and \
         `xfs.md` say how they are modelled). This page is written by that command."
            .to_owned(),
        "**PM** is the parallel machine of Table 2 with `gen:charisma`, three seeds, **NOW** the network of workstations with \
         `gen:sprite`, the length of the paper's two days. As in the paper, the first 10 (PM) and 15 (NOW) of 48 parts warm the \
         caches. Numbers of PM are means over the seeds."
            .to_owned(),
        "The paper gives a server the files of its hash, and does not say how many cache servers there are and how often partitions \
         change. Here there are 16, as many as PM has disks, and a server has pieces of 1 MiB of the volume, also by hash: most \
         files of the traces are smaller. With a server on each of 128 nodes a partition is as large as one piece. Partitions change \
         every second on PM and every 10 seconds on NOW: the limit on gains can only matter if the disks need longer than an \
         interval to fill the tenth of all caches that can be lost at once, which is 1.2 s on PM and 14 s on NOW. Figure 2 has \
         tables with other values."
            .to_owned(),
    ];
    if scale == Scale::Fast {
        all.push(
            "**Fast**: the traces are a fraction as long, with one seed, and the caches hardly fill. The numbers show that \
             everything works, not what the systems do."
                .to_owned(),
        );
    }
    all
}
