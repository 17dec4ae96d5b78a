//! Rows of tables: whatever a value has become, its reader answers, and what it takes is written as it was read. Then whole
//! tables with a damaged row, as the recount and the loops read them.

use fantail_fuzz::{Corpus, Dice, Reading, fuzz, seeds};
use fantail_machine::books::Books;
use fantail_machine::columns;
use fantail_machine::records::erasure::ErasurePlace;
use fantail_machine::records::front::Audience;
use fantail_machine::records::root::{Layout, Tenant, TenantQuota};
use fantail_machine::records::template::DefinitionBytes;
use fantail_machine::tables::*;
use fantail_ports::inbox::ArrivalRange;
use fantail_ports::tables::{KeyRange, Order, Read, Tables, TablesError, Visit};
use fantail_rules::admit::Known;
use fantail_rules::digest::Storm;
use fantail_rules::ids::{Arrival, FrontNo, Millis, Position, ShardNo, TenantId, UserNo};
use fantail_rules::interval::Intervals;
use fantail_rules::marks::{Flags, Marks};
use fantail_rules::ulid::Ulid;
use std::collections::BTreeMap;

const FIXTURES: &str = include_str!("../../../machine/tests/it/fixtures/rows.txt");
const TENANT: TenantId = TenantId(1);
const BYTES: &[&str] = &["\0", "\u{1}", "\u{7f}", "\u{ff}"];
/// A round that reads whole tables costs as much as so many others.
const ROUNDS_PER_TABLES: u64 = 20;
/// More steps than a recount of the fixtures needs.
const STEPS_MAX: usize = 1_000;

fn bytes(hex: &str) -> Vec<u8> {
    Corpus::from_hex([hex].into_iter(), &[]).inputs.remove(0)
}

/// Keys and values of one partition.
fn rows_of(partition: &str) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let rows = FIXTURES.lines().filter_map(|line| line.strip_prefix(partition)?.strip_prefix(' '));
    rows.map(|row| {
        let (key, value) = row.split_once(' ').unwrap_or((row, ""));
        (bytes(key), bytes(value))
    })
    .collect()
}

/// Rows without a value are left out: their key says everything.
fn check<R: Row>(family: Family) {
    let rows = ["root", "front-0", "directory-0", "shard-0"].into_iter().flat_map(rows_of);
    let inputs: Vec<Vec<u8>> = rows
        .filter(|(key, value)| key[0] == family as u8 && !value.is_empty())
        .map(|(_, value)| value)
        .collect();
    check_inputs::<R>(inputs);
}

fn check_inputs<R: Row>(inputs: Vec<Vec<u8>>) {
    for input in &inputs {
        assert!(R::decode(input).is_ok(), "{} has good rows: {input:?}", R::NAME);
    }
    fuzz(R::NAME, &Corpus::new(inputs, BYTES), |input| {
        if let Ok(row) = R::decode(input) {
            let written = row.encode();
            let again = R::decode(&written).unwrap_or_else(|error| panic!("{error}: {written:?}"));
            assert_eq!(again.encode(), written, "what is written is what was read");
        }
    });
}

#[test]
fn rows_of_the_root_are_read_or_refused() {
    check::<Layout>(Family::Layout);
    check::<Tenant>(Family::Tenant);
    check::<TenantQuota>(Family::Quota);
    check::<root::ApiKeyRow>(Family::ApiKey);
    check::<template::TemplateRow>(Family::Template);
    check::<template::VersionRow>(Family::TemplateVersion);
    check::<DefinitionBytes>(Family::TemplateDefinition);
    check::<template::Floor>(Family::TemplateFloor);
    check::<webhook::WebhookRow>(Family::Webhook);
    check::<webhook::Since>(Family::WebhookFailing);
    check::<policy::CategoryRow>(Family::Category);
    check::<policy::DefaultsRow>(Family::Defaults);
    check::<segment::SegmentRow>(Family::Segment);
    check::<provider::ProviderRow>(Family::Provider);
    check::<provider::AccountFloor>(Family::AccountFloor);
    check::<provider::CallbackSecretRow>(Family::CallbackSecret);
    check::<provider::FirstAccountRow>(Family::FirstAccount);
    check::<schedule::ScheduleRow>(Family::Schedule);
}

#[test]
fn rows_of_fronts_and_directories_are_read_or_refused() {
    check::<event::FrontState>(Family::FrontState);
    check::<Known>(Family::Idempotency);
    check::<event::EventRow>(Family::Event);
    check::<size::SizeRow>(Family::Size);
    check::<event::PersonalRow>(Family::Personal);
    check::<Audience>(Family::Scheduled);
    check::<scheduled::Count>(Family::ScheduledCount);
    check::<walk::BulkRow>(Family::Bulk);
    check::<schedule::Standing>(Family::ScheduleStanding);
    check::<directory::AddressRow>(Family::Address);
}

#[test]
fn rows_of_users_are_read_or_refused() {
    check::<progress::Progress>(Family::ShardState);
    check::<user::UserRef>(Family::UserByLookup);
    check::<user::UserRow>(Family::User);
    check::<Intervals>(Family::Follow);
    check::<follow::Open>(Family::FollowCount);
    check::<list::ListRow>(Family::List);
    check::<taken::Page>(Family::Taken);
    check::<pointer::PointerList>(Family::PointerList);
    check::<Flags>(Family::Flags);
    check::<Marks>(Family::Marks);
    check::<respect::RespectRow>(Family::Respect);
    check::<respect::Changed>(Family::RespectHistory);
    check::<erasure::ErasureRow>(Family::Erasure);
    let place = event::PersonalPlace { event: Ulid::from_bytes([5; 16]), shard: ShardNo(2), user: UserNo(7) };
    let places = [
        ErasurePlace::Deliveries(Arrival(9)),
        ErasurePlace::Content { front: FrontNo(0), behind: None },
        ErasurePlace::Content { front: FrontNo(0), behind: Some(place) },
    ];
    check_inputs::<ErasurePlace>(places.iter().map(Row::encode).collect());
    check::<usage::Usage>(Family::Usage);
    check::<segment::UploadRow>(Family::Upload);
    check::<segment::UploadPage>(Family::UploadPage);
}

#[test]
fn rows_of_deliveries_are_read_or_refused() {
    check::<work::WorkRow>(Family::Work);
    check::<work::GivenMembers>(Family::WorkMembers);
    check::<work::Halt>(Family::Halted);
    check::<ledger::LedgerRow>(Family::Ledger);
    check::<tally::Tally>(Family::Tally);
    check::<tally::Tally>(Family::LaneTally);
    check::<track::TrackRow>(Family::Track);
    check::<webhook::Through>(Family::Told);
    check::<throttle::ThrottlePage>(Family::Throttle);
    check::<window::WindowRow>(Family::Window);
    check::<window::ItemRow>(Family::WindowItem);
    check::<window::NoRow>(Family::WindowOpen);
    check::<Storm>(Family::Storm);
    check::<digest::DigestRow>(Family::Digest);
    check::<walk::WalkRow>(Family::Walk);
    check::<walk::Part>(Family::WalkPart);
}

/// Tables of which one row is another one.
struct Damaged<'a> {
    rows: &'a BTreeMap<Vec<u8>, Vec<u8>>,
    instead_of: &'a [u8],
    key: &'a [u8],
    value: &'a [u8],
}

impl Tables for Damaged<'_> {
    fn read(&self, key: &[u8], visit: Read<'_>) -> Result<(), TablesError> {
        let other = (key != self.instead_of).then(|| self.rows.get(key)).flatten().map(Vec::as_slice);
        visit(if key == self.key { Some(self.value) } else { other });
        Ok(())
    }

    fn scan(&self, range: KeyRange<'_>, order: Order, visit: Visit<'_>) -> Result<(), TablesError> {
        if range.from >= range.to {
            return Ok(());
        }
        let others = self.rows.iter().map(|(key, value)| (key.as_slice(), value.as_slice()));
        let mut rows: BTreeMap<&[u8], &[u8]> = others.filter(|(key, _)| *key != self.instead_of).collect();
        rows.insert(self.key, self.value);
        let mut visit = |(key, value): (&&[u8], &&[u8])| visit(key, value).is_break();
        let mut found = rows.range(range.from..range.to);
        match order {
            Order::Ascending => found.any(&mut visit),
            Order::Descending => found.rev().any(&mut visit),
        };
        Ok(())
    }
}

/// Whether anything is damaged is the reader's to say: here it only has to come to an end.
fn read_everything(tables: &dyn Tables) {
    let mut books = Books::begin(Position(1)).with_events();
    for _ in 0..STEPS_MAX {
        if books.is_done() || books.step(tables, Position(1), 7).is_err() {
            break;
        }
    }
    assert!(books.counted.ledgers < 1_000, "a recount reads each ledger once");
    let (everything, end) = (ArrivalRange { after: Arrival(0), before: Arrival(u64::MAX) }, Millis(u64::MAX));
    let _read = (
        todo::waiting(tables, 100)
            .map(|todos| todos.into_iter().map(|todo| todo.key().len() + todo.value().len()).sum::<usize>()),
        directory::waiting(tables, None, 100).is_ok(),
        ledger::under_way(tables, None, 100).is_ok(),
        ledger::of_events(tables, TENANT, everything, 100).is_ok(),
        work::all(tables, None, 100).is_ok(),
        window::ends(tables, Millis(0), end, 100).is_ok(),
        waiting::all(tables, TENANT).is_ok(),
        walk::open(tables).is_ok(),
        endpoint::pages_from(tables, TENANT, 0, 100).is_ok(),
        usage::all(tables).is_ok(),
        schedule::waiting(tables, 100).is_ok(),
        scheduled::earliest(tables).is_ok(),
        taken::through(tables, TENANT, Arrival(u64::MAX - 1)).is_ok(),
        guard::is_open(tables, TENANT, everything).is_ok(),
    );
    for user in 0..20 {
        let _column = columns::find(tables, TENANT, UserNo(user))
            .map(|column| (column.reach.exists(), column.respect.said()));
        let _found = endpoint::of_user(tables, TENANT, UserNo(user)).is_ok();
    }
}

#[test]
fn tables_with_a_damaged_row_are_read_to_their_end() {
    for partition in ["root", "front-0", "directory-0", "shard-0"] {
        let rows = rows_of(partition);
        let keys: Vec<&Vec<u8>> = rows.keys().collect();
        for seed in seeds(ROUNDS_PER_TABLES) {
            let mut dice = Dice::new(seed);
            let instead_of = *dice.pick(&keys);
            let is_key = dice.below(3) == 0;
            let good = if is_key { instead_of } else { &rows[instead_of] };
            let input = Corpus::new(vec![good.clone()], BYTES).mutated(&mut dice);
            let _printed = Reading { reader: partition, seed, input: &input };
            let (key, value) = if is_key { (&input, &rows[instead_of]) } else { (instead_of, &input) };
            read_everything(&Damaged { rows: &rows, instead_of, key, value });
        }
    }
}
