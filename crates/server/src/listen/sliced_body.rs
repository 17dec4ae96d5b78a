//! The body of a response, cut into slices that give their bytes back when the transport drops them.

use crate::listen::in_flight::{OpenResponse, UnwrittenBytes};
use axum::body::{Body, Bytes, HttpBody};
use fantail_rules::limits::RESPONSE_SLICE_BYTES;
use hyper::body::{Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

#[derive(Debug)]
pub struct SlicedBody {
    body: Body,
    /// The rest of the frame that is being cut.
    frame: Bytes,
    open: OpenResponse,
}

impl SlicedBody {
    pub fn new(body: Body, open: OpenResponse) -> Self {
        Self { body, frame: Bytes::new(), open }
    }

    fn next_slice(&mut self) -> Bytes {
        let bytes = self.frame.split_to(self.frame.len().min(RESPONSE_SLICE_BYTES));
        let unwritten = self.open.unwritten.split_off(bytes.len() as u64);
        Bytes::from_owner(Slice { bytes, _unwritten: unwritten })
    }
}

impl HttpBody for SlicedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        while self.frame.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        self.open.unwritten.cover(data.len() as u64);
                        self.frame = data;
                    }
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
            }
        }
        Poll::Ready(Some(Ok(Frame::data(self.next_slice()))))
    }

    fn is_end_stream(&self) -> bool {
        self.frame.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.frame.len() as u64;
        let hint = self.body.size_hint();
        let mut whole = SizeHint::new();
        if let Some(upper) = hint.upper() {
            whole.set_upper(upper.saturating_add(rest));
        }
        whole.set_lower(hint.lower().saturating_add(rest));
        whole
    }
}

struct Slice {
    bytes: Bytes,
    _unwritten: UnwrittenBytes,
}

impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
