//! A directory as a disk holds it: what is durable, and what was changed since. Fed with a recorded trace, it writes the
//! directory that a power cut leaves.
//!
//! Kinder than a real disk it must never be: only what was synced is certain. Of the rest each write is kept, lost, torn or
//! scattered by sectors, or leaves its length and no bytes; a later one may be there without an earlier one. A name is there
//! for certain once its own directory was synced; until then each change of a name is kept or lost on its own, or as a
//! journaling file system does it: in order, up to some point.

use super::content::{Content, SURVIVALS};
use super::trace::Change;
use crate::crash::draw;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

type NodeNo = usize;
const ROOT: NodeNo = 0;

#[derive(Clone)]
enum Node {
    File(Content),
    Directory(Names),
}

/// The names of one directory.
#[derive(Clone, Default)]
struct Names {
    live: BTreeMap<String, NodeNo>,
    durable: BTreeMap<String, NodeNo>,
    unsynced: Vec<NameChange>,
}

#[derive(Clone)]
struct NameChange {
    /// Of the change in the trace.
    no: usize,
    /// All of one change together: the name that goes and the one that comes.
    gone: Option<String>,
    come: Option<(String, NodeNo)>,
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, NodeNo>) {
        if let Some(gone) = &self.gone {
            names.remove(gone);
        }
        if let Some((name, node)) = &self.come {
            names.insert(name.clone(), *node);
        }
    }
}

/// A sync that began: what it covers are the changes before it.
#[derive(Clone)]
struct Sync {
    node: NodeNo,
    began: usize,
}

#[derive(Clone)]
pub struct RecordedDisk {
    nodes: Vec<Node>,
    /// The file that an inode is now.
    files: HashMap<u64, NodeNo>,
    syncs: HashMap<u64, Sync>,
    changes: usize,
}

impl RecordedDisk {
    /// An empty directory.
    pub fn new() -> Self {
        let nodes = vec![Node::Directory(Names::default())];
        Self { nodes, files: HashMap::new(), syncs: HashMap::new(), changes: 0 }
    }

    pub fn apply(&mut self, change: &Change<'_>) {
        self.changes += 1;
        let no = self.changes;
        match *change {
            Change::Create { inode, path } => {
                let node = self.link(path, Node::File(Content::default()));
                self.files.insert(inode, node);
            }
            Change::MakeDirectory { path } => {
                self.link(path, Node::Directory(Names::default()));
            }
            Change::Rename { from, to } => self.rename(from, to),
            Change::Remove { path } => {
                let (directory, name) = self.place(path);
                self.change_names(directory, Some(name.to_owned()), None);
            }
            Change::Write { inode, offset, bytes } => {
                self.with_file(inode, |file| file.write(no, offset, bytes))
            }
            Change::SetLength { inode, length } => self.with_file(inode, |file| file.set_length(no, length)),
            Change::Grow { inode, length } => self.with_file(inode, |file| file.grow(no, length)),
            Change::SyncFile { sync, inode } => {
                // A file from before the recording has nothing that is not durable.
                if let Some(node) = self.files.get(&inode) {
                    self.syncs.insert(sync, Sync { node: *node, began: no });
                }
            }
            Change::SyncDirectory { sync, path } => {
                let node = self.find(path).expect("a directory that is synced was made");
                self.syncs.insert(sync, Sync { node, began: no });
            }
            Change::Synced { sync } => self.synced(sync),
        }
    }

    fn synced(&mut self, sync: u64) {
        let Some(Sync { node, began }) = self.syncs.remove(&sync) else { return };
        match &mut self.nodes[node] {
            Node::File(content) => content.sync(began),
            Node::Directory(names) => {
                let covered = names.unsynced.iter().take_while(|change| change.no < began).count();
                for change in names.unsynced.drain(..covered) {
                    change.apply(&mut names.durable);
                }
            }
        }
    }

    fn with_file(&mut self, inode: u64, change: impl FnOnce(&mut Content)) {
        let Some(node) = self.files.get(&inode) else { return };
        let Node::File(content) = &mut self.nodes[*node] else { panic!("a file is no directory") };
        change(content);
    }

    fn names(&mut self, directory: NodeNo) -> &mut Names {
        let Node::Directory(names) = &mut self.nodes[directory] else { panic!("a directory is no file") };
        names
    }

    fn find(&self, path: &str) -> Option<NodeNo> {
        let mut node = ROOT;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let Node::Directory(names) = &self.nodes[node] else { return None };
            node = *names.live.get(name)?;
        }
        Some(node)
    }

    /// The directory of a path, and the name in it.
    fn place<'p>(&self, path: &'p str) -> (NodeNo, &'p str) {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        (self.find(parent).expect("the directory was made"), name)
    }

    fn link(&mut self, path: &str, node: Node) -> NodeNo {
        let (directory, name) = self.place(path);
        let no = self.nodes.len();
        self.nodes.push(node);
        self.change_names(directory, None, Some((name.to_owned(), no)));
        no
    }

    fn rename(&mut self, from: &str, to: &str) {
        let ((left, old), (entered, new)) = (self.place(from), self.place(to));
        let node = self.find(from).expect("what is renamed is there");
        let (gone, come) = (Some(old.to_owned()), Some((new.to_owned(), node)));
        if left == entered {
            self.change_names(left, gone, come);
        } else {
            self.change_names(entered, None, come);
            self.change_names(left, gone, None);
        }
    }

    fn change_names(&mut self, directory: NodeNo, gone: Option<String>, come: Option<(String, NodeNo)>) {
        let change = NameChange { no: self.changes, gone, come };
        let names = self.names(directory);
        change.apply(&mut names.live);
        names.unsynced.push(change);
    }

    /// What belongs to the world outside, which has no power cut, is durable as it is.
    pub fn keep(&mut self, path: &str) {
        let Some(node) = self.find(path) else { return };
        let (directory, name) = self.place(path);
        let name = name.to_owned();
        self.names(directory).durable.insert(name, node);
        if let Node::File(content) = &mut self.nodes[node] {
            content.sync(usize::MAX);
        }
    }

    /// Cuts the power. What was not synced is decided by draws; all that is left is durable.
    pub fn cut(&mut self, state: &mut u64) {
        let ordered_until = (draw(state, 2) == 0).then(|| self.some_name_change(state));
        // Between a cut that takes nearly everything and one that takes nearly nothing.
        let survival = draw(state, SURVIVALS);
        for node in &mut self.nodes {
            match node {
                Node::File(content) => content.cut(state, survival),
                Node::Directory(names) => {
                    for change in names.unsynced.drain(..) {
                        let is_kept = match ordered_until {
                            Some(last) => change.no <= last,
                            None => draw(state, SURVIVALS) < survival,
                        };
                        if is_kept {
                            change.apply(&mut names.durable);
                        }
                    }
                    names.live.clone_from(&names.durable);
                }
            }
        }
        self.syncs.clear();
    }

    /// One of the changes since the first name that is not durable.
    fn some_name_change(&self, state: &mut u64) -> usize {
        let unsynced = self.nodes.iter().filter_map(|node| match node {
            Node::Directory(names) => names.unsynced.first().map(|change| change.no),
            Node::File(_) => None,
        });
        let first = unsynced.min().unwrap_or(self.changes);
        first + draw(state, (self.changes - first + 1) as u64) as usize
    }

    /// Writes what is durable into an empty directory, whose files this disk goes on with.
    pub fn write(&mut self, target: &Path) {
        self.files.clear();
        let mut waiting = vec![(ROOT, target.to_owned())];
        while let Some((node, path)) = waiting.pop() {
            match &self.nodes[node] {
                Node::File(content) => {
                    let inode = content.write_durable(&path);
                    self.files.insert(inode, node);
                }
                Node::Directory(names) => {
                    std::fs::create_dir_all(&path).expect("a directory");
                    waiting.extend(names.durable.iter().map(|(name, node)| (*node, path.join(name))));
                }
            }
        }
    }
}
