//! SES and SNS on 127.0.0.1, as far as a test needs them: the recipient's name says what SES answers.
//!
//! | local part | behaviour |
//! |---|---|
//! | `error-429-TooManyRequestsException` | this status and type |
//! | `silent` | takes it and closes |
//! | anything else | takes it |

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio_rustls::TlsAcceptor;

#[derive(Clone, Debug)]
pub struct Seen {
    pub path: String,
    pub authorization: String,
    pub host: String,
    pub body: Value,
}

impl Seen {
    pub fn reference(&self) -> &str {
        self.body["EmailTags"][0]["Value"].as_str().unwrap_or_default()
    }

    pub fn mail(&self) -> String {
        let data = self.body["Content"]["Raw"]["Data"].as_str().expect("a mail");
        String::from_utf8(STANDARD.decode(data).expect("base64")).expect("ASCII")
    }
}

pub struct Aws {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    seen: Mutex<Vec<Seen>>,
    account: Mutex<Value>,
}

impl Aws {
    pub async fn start(handle: &Handle, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound port");
        let quota = json!({"MaxSendRate": 100_000.0, "Max24HourSend": -1.0, "SentLast24Hours": 0.0});
        let account = Mutex::new(json!({"SendQuota": quota, "SendingEnabled": true}));
        let shared = Arc::new(Shared { seen: Mutex::default(), account });
        let (accepting, spawner) = (shared.clone(), handle.clone());
        handle.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (shared, tls) = (accepting.clone(), tls.clone());
                spawner.spawn(async move {
                    let service = service_fn(|request| shared.answer(request));
                    let server = hyper::server::conn::http1::Builder::new();
                    match tls {
                        None => server.serve_connection(TokioIo::new(stream), service).await.is_ok(),
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => {
                                server.serve_connection(TokioIo::new(stream), service).await.is_ok()
                            }
                            Err(_) => false,
                        },
                    }
                });
            }
        });
        Self { address, shared }
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().expect("not poisoned").clone()
    }

    pub fn sent(&self) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| seen.path == "/v2/email/outbound-emails").collect()
    }

    pub fn set_account(&self, account: Value) {
        *self.shared.account.lock().expect("not poisoned") = account;
    }
}

impl Shared {
    async fn answer(&self, request: Request<Incoming>) -> io::Result<Response<Full<Bytes>>> {
        let header = |name: &str| {
            let value = request.headers().get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        let (path, authorization, host) =
            (request.uri().path().to_owned(), header("authorization"), header("host"));
        let body = request.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let local = body["Destination"]["ToAddresses"][0].as_str().unwrap_or_default();
        let local = local.split('@').next().unwrap_or_default().to_owned();
        let told = Seen { path: path.clone(), authorization, host, body };
        let reply = |status: u16, body: String| {
            Response::builder().status(status).body(Full::new(Bytes::from(body))).map_err(io::Error::other)
        };
        if let Some(error) = local.strip_prefix("error-") {
            let (status, kind) = error.split_once('-').expect("a status and a type");
            let mut response =
                reply(status.parse().expect("a status"), json!({"message": "no"}).to_string())?;
            response.headers_mut().insert("x-amzn-errortype", kind.parse().expect("a header"));
            return Ok(response);
        }
        self.seen.lock().expect("not poisoned").push(told);
        match path.as_str() {
            "/v2/email/account" => reply(200, self.account.lock().expect("not poisoned").to_string()),
            "/v2/email/outbound-emails" if local == "silent" => Err(io::Error::other("gone")),
            "/v2/email/outbound-emails" => reply(200, json!({"MessageId": "0100-1"}).to_string()),
            "/SimpleNotificationService-7.pem" => {
                reply(200, include_str!("../golden/sns-certificate.pem").to_owned())
            }
            "/" => reply(200, "<ConfirmSubscriptionResponse/>".to_owned()),
            _ => reply(404, String::new()),
        }
    }
}
