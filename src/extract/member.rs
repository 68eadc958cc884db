//! Finds one member of an archive, or one attachment of a mail, with the readers and under the limits of extraction.

use crate::extract::detect::detect;
use crate::extract::dispatch::is_secret_member;
use crate::extract::email::{mime, outlook};
use crate::extract::formats::Format;
use crate::extract::{Input, ReadResult, Sink, archive, new_failure};
use crate::model::{ExtractLimits, MEMBER_SEPARATOR, Reason};

/// Returns the content of a member of an archive or mail. `member` is its name as in [`crate::model::Anchor::member`]: the
/// names of all levels, joined by `!/`. Fails if there are several members of this name, because it cannot be known which
/// one is meant.
pub(crate) fn member_content(input: Input<'_>, member: &str, limits: &ExtractLimits) -> ReadResult<Vec<u8>> {
    let mut sink = Sink::new(limits.clone()).for_member(member);
    let mut search = Search { found: Vec::new(), count: 0 };
    let outcome = search.descend(input, &mut sink);
    match search.count {
        0 => {
            Err(outcome.err().unwrap_or_else(|| new_failure(Reason::Damaged, format!("there is no `{member}` in it"))))
        }
        1 => Ok(search.found),
        count => Err(new_failure(Reason::UnsupportedType, format!("{count} files in it are named `{member}`"))),
    }
}

struct Search {
    /// Content of the first member of the name.
    found: Vec<u8>,
    /// Number of members of the name.
    count: u32,
}

impl Search {
    /// Looks for the member in a file or in a member that contains it. Other members are not read.
    fn descend(&mut self, input: Input<'_>, sink: &mut Sink) -> ReadResult {
        if !sink.leads_to_member() {
            return Ok(());
        }
        if is_secret_member(input, sink) {
            return Err(new_failure(Reason::Secret, ""));
        }
        if sink.is_at_member() {
            self.count += 1;
            if self.count == 1 {
                self.found = input.bytes.to_vec();
            }
            return Ok(());
        }
        let mut deeper = |input: Input<'_>, sink: &mut Sink| self.descend(input, sink);
        match detect(input.bytes, input.name).format {
            Format::Eml => mime::read_eml(input, sink, &mut deeper),
            Format::Mbox => mime::read_mbox(input, sink, &mut deeper),
            Format::Msg => outlook::read(input, sink, &mut deeper),
            Format::Archive => archive::read(input, sink, &mut deeper),
            _ => Ok(()),
        }
    }
}

impl Sink {
    /// Returns a sink for the reading of one member only: its name with those of the archives around it, joined by `!/`.
    pub(crate) fn for_member(mut self, name: &str) -> Sink {
        self.only_member = Some(name.to_string());
        self
    }

    /// Returns whether the current member, or one inside it, is to be read.
    pub(crate) fn leads_to_member(&self) -> bool {
        let Some(wanted) = self.only_member.as_deref().filter(|_| self.in_member()) else { return true };
        let below = wanted.strip_prefix(&self.member_path.join(MEMBER_SEPARATOR));
        below.is_some_and(|it| it.is_empty() || it.starts_with(MEMBER_SEPARATOR))
    }

    /// Returns whether the current member is the only one that is to be read.
    pub(crate) fn is_at_member(&self) -> bool {
        self.in_member() && self.only_member.as_deref() == Some(&self.member_path.join(MEMBER_SEPARATOR))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::zip_container::tests::zipped;

    fn content(bytes: &[u8], name: &str, member: &str) -> Result<String, Reason> {
        let found = member_content(Input { bytes, name }, member, &ExtractLimits::default());
        found.map(|it| String::from_utf8_lossy(&it).into_owned()).map_err(|failed| failed.reason)
    }

    /// Makes a mail with two attachments.
    fn mail(names: [&str; 2]) -> String {
        let part = |name: &str| {
            format!(
                "--b\r\nContent-Type: application/pdf\r\nContent-Disposition: attachment; filename=\"{name}\"\r\n\r\n%PDF {name}\r\n"
            )
        };
        format!(
            "Subject: s\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n{}{}--b--\r\n",
            part(names[0]),
            part(names[1])
        )
    }

    #[test]
    fn member_is_found_in_archive_and_mail_and_both() {
        let archive =
            zipped(&[("a/x.pdf", "%PDF one"), ("b/x.pdf", "%PDF two"), ("mail.eml", &mail(["p.pdf", "q.pdf"]))]);
        assert_eq!(content(&archive, "a.zip", "b/x.pdf").unwrap(), "%PDF two");
        assert_eq!(content(&archive, "a.zip", "mail.eml!/q.pdf").unwrap().trim(), "%PDF q.pdf");
        assert_eq!(content(mail(["p.pdf", "q.pdf"]).as_bytes(), "m.eml", "p.pdf").unwrap().trim(), "%PDF p.pdf");
        assert_eq!(content(&archive, "a.zip", "x.pdf").unwrap_err(), Reason::Damaged);
        assert_eq!(content(b"words", "a.txt", "x.pdf").unwrap_err(), Reason::Damaged);
    }

    #[test]
    fn secret_and_ambiguous_members_are_refused() {
        let archive = zipped(&[("home/.ssh/id_rsa", "xylophone"), ("a.pdf", "x")]);
        assert!(content(&archive, "a.zip", "home/.ssh/id_rsa").is_err());
        assert_eq!(
            content(mail(["p.pdf", "p.pdf"]).as_bytes(), "m.eml", "p.pdf").unwrap_err(),
            Reason::UnsupportedType
        );
    }

    #[test]
    fn only_the_wanted_member_is_inflated() {
        let large = "x".repeat(2_000);
        let archive = zipped(&[("a.pdf", &large), ("b.pdf", "small")]);
        let limits = ExtractLimits { inflated_bytes: 1_000, ..ExtractLimits::default() };
        let find = |member| member_content(Input { bytes: &archive, name: "a.zip" }, member, &limits);
        assert_eq!(find("b.pdf").unwrap(), b"small");
        assert_eq!(find("a.pdf").unwrap_err().reason, Reason::DecompressionLimit);
    }
}
