//! SES and SNS on 127.0.0.1, as far as a test needs them: the recipient's name says what SES answers.
//!
//! | local part | behaviour |
//! |---|---|
//! | `error-429-TooManyRequestsException` | this status and type; for many in one call the first says it |
//! | `status-ACCOUNT_THROTTLED` | among many, this status |
//! | `silent` | takes it and closes |
//! | `short` | among many, takes all and tells of one less |
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
use tokio::sync::watch;
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
    count: watch::Sender<usize>,
    account: Mutex<Value>,
}

impl Aws {
    pub async fn start(handle: &Handle, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound port");
        let quota = json!({"MaxSendRate": 100_000.0, "Max24HourSend": -1.0, "SentLast24Hours": 0.0});
        let account = Mutex::new(json!({"SendQuota": quota, "SendingEnabled": true}));
        let shared = Arc::new(Shared { seen: Mutex::default(), count: watch::Sender::new(0), account });
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

    /// Calls with many mails.
    pub fn bulk(&self) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| seen.path == "/v2/email/outbound-bulk-emails").collect()
    }

    /// Waits for so many requests.
    pub async fn until(&self, count: usize) {
        self.shared.count.subscribe().wait_for(|seen| *seen >= count).await.expect("it is still there");
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
        let locals = locals(&body);
        let local = locals.first().cloned().unwrap_or_default();
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
        self.count.send_modify(|count| *count += 1);
        match path.as_str() {
            "/v2/email/account" => reply(200, self.account.lock().expect("not poisoned").to_string()),
            "/v2/email/outbound-emails" if local == "silent" => Err(io::Error::other("gone")),
            "/v2/email/outbound-emails" => reply(200, json!({"MessageId": "0100-1"}).to_string()),
            "/v2/email/outbound-bulk-emails" => match many(&locals) {
                Some(answer) => reply(200, answer.to_string()),
                None => Err(io::Error::other("gone")),
            },
            "/SimpleNotificationService-7.pem" => {
                reply(200, include_str!("../golden/sns-certificate.pem").to_owned())
            }
            "/" => reply(200, "<ConfirmSubscriptionResponse/>".to_owned()),
            _ => reply(404, String::new()),
        }
    }
}

/// The names before the `@`, of one mail or of many.
fn locals(body: &Value) -> Vec<String> {
    let many = body["BulkEmailEntries"].as_array().map(Vec::as_slice);
    let all = many.unwrap_or(std::slice::from_ref(body)).iter();
    let local = |mail: &Value| {
        let to = mail["Destination"]["ToAddresses"][0].as_str().unwrap_or_default();
        to.split('@').next().unwrap_or_default().to_owned()
    };
    all.map(local).collect()
}

/// Results of many; `None` if their answer gets lost.
fn many(locals: &[String]) -> Option<Value> {
    let result = |local: &String| match local.strip_prefix("status-") {
        Some(status) => json!({"Status": status, "Error": "no"}),
        None => json!({"Status": "SUCCESS", "MessageId": "0100-1"}),
    };
    let mut results: Vec<Value> = locals.iter().map(result).collect();
    if locals.iter().any(|local| local == "short") {
        results.pop();
    }
    let is_silent = locals.iter().any(|local| local == "silent");
    (!is_silent).then(|| json!({"BulkEmailEntryResults": results}))
}
