//! The list of erasures of a data directory: where it is, that it is the one of before, and how a restored copy uses one.
//!
//! ```text
//! erasures.list       the list, unless the setting erasures.list names another file
//! erasures.mark       which list this server writes, and how many entries it had at the newest start or backup
//! erasures.restored   the list that `fantail restore --erasures` was given, until its entries are applied
//! ```
//! What must never happen: a new list in place of one that is missing or was cut; a copy that answers requests before the
//! erasures that it was given are applied; an erasure that the backup knows already applied once more.

use crate::copy_mark::{CopyMark, ListPlace, write_json};
use anyhow::{Context, Result, ensure};
use fantail_local::disk::{Disk, RealDisk};
use fantail_local::erasure_list::LocalErasureList;
use fantail_node::Node;
use fantail_node::erasure_list::ErasedAgain;
use fantail_ports::erasure_list::ErasureList;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::{info, warn};

const LIST: &str = "erasures.list";
const MARK: &str = "erasures.mark";
const RESTORED: &str = "erasures.restored";
/// Longer files are no marks.
const MARK_BYTES_MAX: u64 = 4_096;
/// Entries that are applied together.
const APPLIED_PAGE: usize = 256;

/// The list that a restored copy was given.
#[must_use]
pub fn restored_file(data: &Path) -> PathBuf {
    data.join(RESTORED)
}

/// Opens the list that a server writes.
pub fn open(data: &Path, configured: Option<&Path>) -> Result<Arc<LocalErasureList>> {
    let file = configured.map_or_else(|| data.join(LIST), Path::to_owned);
    let before = read_mark(data)?;
    if !file.exists() {
        if let Some(before) = before {
            anyhow::bail!(
                "the list of erasures {} is missing, and had {} entries: put it back, or remove {} to begin another one",
                file.display(),
                before.entries,
                data.join(MARK).display()
            );
        }
        go_on_with_restored(data, &file)?;
    }
    let list = LocalErasureList::open(&file).context("cannot open the list of erasures")?;
    if list.torn_bytes() > 0 {
        let (file, bytes) = (file.display(), list.torn_bytes());
        warn!(%file, bytes, "an entry of the list of erasures that was cut off was saved aside");
    }
    if let Some(before) = before {
        let mark = data.join(MARK);
        ensure!(
            before.id == list.id(),
            "{} is another list of erasures than the one that this server has written ({}): put that one back, or remove the mark",
            file.display(),
            mark.display()
        );
        ensure!(
            before.entries <= list.count(),
            "the list of erasures {} has {} entries and had {} ({}): it was cut, or is an older copy",
            file.display(),
            list.count(),
            before.entries,
            mark.display()
        );
    }
    remember(data, &list)?;
    Ok(Arc::new(list))
}

/// A copy that keeps its list inside goes on with the one that it was given: later copies need both.
fn go_on_with_restored(data: &Path, file: &Path) -> Result<()> {
    let restored = restored_file(data);
    if restored.exists() {
        copy_durably(&restored, file).with_context(|| format!("cannot make {}", file.display()))?;
    }
    Ok(())
}

/// Where the list is now. Durable on return.
pub fn remember(data: &Path, list: &LocalErasureList) -> Result<ListPlace> {
    let place = ListPlace { id: list.id(), entries: list.count() };
    write_json(&data.join(MARK), &place.json())?;
    Ok(place)
}

fn read_mark(data: &Path) -> Result<Option<ListPlace>> {
    let file = data.join(MARK);
    let about = || format!("{} is damaged", file.display());
    match fs::metadata(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(about),
        Ok(metadata) => ensure!(metadata.len() <= MARK_BYTES_MAX, "{}", about()),
    }
    let text = fs::read_to_string(&file).with_context(about)?;
    let value = serde_json::from_str(&text).with_context(about)?;
    ListPlace::parse(&value).map(Some).with_context(about)
}

/// A list that an operator gives to `fantail restore`, and the place of the first entry that the backup does not know.
pub struct GivenList {
    file: PathBuf,
    pub entries: u64,
    pub from: u64,
    pub torn_bytes: u64,
}

impl GivenList {
    /// Reads all of it, and says whether it can be the list of this backup.
    pub fn read(file: &Path, backup: &CopyMark) -> Result<Self> {
        let list = LocalErasureList::open_to_read(file)?;
        let (id, entries) = (list.id(), list.count());
        // Of another list the backup knows nothing: entries that it knows are found by their ids.
        let from = backup.erasure_list.filter(|known| known.id == id).map_or(0, |known| known.entries);
        ensure!(
            from <= entries,
            "{} has {entries} erasures, and had {from} when the backup was taken: it was cut, or is an older copy",
            file.display()
        );
        Ok(Self { file: file.to_owned(), entries, from, torn_bytes: list.torn_bytes() })
    }

    /// Puts it into a data directory that is being made.
    pub fn put_into(&self, data: &Path) -> Result<()> {
        copy_durably(&self.file, &restored_file(data))
            .with_context(|| format!("cannot copy {}", self.file.display()))
    }
}

fn copy_durably(from: &Path, to: &Path) -> io::Result<()> {
    let part = to.with_extension("part");
    let directory = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    RealDisk.create_private_dir(directory)?;
    fs::copy(from, &part)?;
    fs::File::open(&part)?.sync_all()?;
    fs::rename(&part, to)?;
    RealDisk.sync_dir(directory)
}

/// Before a restored copy answers requests: applies the erasures that it was given, or that its own list has beyond the backup.
/// Gives the mark of a copy that stays paused.
pub async fn settle(
    data: &Path,
    mark: Option<CopyMark>,
    list: &Arc<LocalErasureList>,
    node: &Node,
) -> Result<Option<CopyMark>> {
    let Some(mut mark) = mark else {
        return remove_restored(data).map(|()| None);
    };
    if let Some(from) = mark.erasures_from {
        let given =
            LocalErasureList::open_to_read(&restored_file(data)).context("cannot read the erasures")?;
        apply(&given, from, node).await?;
        mark.erasures_applied = true;
    } else if let Some(known) = mark.erasure_list.filter(|known| known.id == list.id())
        && !mark.erasures_applied
    {
        apply(list, known.entries, node).await?;
        mark.erasures_applied = true;
    }
    mark.erasures_from = None;
    let stays_paused = !mark.is_active;
    if stays_paused {
        mark.write(data)?;
    } else {
        CopyMark::remove(data)?;
        node.resume();
    }
    remove_restored(data)?;
    Ok(Some(mark).filter(|_| stays_paused))
}

async fn apply(list: &LocalErasureList, from: u64, node: &Node) -> Result<()> {
    // Those that end meanwhile are appended behind.
    let (mut at, end) = (from, list.count());
    let mut sum = ErasedAgain::default();
    while at < end {
        let page = usize::try_from(end - at).unwrap_or(usize::MAX).min(APPLIED_PAGE);
        let entries = list.read(at, page).context("cannot read the erasures")?;
        sum.add(node.erase_again(&entries).await.context("cannot apply the erasures after the backup")?);
        at += entries.len() as u64;
    }
    let ErasedAgain { erased, nothing_to_do, of_other_tenants } = sum;
    info!(erased, nothing_to_do, of_other_tenants, "erasures after the backup were applied");
    Ok(())
}

fn remove_restored(data: &Path) -> Result<()> {
    let file = restored_file(data);
    match fs::remove_file(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot remove {}", file.display())),
        Ok(()) => Ok(RealDisk.sync_dir(data)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_local::erasure_list::ErasureListId;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("fantail-erasures-{}-{name}", std::process::id()));
            fs::create_dir_all(&path).expect("a directory");
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).expect("the directory is there");
        }
    }

    #[test]
    fn a_list_that_is_missing_cut_or_another_one_is_refused_by_name() {
        let scratch = Scratch::new("mark");
        let (data, elsewhere) = (scratch.0.join("data"), scratch.0.join("elsewhere/erasures"));
        fs::create_dir_all(&data).expect("a directory");
        let error = |what: &str| {
            let error = format!("{:#}", open(&data, Some(&elsewhere)).err().expect("it is refused"));
            assert!(error.contains(what) && error.contains("elsewhere/erasures"), "{error}");
        };
        let list = open(&data, Some(&elsewhere)).expect("a new list");
        list.append(b"one").expect("room");
        remember(&data, &list).expect("written");
        drop(list);
        let whole = fs::read(&elsewhere).expect("a list");
        fs::write(&elsewhere, &whole[..whole.len() - 128]).expect("written");
        error("has 0 entries and had 1");
        fs::remove_file(&elsewhere).expect("it is there");
        error("is missing, and had 1 entries");
        drop(LocalErasureList::open(&elsewhere).expect("a new list"));
        error("is another list");
        fs::write(&elsewhere, &whole).expect("written");
        assert_eq!(open(&data, Some(&elsewhere)).expect("it is back").count(), 1);
        fs::write(data.join(MARK), "{").expect("written");
        let error = format!("{:#}", open(&data, Some(&elsewhere)).err().expect("it is refused"));
        assert!(error.contains("erasures.mark is damaged"), "{error}");
    }

    #[test]
    fn a_given_list_begins_where_the_backup_was_and_is_not_shorter() {
        let scratch = Scratch::new("given");
        let file = scratch.0.join("list");
        let list = LocalErasureList::open(&file).expect("a new list");
        (0..3).for_each(|no| list.append(&[no]).expect("room"));
        let backup = |id: ErasureListId, entries: u64| CopyMark {
            erasure_list: Some(ListPlace { id, entries }),
            ..CopyMark::default()
        };
        let from = |mark: &CopyMark| GivenList::read(&file, mark).map(|given| (given.entries, given.from));
        assert_eq!(from(&backup(list.id(), 2)).expect("its list"), (3, 2));
        assert_eq!(from(&backup(list.id(), 3)).expect("its list"), (3, 3));
        // Another list, or a backup from before there was one: all of it.
        assert_eq!(from(&backup(ErasureListId([0; 16]), 2)).expect("a list"), (3, 0));
        assert_eq!(from(&CopyMark::default()).expect("a list"), (3, 0));
        let error = from(&backup(list.id(), 4)).expect_err("it was cut").to_string();
        assert!(error.contains("has 3 erasures, and had 4"), "{error}");
    }
}
