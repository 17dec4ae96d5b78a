//! Pages of a listing. Only what we ask for is read of their XML: keys, sizes, and where the next page begins.

/// One page.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Page {
    pub objects: Vec<Listed>,
    pub next: Option<String>,
}

/// An object of a listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    pub key: String,
    pub bytes: u64,
}

/// `None` if it is no listing.
#[must_use]
pub fn read(text: &str) -> Option<Page> {
    let inside = element(text, "ListBucketResult").or_else(|| attributed(text))?;
    let mut page = Page::default();
    let mut rest = inside;
    while let Some((object, behind)) = next_element(rest, "Contents") {
        let bytes = element(object, "Size")?.trim().parse().ok()?;
        page.objects.push(Listed { key: unescaped(element(object, "Key")?), bytes });
        rest = behind;
    }
    if element(inside, "IsTruncated").is_some_and(|text| text.trim() == "true") {
        page.next = Some(unescaped(element(inside, "NextContinuationToken")?));
    }
    Some(page)
}

/// What an error is called: `NoSuchBucket`.
#[must_use]
pub fn error_code(text: &str) -> Option<String> {
    let code = element(text, "Code")?;
    let is_name = (1..=64).contains(&code.len()) && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_name.then(|| code.to_owned())
}

/// The outermost element has attributes.
fn attributed(text: &str) -> Option<&str> {
    let behind = &text[text.find("<ListBucketResult ")?..];
    let inside = &behind[behind.find('>')? + 1..];
    inside.split("</ListBucketResult>").next()
}

fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    next_element(text, name).map(|(inside, _)| inside)
}

fn next_element<'a>(text: &'a str, name: &str) -> Option<(&'a str, &'a str)> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let inside = &text[text.find(&open)? + open.len()..];
    let end = inside.find(&close)?;
    Some((&inside[..end], &inside[end + close.len()..]))
}

/// The last of all is the ampersand: what it escapes is no escape.
fn unescaped(text: &str) -> String {
    let plain =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&apos;", "'"), ("&amp;", "&")];
    plain.iter().fold(text.to_owned(), |text, (escape, letter)| text.replace(escape, letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read_whatever_else_they_say() {
        let text = r#"<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name>
            <IsTruncated>true</IsTruncated><Contents><Key>a/log/1 &amp; 2</Key><ETag>"x"</ETag><Size>12</Size></Contents>
            <Contents><Size>0</Size><Key>a/b</Key></Contents><NextContinuationToken>t=/+</NextContinuationToken></ListBucketResult>"#;
        let object = |key: &str, bytes| Listed { key: key.to_owned(), bytes };
        let expected =
            Page { objects: vec![object("a/log/1 & 2", 12), object("a/b", 0)], next: Some("t=/+".into()) };
        assert_eq!(read(text), Some(expected));
        assert_eq!(
            read("<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"),
            Some(Page::default())
        );
        for bad in ["", "<Error/>", "<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>"]
        {
            assert_eq!(read(bad), None, "{bad}");
        }
        assert_eq!(error_code("<Error><Code>NoSuchBucket</Code></Error>").as_deref(), Some("NoSuchBucket"));
        assert_eq!(error_code("<Error><Code>a b</Code></Error>"), None);
    }
}
