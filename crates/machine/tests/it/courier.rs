//! The errand loops of a node, cut into single steps: each shard's loop does one thing after the other, but the loops
//! interleave as a test likes, and a crash drops whatever was under way.

use crate::harness::{DIRECTORY, Node};
use fantail_machine::directory::{self, DirectoryAnswer, DirectoryAsk, Errand, Tell, Verdict};
use fantail_machine::records::directory::{Claim, Owner};
use fantail_machine::shard::endpoints::Heard;
use fantail_machine::shard::{ShardAnswer, ShardAsk};
use fantail_machine::tables::endpoint;
use fantail_machine::tables::todo::{self, Release, Todo};
use fantail_rules::endpoint::News;
use fantail_rules::ids::{PartitionId, ShardNo, TenantId};
use std::collections::{BTreeMap, VecDeque};

/// Something that one partition is to be asked, and what is asked of whom after that.
#[derive(Clone, Debug)]
pub enum Message {
    /// A shard has given up a claim: the directory hears of it, then the shard that it has.
    GivenUp(ShardNo, Release),
    /// An endpoint wants an address: the directory decides, then the shard hears what.
    Wanted(TenantId, Claim),
    Heard(TenantId, ShardNo, Heard),
    /// The directory has a claim released, then notes that it was.
    Free(TenantId, Claim),
    Freed(TenantId, Claim),
    /// The directory tells an owner how it stands, then notes that it did.
    Tell(TenantId, Tell),
    Told(TenantId, Tell),
}

#[derive(Default)]
pub struct Courier {
    under_way: BTreeMap<ShardNo, VecDeque<Message>>,
    pub delivered: Vec<Message>,
}

impl Courier {
    /// One step of a loop; says whether there was anything to do.
    pub fn step(&mut self, node: &mut Node, who: ShardNo) -> bool {
        let queue = self.under_way.entry(who).or_default();
        if queue.is_empty() {
            queue.extend(look(node, who));
        }
        let Some(message) = queue.pop_front() else { return false };
        self.delivered.push(message.clone());
        if let Some(next) = deliver(node, message) {
            self.under_way.entry(who).or_default().push_front(next);
        }
        true
    }

    /// Messages under way.
    pub fn len(&self) -> usize {
        self.under_way.values().map(VecDeque::len).sum()
    }

    pub fn crash(&mut self) {
        self.under_way.clear();
    }

    /// Until nobody has anything to do.
    pub fn settle(&mut self, node: &mut Node, shards: &[ShardNo]) {
        for _ in 0..10_000 {
            let mut any = false;
            shards.iter().for_each(|who| any |= self.step(node, *who));
            if !any {
                return;
            }
        }
        panic!("errands never end");
    }
}

/// What the directory wants of the shard; only if that is nothing, what the shard wants of the directory.
fn look(node: &mut Node, shard: ShardNo) -> Vec<Message> {
    let errands = node.read(PartitionId::Directory(DIRECTORY), |state| {
        let todos = fantail_machine::tables::directory::waiting(state.tables(), None, 256).unwrap();
        let mut errands = directory::errands(state.tables(), &todos).unwrap();
        errands.retain(|errand| errand.claim().owner.shard == shard);
        errands
    });
    if !errands.is_empty() {
        let messages = errands.into_iter().map(|errand| match errand {
            Errand::Release { tenant, claim } => Message::Free(tenant, claim),
            Errand::Tell { tenant, tell } => Message::Tell(tenant, tell),
        });
        return messages.collect();
    }
    node.read(PartitionId::Shard(shard), |state| {
        let todos = todo::waiting(state.tables(), 256).unwrap();
        let messages = todos.into_iter().filter_map(|todo| match todo {
            Todo::Report { .. }
            | Todo::Shred { .. }
            | Todo::Replan { .. }
            | Todo::Fold { .. }
            | Todo::Digest { .. }
            | Todo::Halt { .. }
            | Todo::Erase { .. } => None,
            Todo::Release(release) => Some(Message::GivenUp(shard, release)),
            Todo::Claim { tenant, user, device } => {
                let found = endpoint::find(state.tables(), tenant, user, device).unwrap().unwrap();
                let owner = Owner { shard, user, device, claim: found.claim };
                Some(Message::Wanted(tenant, Claim { address: found.address_hash, owner }))
            }
        });
        messages.collect()
    })
}

/// Asks, and returns what is to be asked next.
pub fn deliver(node: &mut Node, message: Message) -> Option<Message> {
    match message {
        Message::GivenUp(shard, release) => {
            let Release { tenant, user, device, claim, address } = release;
            let claims = vec![Claim { address, owner: Owner { shard, user, device, claim } }];
            node.directory(DirectoryAsk::Released { tenant, claims });
            Some(Message::Heard(tenant, shard, Heard { user, device, claim, news: News::Released }))
        }
        Message::Wanted(tenant, claim) => {
            let answer = node.directory(DirectoryAsk::Claim { tenant, claims: vec![claim] });
            let DirectoryAnswer::Claims(verdicts) = answer else { panic!("{answer:?}") };
            let news = match verdicts[0] {
                Verdict::Granted { suppressed } => News::Granted { suppressed },
                Verdict::Queued => News::Queued,
                Verdict::Refused => News::Released,
                Verdict::Crowded => return None,
            };
            Some(Message::Heard(tenant, claim.owner.shard, heard(claim.owner, news)))
        }
        Message::Heard(tenant, shard, heard) => {
            tell_shard(node, tenant, shard, heard);
            None
        }
        Message::Free(tenant, claim) => {
            tell_shard(node, tenant, claim.owner.shard, heard(claim.owner, News::Released));
            Some(Message::Freed(tenant, claim))
        }
        Message::Freed(tenant, claim) => {
            node.directory(DirectoryAsk::Released { tenant, claims: vec![claim] });
            None
        }
        Message::Tell(tenant, tell) => {
            let news = News::Told { suppressed: tell.suppressed };
            tell_shard(node, tenant, tell.claim.owner.shard, heard(tell.claim.owner, news));
            Some(Message::Told(tenant, tell))
        }
        Message::Told(tenant, tell) => {
            node.directory(DirectoryAsk::Told { tenant, told: vec![tell] });
            None
        }
    }
}

fn heard(owner: Owner, news: News) -> Heard {
    Heard { user: owner.user, device: owner.device, claim: owner.claim, news }
}

fn tell_shard(node: &mut Node, tenant: TenantId, shard: ShardNo, heard: Heard) {
    let at = std::mem::replace(&mut node.at, shard);
    assert_eq!(node.shard(ShardAsk::Hear { tenant, heard: vec![heard] }), ShardAnswer::Noted);
    node.at = at;
}
