//! JSON pointers (RFC 6901) that cost nothing until something is wrong: a chain of borrowed parts on the stack.

use std::fmt;

#[derive(Clone, Copy)]
pub struct Pointer<'a> {
    parent: Option<&'a Pointer<'a>>,
    part: Part<'a>,
}

#[derive(Clone, Copy)]
enum Part<'a> {
    Root,
    Key(&'a str),
    Index(usize),
}

impl<'a> Pointer<'a> {
    pub const ROOT: Pointer<'static> = Pointer { parent: None, part: Part::Root };

    pub fn key(&'a self, key: &'a str) -> Pointer<'a> {
        Pointer { parent: Some(self), part: Part::Key(key) }
    }

    pub fn index(&'a self, index: usize) -> Pointer<'a> {
        Pointer { parent: Some(self), part: Part::Index(index) }
    }
}

impl fmt::Display for Pointer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.part {
            Part::Root => Ok(()),
            Part::Key(key) => write!(f, "/{}", escape(key)),
            Part::Index(index) => write!(f, "/{index}"),
        }
    }
}

/// One part as it is written in a pointer.
pub fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_name_nested_places() {
        let root = Pointer::ROOT;
        assert_eq!(root.to_string(), "");
        let data = root.key("data");
        let users = data.key("us/e~rs");
        assert_eq!(users.index(3).to_string(), "/data/us~1e~0rs/3");
    }
}
