//! Every refusal that needs neither a thousand members nor time, asked of a registry in the own file and of one at
//! another node: both must say the same.

use cards_coordinator::{
    AttachMode, Change, Coordinator, Epoch, Incarnation, Join, Refusal, Volume, WallClock,
};
use serde_json::Value;

use crate::common::{join, seat, volume};
use crate::remote::served;

/// A refusal without what the clock has put into it.
async fn refused(home: &Coordinator, change: Change) -> Value {
    let error = home.submit(change).await.expect_err("this is refused");
    let refusal: &Refusal = error.refusal().unwrap_or_else(|| panic!("{error}"));
    let mut value = serde_json::to_value(refusal).unwrap();
    let fields = value.as_object_mut().unwrap();
    fields.remove("wait_ms");
    fields.remove("coordinator");
    value
}

fn renew(name: &str, incarnation: u64) -> Change {
    Change::Renew { seat: seat(name, incarnation), clock: WallClock::now() }
}

fn attach(name: &str, volume: &str) -> Change {
    Change::Attach { seat: seat(name, 1), volume: volume.into(), mode: AttachMode::Rw, takes_over: false }
}

async fn refusals(home: &Coordinator) -> Vec<Value> {
    let a = || join("a", 1, WallClock::now());
    let with = |change: &dyn Fn(&mut Volume)| {
        let mut volume = volume("w", "wwn-1");
        change(&mut volume);
        Change::PutVolume(volume)
    };
    let mut said = Vec::new();
    for join in [
        Join { cluster: "prod".into(), ..a() },
        join("a/b", 1, WallClock::now()),
        Join { address: "nowhere".into(), ..a() },
        Join { clock: WallClock(0), ..a() },
        Join { seen: Epoch(99), ..a() },
    ] {
        said.push(refused(home, Change::Join(join)).await);
    }
    home.join(a()).await.unwrap();
    for change in [
        Change::Join(Join { address: "b.lan:1".into(), ..join("a", 2, WallClock::now()) }),
        Change::Join(Join { address: "a.lan:7700".into(), ..join("b", 1, WallClock::now()) }),
        renew("b", 1),
        renew("a", 2),
    ] {
        said.push(refused(home, change).await);
    }
    home.put_disk(&seat("a", 1), "wwn-1", 1 << 30).await.unwrap();
    home.put_volume(volume("v", "wwn-1")).await.unwrap();
    home.submit(with(&|volume| volume.modes = [AttachMode::Ro].into())).await.unwrap();
    for change in [
        attach("a", "x"),
        Change::PutVolume(volume("x", "wwn-2")),
        with(&|volume| volume.block_bytes = 1000),
        with(&|volume| volume.policy = "x".repeat(2000)),
        with(&|volume| volume.modes.clear()),
        attach("a", "w"),
    ] {
        said.push(refused(home, change).await);
    }
    home.attach(&seat("a", 1), "v", AttachMode::Exclusive).await.unwrap();
    home.join(join("b", 1, WallClock::now())).await.unwrap();
    for change in [
        attach("b", "v"),
        Change::RemoveVolume { volume: "v".into() },
        Change::RemoveDisk { disk: "wwn-1".into(), with_volumes: false },
        Change::Left { seat: seat("a", 1) },
        Change::PutDisk { seat: seat("b", 1), disk: "wwn-1".into(), bytes: 1 << 30 },
        Change::Forget { name: "a".into() },
    ] {
        said.push(refused(home, change).await);
    }
    let next = |life| Join { succeeds: Some(Incarnation(life)), ..join("a", 2, WallClock::now()) };
    said.push(refused(home, Change::Join(next(7))).await);
    home.join(next(1)).await.unwrap();
    said.push(refused(home, renew("a", 1)).await);
    let same = Join { address: "c.lan:1".into(), ..next(2) };
    said.push(refused(home, Change::Join(same)).await);
    home.leave(&seat("b", 1)).await.unwrap();
    said.push(refused(home, attach("b", "v")).await);
    home.left(&seat("b", 1)).await.unwrap();
    said.push(refused(home, renew("b", 1)).await);
    home.left(&seat("a", 2)).await.unwrap();
    said.push(refused(home, Change::Forget { name: "a".into() }).await);
    said
}

#[tokio::test]
async fn a_registry_at_another_node_refuses_like_one_in_the_own_file() {
    let (here, there) = (served(3_600_000).await, served(3_600_000).await);
    let remote = there.client().await;
    let said = refusals(&Coordinator::Local(here.home.clone())).await;
    assert_eq!(refusals(&remote).await, said);
    let tags: Vec<&str> = said.iter().map(|refusal| refusal["refusal"].as_str().unwrap()).collect();
    assert_eq!(
        tags,
        [
            "wrong-cluster",
            "bad-name",
            "bad-address",
            "clock-off",
            "registry-behind",
            "name-in-use",
            "address-in-use",
            "unknown-member",
            "not-joined",
            "unknown-volume",
            "unknown-disk",
            "bad-block-size",
            "bad-policy",
            "no-modes",
            "mode-not-allowed",
            "attach-conflict",
            "still-attached",
            "has-volume",
            "not-drained",
            "disk-in-use",
            "still-live",
            "name-in-use",
            "name-taken",
            "old-incarnation",
            "leaving",
            "has-left",
            "has-disk",
        ]
    );
    assert_eq!(
        remote.view().await.unwrap(),
        here.home.view().await.unwrap(),
        "and both have come to the same"
    );
}
