//! Many nodes start from one image.

use super::Generator;
use super::agenda::Agenda;
use super::parameter::{Kind, Parameter};
use super::random::{Permutation, Random, scramble};
use super::registry::Entry;
use super::spec::{SpecError, Values};
use super::stream::{Stream, Workload};
use crate::{Op, Request};

pub(crate) const ENTRY: Entry = Entry {
    name: "boot",
    title: "boot storm: many nodes read the same part of one image in nearly the same order",
    source: "no measurement: the pattern of virtual machines and diskless nodes that start together",
    parameters: &[
        Parameter::SEED,
        Parameter::nodes("50"),
        Parameter::requests("all"),
        Parameter::TIME,
        Parameter {
            name: "image",
            kind: Kind::Bytes(1 << 20, 1 << 50),
            default: "8GiB",
            meaning: "size of the image, volume 0",
        },
        Parameter {
            name: "hot",
            kind: Kind::Bytes(1 << 20, 1 << 50),
            default: "120MiB",
            meaning: "part of the image that every node reads",
        },
        Parameter {
            name: "private",
            kind: Kind::Bytes(4096, 1 << 40),
            default: "8MiB",
            meaning: "what each node writes (copy on write) to a volume of its own: node n to volume n + 1",
        },
        Parameter {
            name: "stray",
            kind: Kind::Real(0.0, 1.0),
            default: "0.02",
            meaning: "share of the runs of 128 KiB that a node reads elsewhere in the image",
        },
        Parameter {
            name: "jitter",
            kind: Kind::Real(0.0, 1.0),
            default: "0.2",
            meaning: "share of the groups of 8 runs that a node reads in an order of its own",
        },
        Parameter {
            name: "window",
            kind: Kind::Time(1_000_000),
            default: "30s",
            meaning: "the nodes start at random within this time",
        },
        Parameter {
            name: "compute",
            kind: Kind::Time(1_000),
            default: "1500us",
            meaning: "mean compute demand per request",
        },
    ],
    build,
};

const BLOCK: u64 = 4096;
/// What lies together in the image and is read together.
const RUN: u64 = 128 << 10;
const GROUP: u64 = 8;
const WRITE: u64 = 16 << 10;

fn build(values: &Values) -> Result<Box<dyn Generator>, SpecError> {
    let nodes = values.small("nodes");
    let (image, hot) = (values.number("image") / RUN, values.number("hot") / RUN);
    if hot > image {
        return Err(values.conflict("hot", "should not exceed image"));
    }
    let seed = values.number("seed");
    let mut random = Random::new(seed);
    let mut agenda = Agenda::default();
    for node in 0..nodes {
        agenda.add(random.below(values.number("window").saturating_add(1)), node);
    }
    let boot = Boot {
        seed,
        image,
        hot,
        place: Permutation::new(image, seed),
        private: values.number("private") / BLOCK * BLOCK,
        stray: values.real("stray"),
        jitter: values.real("jitter"),
        compute: values.number("compute"),
        guests: vec![Guest { step: 0, at: 0, end: 0, written: 0 }; nodes as usize],
        agenda,
        random,
    };
    Ok(Stream::boxed(boot, values))
}

/// A node that boots.
#[derive(Clone)]
struct Guest {
    /// Runs that it has begun.
    step: u64,
    /// What is left of the run, in bytes from the start of the image.
    at: u64,
    end: u64,
    /// What it has written.
    written: u64,
}

struct Boot {
    seed: u64,
    /// In runs.
    image: u64,
    /// In runs.
    hot: u64,
    place: Permutation,
    private: u64,
    stray: f64,
    jitter: f64,
    compute: u64,
    guests: Vec<Guest>,
    agenda: Agenda,
    random: Random,
}

impl Boot {
    /// The run that a node reads at a step: mostly the one that all others read then.
    fn run(&mut self, node: u32, step: u64) -> u64 {
        let group = step / GROUP;
        let whim = scramble(self.seed ^ scramble(u64::from(node) << 32 ^ group));
        let mut place = step;
        if (whim as f64) < self.jitter * u64::MAX as f64 {
            let size = GROUP.min(self.hot - group * GROUP);
            place = group * GROUP + Permutation::new(size, whim).at(step % GROUP);
        }
        if self.random.chance(self.stray) {
            // Strays come from what is not hot, if there is such a part.
            place = self.hot.min(self.image - 1) + self.random.below(self.image - self.hot);
        }
        self.place.at(place)
    }
}

impl Workload for Boot {
    fn next(&mut self) -> Option<Request> {
        let moment = self.agenda.first()?;
        let node = moment.node;
        let mut guest = self.guests.get(node as usize)?.clone();
        // Writes keep pace with the reads, so that both end together.
        let due = (u128::from(self.private) * u128::from(guest.step) / u128::from(self.hot)) as u64;
        let between_runs = guest.at == guest.end;
        let request = if between_runs && (guest.written + WRITE <= due || guest.step == self.hot) {
            let bytes = WRITE.min(self.private - guest.written);
            guest.written += bytes;
            moment.request(Op::Write, node as u16 + 1, guest.written - bytes, bytes as u32)
        } else {
            if between_runs {
                guest.at = self.run(node, guest.step) * RUN;
                guest.end = guest.at + RUN;
                guest.step += 1;
            }
            // 4 to 64 KiB, the same for all who come to this place.
            let bytes = BLOCK << (scramble(self.seed ^ guest.at) % 5);
            let bytes = bytes.min(guest.end - guest.at);
            guest.at += bytes;
            moment.request(Op::Read, 0, guest.at - bytes, bytes as u32)
        };
        let done = guest.at == guest.end && guest.step == self.hot && guest.written == self.private;
        *self.guests.get_mut(node as usize)? = guest;
        if done {
            self.agenda.end_first();
        } else {
            self.agenda.compute_first(self.random.gap(self.compute));
        }
        Some(request)
    }

    fn volumes(&self) -> Vec<u64> {
        let private = std::iter::repeat_n(self.private, self.guests.len());
        std::iter::once(self.image * RUN).chain(private).collect()
    }
}
