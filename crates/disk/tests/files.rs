//! Random jobs against a vector, hole maps, direct I/O, short transfers.

use std::os::fd::{AsRawFd as _, FromRawFd as _};

use cards_disk::{Engine, Job, Op, Outcome};

use crate::harness::*;

/// Random jobs, eight disjoint ones in flight at a time, against a vector.
pub(crate) async fn against_oracle(engine: &Engine, size: usize, rounds: usize, seed: u64) {
    const LANES: usize = 8;
    let mut random = Random(seed);
    let mut oracle = read(engine, 0, size).await.unwrap();
    let lane = size / LANES;
    for _ in 0..rounds {
        let mut buffers = vec![Vec::new(); LANES];
        let mut reads = Vec::new();
        for (i, buffer) in buffers.iter_mut().enumerate() {
            let start = i * lane + random.below(lane as u64) as usize;
            let len = random.below(((i + 1) * lane - start) as u64 + 1) as usize;
            let (offset, range) = (start as u64, start..start + len);
            let fill = random.next() as u8;
            let op = match random.below(8) {
                0..3 => {
                    *buffer = vec![0xee; len];
                    reads.push((i, range));
                    Op::Read { offset, buf: lend(buffer) }
                }
                3..6 => {
                    *buffer = vec![fill; len];
                    oracle[range].fill(fill);
                    Op::Write { offset, buf: lend(buffer), fua: fill == 0 }
                }
                6 => {
                    oracle[range].fill(0);
                    Op::Zero { offset, len: len as u64, no_hole: fill < 128, fast: false }
                }
                _ => Op::Flush,
            };
            engine.submit(Job { tag: i as u64, op });
        }
        for (i, completion) in collect(engine, LANES).await.into_iter().enumerate() {
            assert_eq!((completion.tag, completion.result), (i as u64, Ok(Outcome::Done)));
        }
        for (i, range) in reads {
            assert!(buffers[i] == oracle[range.clone()], "lane {i}, {range:?}");
        }
    }
    assert!(read(engine, 0, size).await.unwrap() == oracle);
}

#[test]
fn random_jobs_agree_with_a_vector() {
    for backend in BACKENDS {
        for fault in [None, Some("read-short=1+1,write-short=1+2")] {
            let file = file(&[5; 300_001]);
            let disk = open(file.path(), |o| (o.backend, o.fault) = (backend, fault.map(str::to_owned)));
            data_thread(async {
                let engine = Engine::new(&disk);
                println!("{} over {}", engine.kind(), disk);
                against_oracle(&engine, 300_001, 150, 42).await;
            });
            let stats = disk.stats().snapshot();
            assert_eq!((stats.in_flight, stats.errors), (0, 0));
            assert!(stats.reads > 0 && stats.writes > 0 && stats.flushes > 0);
        }
    }
}

#[test]
fn the_kernel_gives_a_ring_or_a_reason() {
    let file = file(&[0; 512]);
    data_thread(async {
        let engine = Engine::new(&open(file.path(), |_| {}));
        println!("{}", engine.kind());
        drop(engine);
        let engine = Engine::new(&open(file.path(), |o| o.backend = cards_disk::Backend::Threads));
        assert_eq!(
            (engine.kind().name(), engine.kind().to_string().as_str()),
            ("threads", "threads (asked for)")
        );
    });
}

#[test]
fn more_jobs_than_the_ring_holds() {
    for backend in BACKENDS {
        let content: Vec<u8> = (0..2000_u32).flat_map(|i| [i as u8; 512]).collect();
        let file = file(&content);
        let disk = open(file.path(), |o| o.backend = backend);
        data_thread(async {
            let engine = Engine::new(&disk);
            let mut arena = vec![0xee; content.len()];
            for (i, slot) in arena.chunks_mut(512).enumerate() {
                engine
                    .submit(Job { tag: i as u64, op: Op::Read { offset: i as u64 * 512, buf: lend(slot) } });
            }
            assert_eq!(disk.stats().snapshot().in_flight, 2000);
            let done = collect(&engine, 2000).await;
            assert!(done.iter().enumerate().all(|(i, c)| c.tag == i as u64 && c.result.is_ok()));
            assert!(arena == content);
            assert_eq!(disk.stats().snapshot().bytes_read, 2000 * 512);
        });
    }
}

#[test]
fn small_writes_of_one_turn_are_each_where_they_belong() {
    const BLOCKS: usize = 3000;
    for backend in BACKENDS {
        let file = file(&[0xee; BLOCKS * 512]);
        let disk = open(file.path(), |o| o.backend = backend);
        data_thread(async {
            let engine = Engine::new(&disk);
            // Neighbours, but never one after the other; every tenth block is left out.
            let mut content: Vec<u8> = (0..BLOCKS).flat_map(|i| [i as u8; 512]).collect();
            let mut slots: Vec<_> =
                content.chunks_mut(512).enumerate().filter(|(i, _)| i % 10 != 0).collect();
            slots.sort_by_key(|(i, _)| i % 7);
            let count = slots.len();
            for (i, slot) in slots {
                let op = Op::Write { offset: i as u64 * 512, buf: lend(slot), fua: false };
                engine.submit(Job { tag: i as u64, op });
            }
            assert!(collect(&engine, count).await.iter().all(|done| done.result == Ok(Outcome::Done)));
            let written = read(&engine, 0, BLOCKS * 512).await.unwrap();
            for (i, block) in written.chunks(512).enumerate() {
                let expected = if i % 10 == 0 { 0xee } else { i as u8 };
                assert!(block == [expected; 512], "block {i}");
            }
        });
    }
}

#[test]
fn an_error_is_that_of_the_write_that_failed() {
    for backend in BACKENDS {
        // SAFETY: takes a string that ends with NUL, and makes a descriptor that nobody else has.
        let file = unsafe {
            let fd = libc::memfd_create(c"disk".as_ptr(), libc::MFD_ALLOW_SEALING);
            assert!(fd >= 0, "{}", std::io::Error::last_os_error());
            std::fs::File::from_raw_fd(fd)
        };
        file.set_len(5 * 4096).unwrap();
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let disk = open(path.as_ref(), |o| o.backend = backend);
        // The last two blocks cannot be written any more.
        file.set_len(3 * 4096).unwrap();
        // SAFETY: takes a descriptor and a number.
        assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_GROW) }, 0);
        data_thread(async {
            let engine = Engine::new(&disk);
            let mut content = vec![7; 5 * 4096];
            for (i, slot) in content.chunks_mut(4096).enumerate() {
                let op = Op::Write { offset: i as u64 * 4096, buf: lend(slot), fua: false };
                engine.submit(Job { tag: i as u64, op });
            }
            let done = collect(&engine, 5).await;
            let done: Vec<bool> = done.into_iter().map(|done| done.result.is_ok()).collect();
            assert_eq!(done, [true, true, true, false, false]);
            assert!(read(&engine, 0, 3 * 4096).await.unwrap() == [7; 3 * 4096]);
        });
    }
}

#[test]
fn two_data_threads_share_a_disk() {
    for backend in BACKENDS {
        let file = file(&[1; 64 << 10]);
        let disk = open(file.path(), |o| o.backend = backend);
        std::thread::scope(|scope| {
            for i in 0..2_u8 {
                let disk = &disk;
                scope.spawn(move || {
                    data_thread(async {
                        let engine = Engine::new(disk);
                        for block in (i..16).step_by(2) {
                            write(&engine, u64::from(block) * 4096, &[block; 4096], true).await.unwrap();
                        }
                    });
                });
            }
        });
        data_thread(async {
            let engine = Engine::new(&disk);
            for block in 0..16_u8 {
                assert!(read(&engine, u64::from(block) * 4096, 4096).await.unwrap() == [block; 4096]);
            }
        });
        assert_eq!(disk.stats().snapshot().writes, 16);
    }
}

#[test]
fn hole_maps() {
    const BLOCK: u64 = 64 << 10;
    for backend in BACKENDS {
        let file = file(&[]);
        file.as_file().set_len(8 * BLOCK).unwrap();
        let disk = open(file.path(), |o| o.backend = backend);
        data_thread(async {
            let engine = Engine::new(&disk);
            let map = async |offset, len| match one(&engine, Op::Extents { offset, len }).await {
                Ok(Outcome::Extents(extents)) => extents,
                other => panic!("{other:?}"),
            };
            assert_eq!(map(0, 8 * BLOCK).await, [hole(8 * BLOCK)]);
            write(&engine, 2 * BLOCK, &vec![1; 2 * BLOCK as usize], false).await.unwrap();
            assert_eq!(map(0, 8 * BLOCK).await, [hole(2 * BLOCK), data(2 * BLOCK), hole(4 * BLOCK)]);
            assert_eq!(map(3 * BLOCK, BLOCK + 1).await, [data(BLOCK), hole(1)]);
            assert_eq!(map(5, 0).await, []);
            one(&engine, Op::Trim { offset: 2 * BLOCK, len: BLOCK }).await.unwrap();
            assert_eq!(map(0, 4 * BLOCK).await, [hole(3 * BLOCK), data(BLOCK)]);
            one(&engine, Op::Zero { offset: 3 * BLOCK, len: BLOCK, no_hole: false, fast: true })
                .await
                .unwrap();
            assert_eq!(map(0, 8 * BLOCK).await, [hole(8 * BLOCK)]);
            one(&engine, Op::Zero { offset: 0, len: 8 * BLOCK, no_hole: true, fast: false }).await.unwrap();
            assert!(read(&engine, 0, 8 * BLOCK as usize).await.unwrap().iter().all(|&byte| byte == 0));
        });
    }
}

#[test]
fn a_scattered_hole_map_is_cut() {
    let file = file(&[]);
    file.as_file().set_len(4096 * 4096).unwrap();
    let disk = open(file.path(), |_| {});
    data_thread(async {
        let engine = Engine::new(&disk);
        for block in (0..4096).step_by(2) {
            write(&engine, block * 4096, &[1; 4096], false).await.unwrap();
        }
        let Ok(Outcome::Extents(map)) = one(&engine, Op::Extents { offset: 0, len: 4096 * 4096 }).await
        else {
            panic!("no map");
        };
        assert_eq!(map.len(), cards_disk::EXTENTS_MAX);
        assert!(map.iter().enumerate().all(|(i, extent)| *extent == [data(4096), hole(4096)][i % 2]));
    });
}

#[test]
fn direct_where_aligned() {
    for backend in BACKENDS {
        let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        file.as_file().set_len(300_001).unwrap();
        let mut options = cards_disk::DiskOptions::path(file.path());
        (options.backend, options.direct) = (backend, true);
        let disk = match cards_disk::Disk::open(&options) {
            Ok(disk) => disk,
            Err(error @ cards_disk::DiskError::Direct { .. }) => return println!("skipped: {error}"),
            Err(error) => panic!("{error}"),
        };
        assert_eq!(disk.block_size(), 4096);
        data_thread(async {
            let engine = Engine::new(&disk);
            against_oracle(&engine, 300_001, 20, 7).await;
            let mut arena = vec![0; 3 * 4096];
            let aligned = arena.as_ptr().align_offset(4096);
            let slot = &mut arena[aligned..aligned + 8192];
            slot.fill(9);
            one(&engine, Op::Write { offset: 8192, buf: lend(slot), fua: true }).await.unwrap();
            slot.fill(0);
            one(&engine, Op::Read { offset: 8192, buf: lend(slot) }).await.unwrap();
            assert!(slot.iter().all(|&byte| byte == 9));
        });
    }
}

#[test]
fn an_engine_dropped_in_flight_leaves_the_buffers() {
    for backend in BACKENDS {
        let file = file(&[3; 1 << 20]);
        let disk = open(file.path(), |o| o.backend = backend);
        data_thread(async {
            let mut arena = vec![0; 1 << 20];
            let engine = Engine::new(&disk);
            for (i, slot) in arena.chunks_mut(4096).enumerate() {
                engine.submit(Job { tag: 0, op: Op::Read { offset: i as u64 * 4096, buf: lend(slot) } });
            }
            // One turn, so that jobs are in the kernel or with the pool; most are not delivered.
            engine.completions(&mut Vec::new()).await;
            drop(engine);
            arena.fill(0);
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            assert!(arena.iter().all(|&byte| byte == 0), "somebody wrote after the drop");
        });
        assert_eq!(disk.stats().snapshot().in_flight, 0);
    }
}
