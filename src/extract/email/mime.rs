//! Reader of mail: single messages (eml) and mailboxes (mbox). An attachment is read by the reader of its own type.
//!
//! Signatures are not checked, and encrypted parts are not decrypted.

use std::borrow::Cow;

use mail_parser::decoders::base64::base64_decode;
use mail_parser::decoders::charsets::map::charset_decoder;
use mail_parser::decoders::quoted_printable::quoted_printable_decode;
use mail_parser::{Address, Encoding, HeaderValue, Message, MessageParser, MessagePart, MimeHeaders, PartType};

use crate::extract::encoding::{decode, decode_wide};
use crate::extract::source_text::Source;
use crate::extract::text_formats::plain;
use crate::extract::{Input, ReadResult, Sink, html, new_failure};
use crate::model::{Anchor, Block, BlockKind, LinkKind, Reason};

/// Function that reads an attachment by the type of the attachment; the caller of the mail reader provides it.
pub(crate) type ReadMember<'a> = &'a mut dyn FnMut(Input<'_>, &mut Sink) -> ReadResult;

/// Adds one mail message to the sink.
pub(crate) fn read_eml(input: Input<'_>, sink: &mut Sink, read_member: ReadMember<'_>) -> ReadResult {
    let utf8 = decode_wide(input.bytes);
    let bytes = utf8.as_ref().map_or(input.bytes, String::as_bytes);
    let message = parse_message(bytes).ok_or_else(|| new_failure(Reason::Damaged, "the file is not a mail message"))?;
    read_message(&message, sink, read_member);
    Ok(())
}

/// Adds all messages of a mailbox to the sink. Each message follows a line that begins with `From `.
pub(crate) fn read_mbox(input: Input<'_>, sink: &mut Sink, read_member: ReadMember<'_>) -> ReadResult {
    for (number, bytes) in (1..).zip(split_mailbox(input.bytes)) {
        if sink.is_full() {
            sink.mark_truncated();
            break;
        }
        let mark = sink.block_count();
        match parse_message(bytes) {
            Some(message) => read_message(&message, sink, read_member),
            None => sink.record_problem(format!("message {number} of the mailbox cannot be parsed")),
        }
        sink.label_part(mark, &format!("message {number}"));
    }
    // Removes the title, because it is the subject of the first message and does not describe the whole mailbox.
    if !sink.in_member() {
        sink.document().title = None;
    }
    Ok(())
}

fn parse_message(bytes: &[u8]) -> Option<Message<'_>> {
    MessageParser::default().parse(bytes).filter(|message| !message.parts.is_empty())
}

/// Splits a mailbox into messages: at every line that begins with `From ` and follows a blank line.
fn split_mailbox(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let body = rest.iter().position(|it| *it == b'\n').map(|it| it + 1)?;
        let content = &rest[if rest.starts_with(b"From ") { body } else { 0 }..];
        let separator = |window: &[u8]| window == b"\nFrom ";
        let mut from = 0;
        let end = loop {
            let Some(at) = content[from..].windows(6).position(separator).map(|it| from + it) else {
                break content.len();
            };
            if content[..at].ends_with(b"\n") || content[..at].ends_with(b"\n\r") || at == 0 {
                break at + 1;
            }
            from = at + 1;
        };
        rest = &content[end..];
        Some(&content[..end])
    })
}

fn read_message(message: &Message<'_>, sink: &mut Sink, read_member: ReadMember<'_>) {
    let mark = sink.block_count();
    push_headers(message, sink);
    let stub = is_stub(message, sink);
    for id in if stub { &message.html_body } else { &message.text_body } {
        match message_body(message, *id) {
            Some(Body::Text(text)) => plain::push_paragraphs(&Source::detached(&text), BlockKind::Paragraph, sink),
            Some(Body::Html(page)) => html::read_text(&page, sink),
            None => {}
        }
    }
    if !stub {
        push_html_tables(message, sink);
    }
    sink.label_part(mark, "body");
    for part in message.attachments() {
        read_attachment(message, part, sink, read_member);
    }
}

/// A text or HTML part of the message body.
enum Body<'m> {
    Text(Cow<'m, str>),
    Html(Cow<'m, str>),
}

fn message_body<'m>(message: &'m Message<'_>, id: u32) -> Option<Body<'m>> {
    let part = message.part(id)?;
    let decoded = |text: &'m str| match undeclared_bytes(message, part) {
        Some(bytes) => Cow::Owned(decode(&bytes, None).text.into_owned()),
        None => Cow::Borrowed(text),
    };
    match &part.body {
        PartType::Text(text) => Some(Body::Text(decoded(text))),
        PartType::Html(page) => Some(Body::Html(decoded(page))),
        _ => None,
    }
}

/// Returns the original bytes of a part, so that their encoding can be detected, if the charset is missing or wrong: the
/// mail parser reads such a part as UTF-8 or Latin-1. Returns `None` if the charset is right.
fn undeclared_bytes<'m>(message: &'m Message<'_>, part: &MessagePart<'_>) -> Option<Cow<'m, [u8]>> {
    let (PartType::Text(text) | PartType::Html(text)) = &part.body else { return None };
    let is_ascii = |it: &str| it.eq_ignore_ascii_case("us-ascii") || it.eq_ignore_ascii_case("ascii");
    let doubtful = match part.content_type().and_then(|it| it.attribute("charset")) {
        Some(charset) if is_ascii(charset) => !text.is_ascii() || text.contains('\x1B'),
        Some(charset) if charset_decoder(charset.as_bytes()).is_some() => false,
        _ => text.contains(['\u{FFFD}', '\x1B']),
    };
    if !doubtful {
        return None;
    }
    let raw = message.raw_message.get(part.offset_body as usize..part.offset_end as usize)?;
    match part.encoding {
        Encoding::None => Some(Cow::Borrowed(raw)),
        Encoding::QuotedPrintable => quoted_printable_decode(raw).map(Cow::Owned),
        Encoding::Base64 => base64_decode(raw).map(Cow::Owned),
    }
}

/// Returns whether the plain text version of the body is only a stub: blank, or a line that refers to the HTML version.
fn is_stub(message: &Message<'_>, sink: &Sink) -> bool {
    const MAX_STUB_LETTERS: usize = 200;
    const MIN_LENGTH_RATIO: usize = 10;
    let letters = |text: &str| text.chars().filter(|it| !it.is_whitespace()).count();
    let texts = message.text_body.iter().filter(|it| !message.html_body.contains(it));
    let words: usize = texts.filter_map(|it| message_body(message, *it)).fold(0, |sum, it| match it {
        Body::Text(text) => sum + letters(&text),
        Body::Html(page) => sum + letters(&page),
    });
    if words >= MAX_STUB_LETTERS {
        return false;
    }
    let shown: usize = html_versions(message).flat_map(|it| html_blocks(&it, sink)).map(|it| letters(&it.text)).sum();
    shown > words * MIN_LENGTH_RATIO
}

/// Returns the HTML parts of the body that are alternatives to a plain text part.
fn html_versions<'m>(message: &'m Message<'_>) -> impl Iterator<Item = Cow<'m, str>> {
    let ids = message.html_body.iter().filter(|it| !message.text_body.contains(it));
    ids.filter_map(|it| match message_body(message, *it)? {
        Body::Html(page) => Some(page),
        Body::Text(_) => None,
    })
}

/// Returns the blocks of an HTML page, without adding them to `sink`, whose limits apply.
fn html_blocks(page: &str, sink: &Sink) -> Vec<Block> {
    let mut aside = Sink::new(sink.limits().clone());
    html::read_text(page, &mut aside);
    aside.into_document().blocks
}

/// Adds the data tables of the HTML version, because the plain text version at best has their words, but not their columns.
fn push_html_tables(message: &Message<'_>, sink: &mut Sink) {
    let text = |it: Body<'_>| if let Body::Text(text) = it { Some(text.into_owned()) } else { None };
    let texts: Vec<String> = message.text_body.iter().filter_map(|it| text(message_body(message, *it)?)).collect();
    for page in html_versions(message) {
        if !page.contains("<table") && !page.contains("<TABLE") {
            continue;
        }
        for block in html_blocks(&page, sink) {
            if block.kind == BlockKind::Table && is_data_table(&block.text) && !is_table_in_texts(&block.text, &texts) {
                sink.push(BlockKind::Table, &block.text, Anchor::default());
            }
        }
    }
}

/// Returns whether a table holds data and does not only lay out the page. A data table has several rows and columns,
/// equally long rows and short cells.
fn is_data_table(rows: &str) -> bool {
    const LONGEST_CELL: usize = 200;
    let width = |row: &str| format!(" {row} ").matches(" | ").count() + 1;
    let even = rows.lines().all(|it| Some(width(it)) == rows.lines().next().map(width));
    let short = rows.split(" | ").all(|it| it.len() <= LONGEST_CELL);
    rows.lines().count() > 1 && rows.lines().next().map(width) > Some(1) && even && short
}

/// Returns whether the plain texts contain every row of a table, with bars between the cells.
fn is_table_in_texts(rows: &str, texts: &[String]) -> bool {
    let plain = |row: &str| row.trim().trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>().join("|");
    let lines: std::collections::HashSet<String> = texts.iter().flat_map(|it| it.lines()).map(plain).collect();
    rows.lines().all(|it| lines.contains(&plain(it)))
}

fn push_headers(message: &Message<'_>, sink: &mut Sink) {
    let mut lines = Vec::new();
    let mut line = |key: &str, value: Option<String>| {
        lines.extend(value.filter(|it| !it.trim().is_empty()).map(|value| format!("{key}: {}", value.trim())));
    };
    line("Subject", message.subject().map(str::to_string));
    line("From", message.from().map(address_list));
    line("To", message.to().map(address_list));
    line("Cc", message.cc().map(address_list));
    line("Date", message.date().map(mail_parser::DateTime::to_rfc3339));
    message.date().into_iter().for_each(|it| sink.record_sent_time(it.to_timestamp()));
    let names: Vec<&str> = message.attachments().filter_map(|it| it.attachment_name()).collect();
    line("Attachments", Some(names.join(", ")));
    sink.set_title(message.subject().unwrap_or_default());
    push_thread_links(message, sink);
    sink.push(BlockKind::Metadata, &lines.join("\n"), Anchor::default());
}

/// Records as links the id of a message and the ids of the messages that it replies to.
fn push_thread_links(message: &Message<'_>, sink: &mut Sink) {
    sink.record_link(LinkKind::Message, message.message_id().unwrap_or_default(), "");
    for header in [message.in_reply_to(), message.references()] {
        match header {
            HeaderValue::Text(id) => sink.record_link(LinkKind::Reply, id, ""),
            HeaderValue::TextList(ids) => ids.iter().for_each(|it| sink.record_link(LinkKind::Reply, it, "")),
            _ => {}
        }
    }
}

/// Formats mail addresses as `Name <address>, ...`.
fn address_list(address: &Address<'_>) -> String {
    let person = |it: &mail_parser::Addr<'_>| match (it.name(), it.address()) {
        (Some(name), Some(address)) => format!("{name} <{address}>"),
        (name, address) => name.or(address).unwrap_or_default().to_string(),
    };
    address.iter().map(person).collect::<Vec<_>>().join(", ")
}

fn read_attachment(message: &Message<'_>, part: &MessagePart<'_>, sink: &mut Sink, read_member: ReadMember<'_>) {
    part.attachment_name().into_iter().for_each(|it| sink.record_name(it));
    let name = match (&part.body, part.attachment_name()) {
        (_, Some(name)) => name,
        (PartType::Message(nested), None) => nested.subject().unwrap_or("message"),
        (PartType::Html(_), None) => "attachment.html",
        (PartType::Text(_), None) => "attachment.txt",
        _ => "attachment",
    };
    let mark = sink.block_count();
    let outcome = sink.enter_member(name).and_then(|()| {
        let outcome = match &part.body {
            PartType::Message(nested) => {
                read_message(nested, sink, read_member);
                Ok(())
            }
            _ => {
                let bytes = undeclared_bytes(message, part).unwrap_or_else(|| Cow::Borrowed(part.contents()));
                read_member(Input { bytes: &bytes, name }, sink)
            }
        };
        sink.leave_member();
        outcome
    });
    sink.label_part(mark, &format!("attachment: {name}"));
    if let Err(failed) = outcome
        && !matches!(failed.reason, Reason::UnsupportedType | Reason::Empty | Reason::NoText)
    {
        sink.record_problem(format!("attachment `{name}` was not read: {} {}", failed.reason.name(), failed.detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Document, ExtractLimits};

    fn extract(mail: impl AsRef<[u8]>) -> Document {
        let mut sink = Sink::new(ExtractLimits::default());
        let input = Input { bytes: mail.as_ref(), name: "a.eml" };
        let mut member = |input: Input<'_>, sink: &mut Sink| plain::read(input, sink);
        if input.bytes.starts_with(b"From ") {
            read_mbox(input, &mut sink, &mut member).unwrap();
        } else {
            read_eml(input, &mut sink, &mut member).unwrap();
        }
        sink.into_document()
    }

    fn assert_parts(mail: impl AsRef<[u8]>, expected: &[(&str, &str)]) {
        let document = extract(mail);
        let found: Vec<_> =
            document.blocks.iter().map(|it| (it.anchor.part.as_deref().unwrap(), it.text.as_str())).collect();
        assert_eq!(found, expected);
    }

    const ATTACHED: &str = "Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\nFrom: Ann <ann@example.org>\r\nTo: bob@example.org\r\nDate: Mon, 2 Mar 2026 10:00:00 +0100\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/html\r\n\r\n<p>Hello <b>Bob</b></p>\r\n--b\r\nContent-Type: text/plain; name=\"n.txt\"\r\nContent-Disposition: attachment; filename=\"n.txt\"\r\n\r\nNote.\r\n--b--\r\n";

    #[test]
    fn headers_body_and_attachments_become_parts() {
        assert_parts(
            ATTACHED,
            &[
                (
                    "body",
                    "Subject: Grüße\nFrom: Ann <ann@example.org>\nTo: bob@example.org\nDate: 2026-03-02T10:00:00+01:00\nAttachments: n.txt",
                ),
                ("body", "Hello Bob"),
                ("attachment: n.txt", "Note."),
            ],
        );
        let document = extract(ATTACHED);
        assert_eq!(
            (document.names.as_slice(), document.sent),
            (["n.txt".to_string()].as_slice(), Some((1772442000, 1772442000)))
        );
        assert_eq!(document.title.as_deref(), Some("Grüße"));
        assert_eq!(document.blocks[2].anchor.member.as_deref(), Some("n.txt"));
    }

    /// Makes a mail whose body has a plain text and an HTML version.
    fn alternative_mail(text: &str, page: &str) -> String {
        format!(
            "Subject: s\nMIME-Version: 1.0\nContent-Type: multipart/alternative; boundary=b\n\n--b\nContent-Type: text/plain\n\n{text}\n--b\nContent-Type: text/html\n\n{page}\n--b--\n"
        )
    }

    #[test]
    fn declared_charset_is_used_for_headers_and_body() {
        let mail = b"Subject: =?gb2312?B?xOO6w8rAvec=?=\nMIME-Version: 1.0\nContent-Type: text/plain; charset=iso-2022-jp\n\n\x1B$BF|K\\8l\x1B(B\n";
        assert_parts(mail, &[("body", "Subject: 你好世界"), ("body", "日本語")]);
    }

    #[test]
    fn missing_or_wrong_charset_is_detected() {
        let text = "Завтра утром мы встречаемся на старом мосту.";
        let (bytes, _, _) = encoding_rs::WINDOWS_1251.encode(text);
        for head in ["", "Content-Type: text/plain; charset=us-ascii\n", "Content-Type: text/plain; charset=x-none\n"] {
            let mail = [format!("Subject: s\nMIME-Version: 1.0\n{head}\n").as_bytes(), &bytes].concat();
            assert_parts(mail, &[("body", "Subject: s"), ("body", text)]);
        }
        let mail = "Subject: s\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Transfer-Encoding: quoted-printable\n\nLe caf=E9 est tr=E8s bon ici.\n--b\nContent-Disposition: attachment; filename=n.txt\n\n";
        let mail = [mail.as_bytes(), &bytes, b"\n--b--\n"].concat();
        let head = "Subject: s\nAttachments: n.txt";
        assert_parts(mail, &[("body", head), ("body", "Le café est très bon ici."), ("attachment: n.txt", text)]);
    }

    #[test]
    fn html_version_replaces_stub_text() {
        let page = "The ferry leaves the eastern pier at nine, and at noon from the western one.".repeat(5);
        let html = format!("<p>{page}</p><table><tr><td>Pier<td>4<tr><td>Quay<td>5</table>");
        let read = [("body", "Subject: s"), ("body", page.as_str()), ("body", "Pier | 4\nQuay | 5")];
        for text in ["", " \n\n", "Please view this as HTML."] {
            assert_parts(alternative_mail(text, &html), &read);
        }
        let words = "The ferry leaves at nine from the pier and comes back at noon.";
        assert_parts(alternative_mail(words, &format!("<p>{page}")), &[("body", "Subject: s"), ("body", words)]);
    }

    #[test]
    fn data_table_of_html_version_is_added() {
        let page = "<p>See it.</p><table><tr><th>Site<th>Level<tr><td>Pier<td>4.1</table>";
        let table = ("body", "Site | Level\nPier | 4.1");
        assert_parts(alternative_mail("See it.", page), &[("body", "Subject: s"), ("body", "See it."), table]);
        let written = "| Site | Level |\n| Pier | 4.1 |";
        assert_parts(alternative_mail(written, page), &[("body", "Subject: s"), ("body", written)]);
        let layout = "<table><tr><td>Dear Ann,<tr><td>all is well.</table>";
        assert_parts(alternative_mail("Dear Ann", layout), &[("body", "Subject: s"), ("body", "Dear Ann")]);
    }

    #[test]
    fn utf16_message_is_read() {
        let bytes: Vec<u8> = "\u{FEFF}Subject: s\r\n\r\nBody\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let mut sink = Sink::new(ExtractLimits::default());
        read_eml(Input { bytes: &bytes, name: "a.eml" }, &mut sink, &mut |_, _| Ok(())).unwrap();
        assert_eq!(sink.into_document().text(), "Subject: s\n\nBody");
    }

    #[test]
    fn mailbox_is_split_into_messages() {
        let mail = "From a@b Mon Mar  2 10:00:00 2026\nSubject: One\n\nFirst.\nFrom here on, text.\n\nFrom a@b Mon Mar  2 10:00:00 2026\nSubject: Two\n\nSecond.\n";
        assert_parts(
            mail,
            &[
                ("message 1, body", "Subject: One"),
                ("message 1, body", "First.\nFrom here on, text."),
                ("message 2, body", "Subject: Two"),
                ("message 2, body", "Second."),
            ],
        );
    }

    #[test]
    fn nested_messages_stop_at_depth_limit() {
        let mut mail = "Subject: inner\r\n\r\nText\r\n".to_string();
        for level in 0..10 {
            mail = format!("Subject: level {level}\r\nMIME-Version: 1.0\r\nContent-Type: message/rfc822\r\n\r\n{mail}");
        }
        let document = extract(mail);
        assert!(document.blocks.len() >= 2);
        assert!(document.problems.iter().all(|it| it.contains("too_deep")));
    }
}
