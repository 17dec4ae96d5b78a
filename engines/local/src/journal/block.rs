//! One block: what one group commit writes, and what is there as a whole or not at all.
//!
//! What must never happen: an allocation per record on the way in. The writer keeps one `BlockBuilder` for good.

use super::format::{BLOCK_HEADER_BYTES, BlockHeader, Chain, Kind, RecordHeader, chain_of, padded};

/// Collects the records of a block in one reused buffer.
#[derive(Default)]
pub struct BlockBuilder {
    buffer: Vec<u8>,
    records: u32,
}

/// What a finished block adds to the chain.
pub struct Link {
    pub salt: u64,
    pub number: u64,
    pub previous: Chain,
}

/// A buffer that once held a very large block is not kept at that size.
const BUFFER_KEPT_BYTES: usize = 8 << 20;

impl BlockBuilder {
    pub fn start(&mut self) {
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER_KEPT_BYTES);
        self.buffer.resize(BLOCK_HEADER_BYTES, 0);
        self.records = 0;
    }

    pub fn push(&mut self, header: &RecordHeader, bytes: &[u8]) {
        header.encode(bytes, &mut self.buffer);
        self.records += 1;
    }

    /// Pads the block, writes its header and answers its bytes and chain hash.
    pub fn finish(&mut self, link: Link) -> (&[u8], Chain) {
        let body_bytes = self.buffer.len() - BLOCK_HEADER_BYTES;
        self.buffer.resize(padded(self.buffer.len()), 0);
        let header = BlockHeader {
            salt: link.salt,
            number: link.number,
            body_bytes,
            records: self.records,
            previous: link.previous,
        };
        header.encode_into(&mut self.buffer);
        let chain = chain_of(&self.buffer);
        (&self.buffer, chain)
    }
}

/// A record as it lies in a block.
pub struct RecordView<'a> {
    pub header: RecordHeader,
    pub bytes: &'a [u8],
}

/// The records of a block whose header was decoded from the same bytes. Checksums are checked on the way.
pub fn records<'a>(
    header: &BlockHeader,
    block: &'a [u8],
) -> impl Iterator<Item = Result<RecordView<'a>, &'static str>> + use<'a> {
    let body = &block[BLOCK_HEADER_BYTES..BLOCK_HEADER_BYTES + header.body_bytes];
    Records { body, left: header.records, failed: false }
}

struct Records<'a> {
    body: &'a [u8],
    left: u32,
    failed: bool,
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<RecordView<'a>, &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        if self.left == 0 {
            self.failed = true;
            return (!self.body.is_empty()).then_some(Err("bytes behind the last record of a block"));
        }
        match RecordHeader::decode(self.body) {
            Ok((header, bytes_in_all)) => {
                let (record, rest) = self.body.split_at(bytes_in_all);
                self.body = rest;
                self.left -= 1;
                Some(Ok(RecordView { header, bytes: &record[super::format::RECORD_HEADER_BYTES..] }))
            }
            Err(reason) => {
                self.failed = true;
                Some(Err(reason))
            }
        }
    }
}

/// Encoded length of a record, to know a block's length before it is built.
#[must_use]
pub fn record_bytes(bytes: usize) -> usize {
    super::format::RECORD_HEADER_BYTES + bytes
}

/// Pushes the small records that carry no bytes of a partition.
pub fn push_fence(block: &mut BlockBuilder, partition: u16, epoch: u64, last: u64) {
    block.push(&RecordHeader { kind: Kind::Fence, partition, epoch, position: last }, &[]);
}
