//! Storage on this machine: objects in memory, pages of three.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use fantail_s3::bucket::sha256;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::http::{HeaderMap, Method, Request, Response, StatusCode};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;

const PAGE: usize = 3;

#[derive(Clone)]
pub struct Seen {
    pub path: String,
    headers: HeaderMap,
}

impl Seen {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

#[derive(Default)]
struct Inside {
    objects: BTreeMap<String, (Bytes, HeaderMap)>,
    seen: Vec<Seen>,
    refusals: VecDeque<(u16, &'static str)>,
}

pub struct Storage {
    pub address: SocketAddr,
    inside: Arc<Mutex<Inside>>,
}

impl Storage {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let inside = Arc::new(Mutex::new(Inside::default()));
        let shared = inside.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let inside = shared.clone();
                let service = service_fn(move |request: Request<Incoming>| {
                    let inside = inside.clone();
                    async move {
                        let (head, body) = request.into_parts();
                        let body = body.collect().await.expect("a body").to_bytes();
                        let mut inside = inside.lock().expect("no test panics inside");
                        Ok::<_, Infallible>(inside.answer(
                            &head.method,
                            &head.uri.to_string(),
                            head.headers,
                            body,
                        ))
                    }
                });
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        Self { address, inside }
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.inside.lock().expect("no test panics inside").seen.clone()
    }

    /// The next call.
    pub fn refuse(&self, status: u16, code: &'static str) {
        self.inside.lock().expect("no test panics inside").refusals.push_back((status, code));
    }

    pub fn change(&self, key: &str, bytes: &'static [u8]) {
        let mut inside = self.inside.lock().expect("no test panics inside");
        inside.objects.get_mut(key).expect("it is there").0 = Bytes::from_static(bytes);
    }
}

impl Inside {
    fn answer(
        &mut self,
        method: &Method,
        uri: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Response<Full<Bytes>> {
        self.seen.push(Seen { path: uri.to_owned(), headers: headers.clone() });
        if let Some((status, code)) = self.refusals.pop_front() {
            return reply(status, format!("<Error><Code>{code}</Code></Error>").into());
        }
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let key = path.strip_prefix("/audit-log/").expect("the bucket").replace("%20", " ");
        match *method {
            Method::PUT => {
                let hash = STANDARD.encode(sha256(&body));
                assert_eq!(headers["x-amz-checksum-sha256"].to_str().expect("text"), hash);
                self.objects.insert(key, (body, headers));
                reply(200, Bytes::new())
            }
            Method::GET if key.is_empty() => self.list(query),
            _ => self.get(method, &key, &headers),
        }
    }

    fn get(&self, method: &Method, key: &str, asked: &HeaderMap) -> Response<Full<Bytes>> {
        let Some((bytes, headers)) = self.objects.get(key) else { return reply(404, Bytes::new()) };
        if method == Method::HEAD {
            let mut response = reply(200, bytes.clone());
            for name in ["x-amz-checksum-sha256", "x-amz-object-lock-mode"] {
                if let Some(value) = headers.get(name) {
                    response.headers_mut().insert(name, value.clone());
                }
            }
            return response;
        }
        let range = asked["range"].to_str().expect("text").strip_prefix("bytes=").expect("a range");
        let (from, to) = range.split_once('-').expect("two ends");
        let (from, to): (usize, usize) = (from.parse().expect("a number"), to.parse().expect("a number"));
        reply(206, bytes.slice(from..bytes.len().min(to + 1)))
    }

    fn list(&self, query: &str) -> Response<Full<Bytes>> {
        assert!(query.contains("list-type=2") && query.contains("prefix=here%2F"), "{query}");
        let from = query.split('&').find_map(|part| part.strip_prefix("continuation-token="));
        let from: usize = from.map_or(0, |token| token.parse().expect("our own token"));
        let page: String = self
            .objects
            .iter()
            .skip(from)
            .take(PAGE)
            .map(|(key, (bytes, _))| {
                format!("<Contents><Key>{key}</Key><Size>{}</Size></Contents>", bytes.len())
            })
            .collect();
        let next = from + PAGE;
        let more = if next < self.objects.len() {
            format!("<IsTruncated>true</IsTruncated><NextContinuationToken>{next}</NextContinuationToken>")
        } else {
            "<IsTruncated>false</IsTruncated>".to_owned()
        };
        reply(200, format!("<ListBucketResult xmlns=\"x\">{page}{more}</ListBucketResult>").into())
    }
}

fn reply(status: u16, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = StatusCode::from_u16(status).expect("a status");
    response
}
