//! The sparse index: the log in pages of about a megabyte, and for each page which sequences and times of which chains
//! lie in it. A reader skips the pages that cannot hold what it wants and walks over the others.
//!
//! A page with few chains costs 40 bytes of memory for each. Where many tenants say little, pages grow until a chain
//! has on average sixteen entries in one, so that the index stays below two percent of the log.
//!
//! What must never happen: an entry outside the rows of its page. A record is added once, in the order of the log, by
//! the same function after an append and while recovering.

use super::layout::{Logged, StoredPage};
use fantail_ports::audit::{ChainId, Digest};
use fantail_rules::ids::{Millis, PartitionId, Position, TenantId};
use std::collections::BTreeMap;

/// Entries of a chain in a page, on average, before a page with many chains is closed.
const ENTRIES_PER_ROW: usize = 16;
/// However many chains there are, a reader walks over no more than so many times the wanted length.
const GROWTH_MAX: usize = 16;
/// Rows that fit in one record of the index, beside the marks of five thousand partitions.
const ROWS_MAX: usize = 3_000;

/// What one page holds of one chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    pub chain: ChainId,
    /// Sequences.
    pub first: u64,
    pub last: u64,
    pub earliest: Millis,
    pub latest: Millis,
}

/// Positions in the log, both included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    pub first: u64,
    pub last: u64,
}

pub struct Pages {
    page_bytes: usize,
    closed: Vec<Page>,
    open: OpenPage,
    /// Closed, and not yet in the index.
    unsaved: Vec<Vec<u8>>,
}

struct Page {
    span: Span,
    /// Ascending by chain.
    rows: Box<[Row]>,
}

#[derive(Default)]
struct OpenPage {
    /// Empty before the first record: `last` is then below `first`.
    first: u64,
    last: u64,
    bytes: usize,
    entries: usize,
    rows: BTreeMap<ChainId, (Row, Digest)>,
}

impl Pages {
    #[must_use]
    pub fn new(page_bytes: usize) -> Self {
        let open = OpenPage { first: 1, ..OpenPage::default() };
        Self { page_bytes, closed: Vec::new(), open, unsaved: Vec::new() }
    }

    /// Recovery: takes over a page of the index. False if it does not follow the pages before.
    pub fn load(&mut self, stored: &StoredPage) -> bool {
        if stored.first != self.open.first || stored.last < stored.first {
            return false;
        }
        let rows = stored.rows.iter().map(|(row, _)| *row).collect();
        self.closed.push(Page { span: Span { first: stored.first, last: stored.last }, rows });
        self.open = OpenPage { first: stored.last + 1, last: stored.last, ..OpenPage::default() };
        true
    }

    /// The first position that no loaded page covers.
    #[must_use]
    pub fn next(&self) -> Position {
        Position(self.open.last + 1)
    }

    /// Adds the next record of the log. `hash` is that of the entry, and of no meaning for a mark.
    pub fn add(&mut self, logged: &Logged, bytes: usize, hash: Digest) {
        self.open.last += 1;
        self.open.bytes += bytes;
        let Logged::Entry(peek) = logged else { return };
        let (sequence, at) = (peek.sequence.0, peek.at);
        self.open.entries += 1;
        let fresh = Row { chain: peek.chain, first: sequence, last: sequence, earliest: at, latest: at };
        let (row, last) = self.open.rows.entry(peek.chain).or_insert((fresh, hash));
        row.last = sequence;
        row.earliest = row.earliest.min(at);
        row.latest = row.latest.max(at);
        *last = hash;
    }

    /// Closes the open page if it is full. `derived` is how far partitions are with what was added.
    pub fn close_if_full(&mut self, derived: &BTreeMap<PartitionId, Position>) {
        let OpenPage { bytes, entries, rows, .. } = &self.open;
        let wanted = *bytes >= self.page_bytes && *entries >= ENTRIES_PER_ROW * rows.len();
        if !wanted && *bytes < GROWTH_MAX * self.page_bytes && rows.len() < ROWS_MAX {
            return;
        }
        let open = std::mem::take(&mut self.open);
        let (first, last) = (open.first, open.last);
        let rows = open.rows.into_values().collect();
        let stored = StoredPage { first, last, derived: derived.clone(), rows };
        self.unsaved.push(stored.encode());
        self.open = OpenPage { first, last: first - 1, ..OpenPage::default() };
        let follows = self.load(&stored);
        assert!(follows, "a page that was just closed follows the ones before");
    }

    /// Pages that should go into the index.
    pub fn take_unsaved(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.unsaved)
    }

    /// They did not get there and may later.
    pub fn put_back(&mut self, pages: Vec<Vec<u8>>) {
        let later = std::mem::replace(&mut self.unsaved, pages);
        self.unsaved.extend(later);
    }

    /// The next page behind `after` that may hold entries of a chain from a sequence on.
    #[must_use]
    pub fn next_of_chain(&self, after: u64, chain: ChainId, from: u64) -> Option<Span> {
        let wanted = |row: &Row| row.last >= from;
        let mut behind = self.closed_behind(after);
        let closed = behind.find(|page| {
            let found = page.rows.binary_search_by_key(&chain, |row| row.chain);
            found.is_ok_and(|index| wanted(&page.rows[index]))
        });
        let open = || self.open.rows.get(&chain).filter(|(row, _)| wanted(row)).map(|_| self.open.span());
        closed.map(|page| page.span).or_else(|| open().filter(|open| open.last > after))
    }

    /// The next page behind `after` that may hold entries of a tenant within a time.
    #[must_use]
    pub fn next_of_tenant(&self, after: u64, tenant: TenantId, from: Millis, until: Millis) -> Option<Span> {
        let wanted = |row: &Row| row.latest >= from && row.earliest < until;
        let mut behind = self.closed_behind(after);
        let closed = behind.find(|page| {
            let start = page.rows.partition_point(|row| row.chain.tenant < tenant);
            page.rows[start..].iter().take_while(|row| row.chain.tenant == tenant).any(wanted)
        });
        let open = || {
            // The root is the first of the partitions.
            let rows = self.open.rows.range(ChainId { tenant, partition: PartitionId::Root }..);
            let mut rows = rows.map(|(_, (row, _))| row).take_while(|row| row.chain.tenant == tenant);
            rows.any(wanted).then(|| self.open.span())
        };
        closed.map(|page| page.span).or_else(|| open().filter(|open| open.last > after))
    }

    fn closed_behind(&self, after: u64) -> impl Iterator<Item = &Page> {
        let start = self.closed.partition_point(|page| page.span.last <= after);
        self.closed[start..].iter()
    }
}

impl OpenPage {
    fn span(&self) -> Span {
        Span { first: self.first, last: self.last }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_audit::entry::Peek;
    use fantail_ports::audit::Sequence;

    /// Adds one entry of a tenant per number, with the number as its time, one kilobyte each.
    fn fill(pages: &mut Pages, tenants: &[u32]) {
        let mut sequences = BTreeMap::new();
        for (at, tenant) in (0..).zip(tenants) {
            let sequence = sequences.entry(*tenant).or_insert(0);
            *sequence += 1;
            let chain = ChainId { tenant: TenantId(*tenant), partition: PartitionId::Root };
            let peek = Peek { chain, sequence: Sequence(*sequence), at: Millis(at) };
            pages.add(&Logged::Entry(peek), 1_000, Digest::default());
            pages.close_if_full(&BTreeMap::new());
        }
    }

    #[test]
    fn pages_without_what_is_wanted_are_skipped() {
        let mut pages = Pages::new(20_000);
        let tenants: Vec<u32> = (0..100).map(|no| if no < 50 { 1 } else { 2 }).collect();
        fill(&mut pages, &tenants);
        assert_eq!(pages.closed.len(), 4, "two pages of the first tenant, two of both or the second, a rest");
        let chain = |tenant| ChainId { tenant: TenantId(tenant), partition: PartitionId::Root };
        let span = |first, last| Some(Span { first, last });
        assert_eq!(pages.next_of_chain(0, chain(1), 1), span(1, 20));
        assert_eq!(pages.next_of_chain(20, chain(1), 1), span(21, 40));
        assert_eq!(pages.next_of_chain(0, chain(1), 21), span(21, 40));
        assert_eq!(pages.next_of_chain(0, chain(1), 51), None);
        assert_eq!(pages.next_of_chain(0, chain(3), 1), None);
        let second = pages.next_of_chain(0, chain(2), 1).expect("the second tenant is there");
        assert!(second.first > 40 && second.first <= 51 && second.last >= 51, "{second:?}");
        let (tenant, all) = (TenantId(1), Millis(u64::MAX));
        assert_eq!(pages.next_of_tenant(0, tenant, Millis(25), all), span(21, 40));
        assert_eq!(pages.next_of_tenant(0, tenant, Millis(60), all), None);
        assert_eq!(pages.next_of_tenant(40, tenant, Millis(0), Millis(30)), None);
        let last = pages.next_of_tenant(0, TenantId(2), Millis(99), all).expect("the last entry is there");
        assert!(last.last == 100, "in the open page or at the end of a closed one: {last:?}");
        assert_eq!(pages.next_of_tenant(100, TenantId(2), Millis(0), all), None);
    }

    #[test]
    fn pages_grow_with_their_chains_up_to_a_limit() {
        let check = |tenants: u32, expected: usize| {
            let mut pages = Pages::new(20_000);
            let order: Vec<u32> = (0..4_000).map(|no| no % tenants).collect();
            fill(&mut pages, &order);
            let first = &pages.closed[0].span;
            assert_eq!(first.last, expected as u64, "{tenants} tenants");
        };
        check(1, 20);
        check(10, 160);
        check(1_000, GROWTH_MAX * 20);
    }

    #[test]
    fn stored_pages_lead_to_the_same_index() {
        let mut pages = Pages::new(5_000);
        fill(&mut pages, &[1, 2, 1, 1, 3].repeat(200));
        let stored: Vec<StoredPage> = pages
            .take_unsaved()
            .iter()
            .map(|bytes| StoredPage::decode(bytes).expect("what was encoded"))
            .collect();
        assert_eq!(stored.len(), pages.closed.len());
        let mut loaded = Pages::new(5_000);
        assert!(!loaded.load(&stored[1]), "the first page comes first");
        assert!(stored.iter().all(|page| loaded.load(page)));
        assert!(!loaded.load(&stored[0]));
        for (one, other) in pages.closed.iter().zip(&loaded.closed) {
            assert_eq!((one.span, &one.rows), (other.span, &other.rows));
        }
        assert_eq!(loaded.next().0, stored.last().map_or(0, |page| page.last) + 1);
    }
}
