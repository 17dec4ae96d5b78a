//! Claims: a shard and the directories agree whose an address is.
//!
//! Comes from: to-do rows on both sides, done by the shard's one errand loop, one after the other. So what the loop has
//! read of its shard is not overtaken by a release that it does not know of.
//! Does: lets the shard release what others claimed, tells directories what was given up, asks for what is wanted.
//! Every step is durable on one side before the next one is asked of the other; a crash in between does it again,
//! which changes nothing.
//! Goes to: `machine::directory`, and `shard::endpoints` with what was heard.

use crate::ask::Refusal;
use crate::core::{Core, answer, internal};
use crate::directory_todos::Unsorted;
use crate::take::HOUSE;
use fantail_machine::directory::{DirectoryAnswer, DirectoryAsk, Errand, Tell, Verdict, errands};
use fantail_machine::records::directory::{Claim, Owner};
use fantail_machine::shard::ShardAsk;
use fantail_machine::shard::endpoints::Heard;
use fantail_machine::tables::todo::{Release, Todo};
use fantail_machine::tables::{directory, endpoint};
use fantail_ports::tables::{Tables, TablesError};
use fantail_rules::actor::Actor;
use fantail_rules::endpoint::News;
use fantail_rules::ids::{DirectoryNo, PartitionId, ShardNo, TenantId};
use std::collections::{BTreeMap, BTreeSet};

/// What one claim weighs in a queue.
const CLAIM_BYTES: usize = 48;

/// Does what the directories want of this shard; says whether there was anything.
pub async fn serve(core: &Core, shard: ShardNo) -> Result<bool, Refusal> {
    let mut any = false;
    for (no, directory) in &core.directories {
        let served = serve_one(core, *no, shard).await;
        any |= served.inspect_err(|_| directory.todos.miss())?;
    }
    Ok(any)
}

async fn serve_one(core: &Core, no: DirectoryNo, shard: ShardNo) -> Result<bool, Refusal> {
    for other in sort(core, no)?.into_iter().filter(|found| *found != shard) {
        // That shard may have looked while its rows were being sorted here, and found none.
        core.shard(other).ring();
    }
    let todos = core.directory(no).todos.take(shard, core.knobs.todos_page);
    if todos.is_empty() {
        return Ok(false);
    }
    // An owner who changed meanwhile has a row of its own.
    let mut errands = core.read(PartitionId::Directory(no), |view| errands(view.tables(), &todos))?;
    errands.retain(|errand| errand.claim().owner.shard == shard);
    for (tenant, errands) in by_tenant(errands.into_iter().map(|errand| (tenant_of(&errand), errand))) {
        hear(core, shard, tenant, errands.iter().map(heard_of).collect()).await?;
        let released: Vec<Claim> = errands.iter().filter_map(released_of).collect();
        let told: Vec<Tell> = errands.iter().filter_map(told_of).collect();
        tell(core, no, DirectoryAsk::Released { tenant, claims: released }).await?;
        tell(core, no, DirectoryAsk::Told { tenant, told }).await?;
    }
    Ok(true)
}

/// Sorts the rows of a directory by the shard that they concern, and returns those shards.
fn sort(core: &Core, no: DirectoryNo) -> Result<BTreeSet<ShardNo>, Refusal> {
    let todos = &core.directory(no).todos;
    let unsorted = todos.unsorted();
    let (walk, known) = match unsorted {
        Unsorted::Nothing => return Ok(BTreeSet::new()),
        Unsorted::Here(known) => (None, known),
        Unsorted::InTables(shares) => (Some(shares), Vec::new()),
    };
    let (cut, found) = core.read(PartitionId::Directory(no), |view| {
        let tables = view.tables();
        let (known, cut) = match walk {
            Some(shares) => {
                let found = directory::waiting_in_shares(tables, shares)?;
                (found.rows, found.is_cut.then_some(found.next))
            }
            None => (known, None),
        };
        let mut found = Vec::with_capacity(known.len());
        for todo in &known {
            let errand = errands(tables, std::slice::from_ref(todo))?.pop();
            found.extend(errand.map(|errand| (errand.claim().owner.shard, *todo)));
        }
        Ok((cut, found))
    })?;
    if let Some(next) = cut {
        todos.is_cut(next);
    }
    let shards = found.iter().map(|(shard, _)| *shard).collect();
    todos.sort(found.into_iter());
    Ok(shards)
}

/// Tells the directories which claims are over, then the shard that they know.
pub async fn release(core: &Core, shard: ShardNo, releases: Vec<Release>) -> Result<(), Refusal> {
    for (tenant, releases) in by_tenant(releases.into_iter().map(|release| (release.tenant, release))) {
        let claims = releases.iter().map(|release| claim_of(shard, release));
        for (no, claims) in by_directory(core, claims) {
            tell(core, no, DirectoryAsk::Released { tenant, claims }).await?;
        }
        let over = |release: &Release| heard(claim_of(shard, release).owner, News::Released);
        hear(core, shard, tenant, releases.iter().map(over).collect()).await?;
    }
    Ok(())
}

/// Asks the directories for addresses, then tells the shard what came of it. Returns whether some are to be asked for
/// again, as they are claimed by too many at once.
pub async fn claim(core: &Core, shard: ShardNo, wanted: Vec<(TenantId, Claim)>) -> Result<bool, Refusal> {
    let mut crowded = false;
    for (tenant, claims) in by_tenant(wanted.into_iter()) {
        let mut news = Vec::with_capacity(claims.len());
        for (no, claims) in by_directory(core, claims.into_iter()) {
            let ask = DirectoryAsk::Claim { tenant, claims: claims.clone() };
            let bytes = claims.len() * CLAIM_BYTES;
            let verdicts =
                match answer(core.directory(no).queue.push(HOUSE, &Actor::System, vec![ask], bytes)).await? {
                    DirectoryAnswer::Claims(verdicts) => verdicts,
                    DirectoryAnswer::Noted
                    | DirectoryAnswer::Suppressed { .. }
                    | DirectoryAnswer::Unsuppressed
                    | DirectoryAnswer::NotSuppressed => {
                        return Err(internal("the directory answered something else"));
                    }
                };
            crowded |= verdicts.contains(&Verdict::Crowded);
            let answered = claims.iter().zip(verdicts);
            news.extend(answered.filter_map(|(claim, verdict)| Some(heard(claim.owner, news_of(verdict)?))));
        }
        hear(core, shard, tenant, news).await?;
    }
    Ok(crowded)
}

/// The claims that to-do rows ask for.
pub fn wanted(
    tables: &dyn Tables,
    shard: ShardNo,
    todos: &[Todo],
) -> Result<Vec<(TenantId, Claim)>, TablesError> {
    let mut wanted = Vec::new();
    for todo in todos {
        if let Todo::Claim { tenant, user, device } = *todo
            && let Some(found) = endpoint::find(tables, tenant, user, device)?
        {
            let owner = Owner { shard, user, device, claim: found.claim };
            wanted.push((tenant, Claim { address: found.address_hash, owner }));
        }
    }
    Ok(wanted)
}

fn news_of(verdict: Verdict) -> Option<News> {
    match verdict {
        Verdict::Granted { suppressed } => Some(News::Granted { suppressed }),
        Verdict::Queued => Some(News::Queued),
        Verdict::Refused => Some(News::Released),
        Verdict::Crowded => None,
    }
}

async fn hear(core: &Core, shard: ShardNo, tenant: TenantId, heard: Vec<Heard>) -> Result<(), Refusal> {
    let bytes = heard.len() * CLAIM_BYTES;
    let ask = ShardAsk::Hear { tenant, heard };
    answer(core.shard(shard).queue.push(HOUSE, &Actor::System, vec![ask], bytes)).await?;
    Ok(())
}

async fn tell(core: &Core, no: DirectoryNo, ask: DirectoryAsk) -> Result<(), Refusal> {
    let count = match &ask {
        DirectoryAsk::Released { claims, .. } | DirectoryAsk::Claim { claims, .. } => claims.len(),
        DirectoryAsk::Told { told, .. } => told.len(),
        DirectoryAsk::Suppress { .. } | DirectoryAsk::Unsuppress { .. } | DirectoryAsk::Start { .. } => 1,
    };
    if count > 0 {
        answer(core.directory(no).queue.push(HOUSE, &Actor::System, vec![ask], count * CLAIM_BYTES)).await?;
    }
    Ok(())
}

fn by_tenant<T>(items: impl Iterator<Item = (TenantId, T)>) -> BTreeMap<TenantId, Vec<T>> {
    let mut grouped: BTreeMap<TenantId, Vec<T>> = BTreeMap::new();
    items.for_each(|(tenant, item)| grouped.entry(tenant).or_default().push(item));
    grouped
}

fn by_directory(core: &Core, claims: impl Iterator<Item = Claim>) -> BTreeMap<DirectoryNo, Vec<Claim>> {
    let mut grouped: BTreeMap<DirectoryNo, Vec<Claim>> = BTreeMap::new();
    claims.for_each(|claim| grouped.entry(core.directory_of(claim.address)).or_default().push(claim));
    grouped
}

fn heard(owner: Owner, news: News) -> Heard {
    Heard { user: owner.user, device: owner.device, claim: owner.claim, news }
}

fn claim_of(shard: ShardNo, release: &Release) -> Claim {
    let Release { user, device, claim, address, .. } = *release;
    Claim { address, owner: Owner { shard, user, device, claim } }
}

fn tenant_of(errand: &Errand) -> TenantId {
    match errand {
        Errand::Release { tenant, .. } | Errand::Tell { tenant, .. } => *tenant,
    }
}

fn heard_of(errand: &Errand) -> Heard {
    let news = match errand {
        Errand::Release { .. } => News::Released,
        Errand::Tell { tell, .. } => News::Told { suppressed: tell.suppressed },
    };
    heard(errand.claim().owner, news)
}

fn released_of(errand: &Errand) -> Option<Claim> {
    match errand {
        Errand::Release { claim, .. } => Some(*claim),
        Errand::Tell { .. } => None,
    }
}

fn told_of(errand: &Errand) -> Option<Tell> {
    match errand {
        Errand::Release { .. } => None,
        Errand::Tell { tell, .. } => Some(*tell),
    }
}
