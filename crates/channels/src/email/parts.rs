//! The parts of a mail, for a provider that puts it together itself: the same subject, texts, links and ways out as in a mail
//! that is written here, but no signature of ours, since nobody here knows its bytes.

use super::compose::{Composer, MailError, digest_headers, recipient};
use super::content::Content;
use super::links::Linked;
use super::mime::Header;
use super::text::text_of;
use fantail_ports::channel::{Callbacks, Message};

/// What the messages of a content share.
pub struct SharedParts {
    subject: String,
    text: String,
    html: Option<Page>,
    /// Headers that say what a digest tells of.
    digest: Vec<Header>,
}

/// Ids in one line of a header: a provider takes at most 870 characters there.
const DIGEST_IDS_MAX: usize = 16;

enum Page {
    Same(String),
    /// Links of its own for each.
    Own(Linked),
}

/// Of one delivery.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parts {
    pub to: String,
    /// One line.
    pub subject: String,
    pub text: String,
    pub html: Option<String>,
    /// Those that are not of every mail. Each is one line of ASCII.
    pub headers: Vec<Header>,
}

impl Composer {
    /// Done once for all messages of a content.
    pub fn shared_parts(
        &self,
        content: &[u8],
        callbacks: Option<&Callbacks>,
    ) -> Result<SharedParts, MailError> {
        let Content { subject, html, text, digest } = Content::read(content)?;
        let subject = subject.replace(|letter: char| letter.is_control(), " ").trim().to_owned();
        let text = text.or_else(|| html.as_deref().map(text_of)).unwrap_or_default();
        let html = html.map(|html| match callbacks.filter(|_| self.sender().tracking) {
            None => Page::Same(html),
            Some(callbacks) => Page::Own(Linked::read(&html, callbacks)),
        });
        let mut digest = digest;
        digest.iter_mut().for_each(|digest| digest.event_ids.truncate(DIGEST_IDS_MAX));
        let digest = digest.iter().flat_map(|digest| digest_headers(digest, " ")).collect();
        Ok(SharedParts { subject, text, html, digest })
    }

    /// `callbacks` are those that the shared parts were made with.
    pub fn parts(
        &self,
        shared: &SharedParts,
        message: &Message,
        callbacks: Option<&Callbacks>,
    ) -> Result<Parts, MailError> {
        let to = recipient(message)?;
        let html = shared.html.as_ref().map(|page| match (page, callbacks) {
            (Page::Same(html), _) => html.clone(),
            (Page::Own(linked), Some(callbacks)) => linked.write(&message.reference, callbacks),
            (Page::Own(_), None) => unreachable!("links of their own are made with callbacks"),
        });
        let mut headers: Vec<Header> =
            self.sender().feedback_id.iter().map(|id| ("Feedback-ID", id.clone())).collect();
        headers.extend(shared.digest.iter().cloned());
        headers.extend(self.ways_out(message)?);
        Ok(Parts { to, subject: shared.subject.clone(), text: shared.text.clone(), html, headers })
    }
}
