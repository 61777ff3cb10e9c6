//! Between a client and a server: hands on what they say, until it is told to cut the line at the worst moment.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A port that leads to a server.
#[derive(Clone)]
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    line: Arc<Mutex<Line>>,
}

struct Line {
    server: SocketAddr,
    trap: Option<Trap>,
}

/// What happens once a request that begins so has been handed on.
struct Trap {
    request: &'static str,
    /// Whether it happens only after the server has answered.
    answered: bool,
    then: Box<dyn FnOnce() + Send>,
}

impl Proxy {
    pub(crate) async fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let proxy = Self { address, line: Arc::new(Mutex::new(Line { server, trap: None })) };
        tokio::spawn({
            let proxy = proxy.clone();
            async move {
                while let Ok((client, _)) = listener.accept().await {
                    tokio::spawn(proxy.clone().carry(client));
                }
            }
        });
        proxy
    }

    /// Leads to another server from now on.
    pub(crate) fn lead_to(&self, server: SocketAddr) {
        self.line.lock().unwrap().server = server;
    }

    /// After the next request that begins so, and if `answered` after the server's answer to it, does `then` and
    /// cuts the line. The client never gets that answer.
    pub(crate) fn cut(&self, request: &'static str, answered: bool, then: impl FnOnce() + Send + 'static) {
        self.line.lock().unwrap().trap = Some(Trap { request, answered, then: Box::new(then) });
    }

    /// Whether the line has been cut as was asked.
    pub(crate) fn is_cut(&self) -> bool {
        self.line.lock().unwrap().trap.is_none()
    }

    async fn carry(self, mut client: TcpStream) {
        let server = self.line.lock().unwrap().server;
        let Ok(mut server) = TcpStream::connect(server).await else { return };
        let (mut up, mut down) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        loop {
            tokio::select! {
                read = client.read(&mut up) => {
                    let Ok(1..) = read else { return };
                    let said = &up[..read.unwrap()];
                    if server.write_all(said).await.is_err() {
                        return;
                    }
                    let trap = self.line.lock().unwrap().trap.take_if(|trap| said.starts_with(trap.request.as_bytes()));
                    if let Some(trap) = trap {
                        if trap.answered {
                            assert!(matches!(server.read(&mut down).await, Ok(1..)), "no answer");
                        }
                        return (trap.then)();
                    }
                }
                read = server.read(&mut down) => {
                    let Ok(1..) = read else { return };
                    if client.write_all(&down[..read.unwrap()]).await.is_err() {
                        return;
                    }
                }
            }
        }
    }
}
