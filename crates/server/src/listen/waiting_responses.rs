//! How long each response of a connection waits for its peer to read some of it, in looks at the connection.
//!
//! Input: parts of responses that come and go. Output: the longest wait of all. A response waits while it has bytes that are not
//! written, and begins anew whenever some of them are. Invariant: a response that moves does not speak for another one.

#[derive(Debug, Default)]
pub struct WaitingResponses {
    looks: u64,
    /// By the number of the response; a number is used again once all parts are gone.
    responses: Vec<Option<WaitingResponse>>,
}

#[derive(Debug)]
struct WaitingResponse {
    /// What is not yet cut, and the slices that the transport holds.
    parts: usize,
    bytes: u64,
    /// The number of looks when some bytes went last.
    since: u64,
}

impl WaitingResponses {
    /// Adds a response of one part, and gives it a number.
    pub fn begin(&mut self, bytes: u64) -> usize {
        let begun = Some(WaitingResponse { parts: 1, bytes, since: self.looks });
        match self.responses.iter().position(Option::is_none) {
            Some(free) => {
                self.responses[free] = begun;
                free
            }
            None => {
                self.responses.push(begun);
                self.responses.len() - 1
            }
        }
    }

    /// Adds bytes that were not counted before.
    pub fn add_bytes(&mut self, of: usize, more: u64) {
        let looks = self.looks;
        if let Some(response) = self.response(of) {
            if response.bytes == 0 {
                response.since = looks;
            }
            response.bytes += more;
        }
    }

    /// Cuts a part off, with some of the bytes.
    pub fn add_part(&mut self, of: usize) {
        if let Some(response) = self.response(of) {
            response.parts += 1;
        }
    }

    /// A part was written or dropped.
    pub fn end_part(&mut self, of: usize, bytes: u64) {
        let looks = self.looks;
        let Some(response) = self.response(of) else { return };
        response.parts -= 1;
        if bytes > 0 {
            response.bytes -= bytes;
            response.since = looks;
        }
        if response.parts == 0 {
            self.responses[of] = None;
        }
    }

    /// Between how many looks, up to this one, nothing of the response moved that waits longest.
    pub fn look(&mut self) -> u64 {
        let waiting = self.responses.iter().flatten().filter(|response| response.bytes > 0);
        let longest = waiting.map(|response| self.looks - response.since).max();
        self.looks += 1;
        longest.unwrap_or(0)
    }

    fn response(&mut self, of: usize) -> Option<&mut WaitingResponse> {
        self.responses.get_mut(of)?.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_wait_counts_and_numbers_are_used_again() {
        let mut waiting = WaitingResponses::default();
        assert_eq!(waiting.look(), 0, "nothing waits");
        let (still, moving) = (waiting.begin(10), waiting.begin(20));
        for looks in 0..5 {
            waiting.add_part(moving);
            waiting.end_part(moving, 2);
            assert_eq!(waiting.look(), looks);
        }
        waiting.end_part(still, 10);
        assert_eq!(waiting.look(), 1, "the other one moved before the last look");
        let third = waiting.begin(0);
        assert_eq!(third, still);
        waiting.end_part(moving, 10);
        assert_eq!((waiting.look(), waiting.look()), (0, 0), "what has no bytes does not wait");
        waiting.add_bytes(third, 7);
        waiting.add_part(third);
        assert_eq!((waiting.look(), waiting.look()), (0, 1));
        waiting.end_part(third, 7);
        waiting.end_part(third, 0);
        assert!(waiting.responses.iter().all(Option::is_none));
    }
}
