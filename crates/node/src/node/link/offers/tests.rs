use std::net::TcpListener;

use cards_tls::Wire;

use super::*;

/// Lane `lane` of link `link` of a process.
async fn lane(listener: &TcpListener, incarnation: u64, link: u64, lane: u16) -> GreetedLane {
    let stream = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let wire = Wire::plain(stream).set_adrift().unwrap();
    GreetedLane { wire, hello: Hello { incarnation, link, lane, ..Hello::default() }, version: 0 }
}

/// What becomes of lanes that come in this order, of links with three.
fn add(offers: &mut Offers, lanes: &[(u64, u64, u16)]) -> Vec<Offered> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    runtime.block_on(async {
        let mut offered = Vec::new();
        for &(incarnation, link, number) in lanes {
            offered.push(offers.add(lane(&listener, incarnation, link, number).await, 3));
        }
        offered
    })
}

use Offered::{Complete, Stray, Waiting};

#[test]
fn a_link_is_complete_when_all_lanes_are_here() {
    let mut offers = Offers::default();
    assert_eq!(add(&mut offers, &[(1, 1, 0), (1, 1, 1)]), [Waiting(1), Waiting(2)]);
    assert!(!offers.is_complete() && offers.take().is_none());
    assert_eq!(add(&mut offers, &[(1, 1, 2)]), [Complete]);
    assert!(offers.is_complete());
    assert_eq!(offers.take().unwrap().wires.len(), 3);
    assert!(!offers.is_complete());
}

#[test]
fn lanes_of_different_links_are_not_mixed() {
    let mut offers = Offers::default();
    let lanes = [(1, 1, 0), (1, 2, 0), (1, 1, 1), (1, 2, 2), (1, 2, 1), (2, 2, 2), (1, 2, 2)];
    let expected = [Waiting(1), Waiting(1), Stray, Stray, Waiting(2), Stray, Complete];
    assert_eq!(add(&mut offers, &lanes), expected);
    assert_eq!(offers.take().unwrap().hello.link, 2);
}

#[test]
fn a_link_that_was_given_up_does_not_come_back() {
    let mut offers = Offers::default();
    assert_eq!(
        add(&mut offers, &[(1, 2, 0), (1, 1, 0), (1, 2, 0), (1, 2, 1)]),
        [Waiting(1), Stray, Stray, Waiting(2)]
    );
    // Another life begins to count again, and its clock may have been behind.
    assert_eq!(add(&mut offers, &[(0, 1, 0), (0, 1, 1)]), [Waiting(1), Waiting(2)]);
    offers.forget(2, 2);
    offers.forget(1, 1);
    assert_eq!(add(&mut offers, &[(0, 1, 2)]), [Complete]);
}

#[test]
fn a_link_that_nobody_completes_is_forgotten() {
    let mut offers = Offers::default();
    assert_eq!(add(&mut offers, &[(1, 1, 0)]), [Waiting(1)]);
    offers.forget(1, 1);
    assert_eq!(add(&mut offers, &[(1, 1, 1), (1, 2, 0)]), [Stray, Waiting(1)]);
}
