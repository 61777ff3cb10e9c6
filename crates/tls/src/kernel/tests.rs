use std::sync::Arc;

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use rustls::ConnectionTrafficSecrets;
use rustls::client::UnbufferedClientConnection;
use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use tokio::net::{TcpListener, TcpStream};

use super::Info;
use crate::handshake::drive;
use crate::record::{DATA, HEADER, Key};
use crate::session::{Keys, Traffic};
use crate::settings::{Purpose, client, server};
use crate::{Authority, Files, Identity, Name};

const SEQUENCE: u64 = 0x1_0002;

fn told(traffic: &Traffic) -> Vec<u8> {
    let info = Info::of(traffic).unwrap();
    info.bytes[..info.length].to_vec()
}

/// `version`, `cipher_type`, `iv`, `key`, `salt` and `rec_seq`, as `linux/tls.h` has them.
#[test]
fn the_kernel_is_told_a_key_in_its_own_words() {
    let iv = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
    let (version, sequence) = (0x304_u16.to_ne_bytes(), [0, 0, 0, 0, 0, 1, 0, 2]);
    let (key, cipher) = (AeadKey::from([7; 32]), 52_u16.to_ne_bytes());
    let info = told(&(SEQUENCE, ConnectionTrafficSecrets::Aes256Gcm { key, iv: Iv::new(iv) }));
    assert_eq!(info, [&version[..], &cipher, &iv[4..], &[7; 32], &iv[..4], &sequence].concat());
    assert_eq!(info.len(), size_of::<libc::tls12_crypto_info_aes_gcm_256>());
    let (key, cipher) = (AeadKey::from([7; 32]), 54_u16.to_ne_bytes());
    let info = told(&(SEQUENCE, ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv: Iv::new(iv) }));
    assert_eq!(info, [&version[..], &cipher, &iv, &[7; 32], &sequence].concat());
    assert_eq!(info.len(), size_of::<libc::tls12_crypto_info_chacha20_poly1305>());
}

async fn agree(a: &Identity, b: &Identity) -> (Keys, Keys) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut calls = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let mut answers = listener.accept().await.unwrap().0;
    let door = ServerName::try_from(a.now().believed[0].door.as_str().to_owned()).unwrap();
    let caller = client(&a.now(), Purpose::Peer, b.name()).unwrap();
    let caller = UnbufferedClientConnection::new(Arc::new(caller), door).unwrap();
    let answerer = server(&b.now(), "lab", Purpose::Peer).unwrap();
    let answerer = UnbufferedServerConnection::new(Arc::new(answerer)).unwrap();
    let (mut none, mut neither) = (Vec::new(), Vec::new());
    let (called, answered) =
        tokio::join!(drive(&mut calls, caller, &mut none), drive(&mut answers, answerer, &mut neither));
    (called.unwrap().1, answered.unwrap().1)
}

/// Both ends tell their kernels the same of one direction, and a record that is sealed here is opened with that.
#[tokio::test]
async fn the_keys_of_a_handshake_open_what_they_seal() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::create("lab").unwrap();
    let [a, b] = ["a", "b"].map(|node| {
        let files = Files::within(&dir.path().join(node));
        authority.equip(node, &[], &files).unwrap();
        Identity::load(&Name::new("lab", node), &files).unwrap()
    });
    let (called, answered) = agree(&a, &b).await;
    let info = told(&called.to_send);
    assert_eq!(info, told(&answered.to_receive));
    assert_eq!(told(&called.to_receive), told(&answered.to_send));
    assert_ne!(info, told(&called.to_receive));
    assert_eq!(info.len(), size_of::<libc::tls12_crypto_info_aes_gcm_128>());

    let mut record = Vec::new();
    Key::new(called.to_send).unwrap().seal(&mut record, DATA, |out| out.extend_from_slice(b"data"));
    let (iv, key, salt, sequence) = (&info[4..12], &info[12..28], &info[28..32], &info[32..40]);
    let mut nonce = [salt, iv].concat();
    nonce[4..].iter_mut().zip(sequence).for_each(|(byte, of)| *byte ^= of);
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, key).unwrap());
    let nonce = Nonce::try_assume_unique_for_key(&nonce).unwrap();
    let (header, body) = record.split_at_mut(HEADER);
    assert_eq!(
        key.open_in_place(nonce, Aad::from(&*header), body).unwrap(),
        [&b"data"[..], &[DATA]].concat()
    );
}
