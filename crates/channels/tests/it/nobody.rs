//! A port of this machine that nobody listens on, and that nobody else is given while it is kept: bound, and no more.

use tokio::net::TcpSocket;

pub struct Nobody(TcpSocket);

impl Nobody {
    pub fn new() -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(([127, 0, 0, 1], 0).into()).expect("a free port");
        Self(socket)
    }

    pub fn port(&self) -> u16 {
        self.0.local_addr().expect("a bound port").port()
    }
}
