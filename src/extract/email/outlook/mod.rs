//! Reader of Outlook messages (msg), which are compound files of properties; attachments are read as archive members.
//!
//! Appointments, tasks and notes are read as messages too. Recipients are extracted in the form that the message displays.

mod compressed_rtf;

use std::io::{Cursor, Read};

use cfb::CompoundFile;

use crate::extract::archive::ReadMember;
use crate::extract::office::ooxml::push_metadata;
use crate::extract::office::rtf;
use crate::extract::{Input, ReadResult, Sink, html, new_failure};
use crate::model::{Anchor, BlockKind, ExtractFailure, FileState, Reason};

/// Maximum depth of attached messages; deeper messages are not read. The limit bounds the recursion over attached messages,
/// which are all in the same file.
const MAX_NESTED_MESSAGES: u32 = 8;

/// Numbers of the MAPI properties that are read.
const SUBJECT: u16 = 0x0037;
const SENDER_NAME: u16 = 0x0C1A;
const SENDER_ADDRESS: u16 = 0x0C1F;
const SENDER_SMTP: u16 = 0x5D01;
const TO: u16 = 0x0E04;
const CC: u16 = 0x0E03;
const BODY: u16 = 0x1000;
const BODY_HTML: u16 = 0x1013;
const BODY_RTF: u16 = 0x1009;
const ATTACHMENT_DATA: u16 = 0x3701;
const ATTACHMENT_SHORT_NAME: u16 = 0x3704;
const ATTACHMENT_NAME: u16 = 0x3707;
const SUBMIT_TIME: u16 = 0x0039;
const DELIVERY_TIME: u16 = 0x0E06;
const CODE_PAGE: u16 = 0x3FFD;
const INTERNET_CODE_PAGE: u16 = 0x3FDE;

/// Adds a message to the sink. The function `member` reads each attachment by its type.
pub(crate) fn read(input: Input<'_>, sink: &mut Sink, member: &mut ReadMember<'_>) -> ReadResult {
    let file = CompoundFile::open(Cursor::new(input.bytes))
        .map_err(|error| new_failure(Reason::Damaged, format!("compound file: {error}")))?;
    let mut message = Message { file };
    if !message.file.exists("/__properties_version1.0") {
        return Err(new_failure(Reason::UnsupportedType, "the file is a compound file, but not an Outlook message"));
    }
    message.read("", 0, sink, member)
}

struct Message<'a> {
    file: CompoundFile<Cursor<&'a [u8]>>,
}

impl Message<'_> {
    /// Reads the message in a storage of the compound file; `""` is the storage of the outermost message.
    fn read(&mut self, storage: &str, depth: u32, sink: &mut Sink, member: &mut ReadMember<'_>) -> ReadResult {
        let fixed = self.fixed_properties(storage, depth, sink)?;
        let encoding = code_page_encoding(fixed_value(&fixed, CODE_PAGE));
        let mut text = |number: u16, sink: &mut Sink| self.text_property(storage, number, encoding, sink);
        let subject = text(SUBJECT, sink)?;
        let smtp = text(SENDER_SMTP, sink)?;
        let address = if smtp.is_empty() { text(SENDER_ADDRESS, sink)? } else { smtp };
        let name = text(SENDER_NAME, sink)?;
        let from = match address.contains('@') && address != name {
            true => format!("{name} <{address}>"),
            false => name,
        };
        let (to, cc, body) = (text(TO, sink)?, text(CC, sink)?, text(BODY, sink)?);
        let time = fixed_value(&fixed, SUBMIT_TIME).or_else(|| fixed_value(&fixed, DELIVERY_TIME));
        let sent = time.and_then(unix_seconds);
        sent.into_iter().for_each(|it| sink.record_sent_time(it));
        let date = sent.and_then(date_text).unwrap_or_default();
        let title = subject.clone();
        push_metadata(&[("from", from), ("to", to), ("cc", cc), ("date", date), ("subject", subject)], sink);
        sink.set_title(&title);
        if let Err(failed) = self.read_body(storage, &body, &fixed, sink) {
            record_unread_part("the body", &failed, sink);
        }
        self.read_attachments(storage, depth, sink, member)
    }

    /// Adds the body in the simplest available format: plain text if there is any, else HTML, else RTF.
    fn read_body(&mut self, storage: &str, plain: &str, fixed: &[u8], sink: &mut Sink) -> ReadResult {
        let mark = sink.block_count();
        if !plain.trim().is_empty() {
            for paragraph in plain.replace("\r\n", "\n").split("\n\n") {
                sink.push(BlockKind::Paragraph, paragraph, Anchor::default());
            }
        } else if let Some(bytes) = self.read_stream(&format!("{storage}/__substg1.0_{BODY_HTML:04X}0102"), sink)? {
            match fixed_value(fixed, INTERNET_CODE_PAGE) {
                Some(page) => html::read_text(&code_page_encoding(Some(page)).decode(&bytes).0, sink),
                // Without a code page in the message, the charset that the HTML declares applies.
                None => html::read(Input { bytes: &bytes, name: "body.html" }, sink)?,
            }
        } else {
            let page = self.text_property(storage, BODY_HTML, encoding_rs::UTF_8, sink)?;
            if page.is_empty() {
                return self.read_rtf_body(storage, sink);
            }
            html::read_text(&page, sink);
        }
        sink.label_part(mark, "body");
        Ok(())
    }

    fn read_rtf_body(&mut self, storage: &str, sink: &mut Sink) -> ReadResult {
        match self.read_stream(&format!("{storage}/__substg1.0_{BODY_RTF:04X}0102"), sink)? {
            Some(bytes) => {
                let rtf = sink.inflate_entry(Cursor::new(compressed_rtf::decompress(&bytes)), bytes.len() as u64)?;
                rtf::read(Input { bytes: &rtf, name: "body.rtf" }, sink)
            }
            None => Ok(()),
        }
    }

    fn read_attachments(
        &mut self,
        storage: &str,
        depth: u32,
        sink: &mut Sink,
        member: &mut ReadMember<'_>,
    ) -> ReadResult {
        for Attachment { place, label } in self.list_attachments(storage, sink)? {
            let inner = nested_message_path(&place);
            let is_message = self.is_message(&inner);
            if let Err(failed) = sink.enter_member(&label) {
                record_unread_part(&format!("attachment `{label}`"), &failed, sink);
                return Ok(());
            }
            let result = match is_message {
                true if depth >= MAX_NESTED_MESSAGES => {
                    Err(new_failure(Reason::TooDeep, "attached messages are nested too deep"))
                }
                true => self.read(&inner, depth + 1, sink, member),
                false => match self.read_stream(&format!("{place}/__substg1.0_{ATTACHMENT_DATA:04X}0102"), sink) {
                    Ok(Some(bytes)) => member(Input { bytes: &bytes, name: &label }, sink),
                    Ok(None) => Ok(()),
                    Err(failed) => Err(failed),
                },
            };
            sink.leave_member();
            if let Err(failed) = result {
                record_unread_part(&format!("attachment `{label}`"), &failed, sink);
                if failed.reason == Reason::DecompressionLimit {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Returns the attachments of a message, and adds their names as metadata.
    fn list_attachments(&mut self, storage: &str, sink: &mut Sink) -> ReadResult<Vec<Attachment>> {
        let root = if storage.is_empty() { "/" } else { storage };
        let Ok(entries) = self.file.read_storage(root) else { return Ok(Vec::new()) };
        let storages: Vec<String> =
            entries.map(|it| it.name().to_string()).filter(|it| it.starts_with("__attach")).collect();
        let (mut attached, mut names) = (Vec::with_capacity(storages.len()), Vec::new());
        for name in storages {
            let place = format!("{storage}/{name}");
            let mut label = self.text_property(&place, ATTACHMENT_NAME, encoding_rs::WINDOWS_1252, sink)?;
            if label.is_empty() {
                label = self.text_property(&place, ATTACHMENT_SHORT_NAME, encoding_rs::WINDOWS_1252, sink)?;
            }
            if !label.is_empty() {
                sink.record_name(&label);
                names.push(label.clone());
            } else if self.is_message(&nested_message_path(&place)) {
                label = "message.msg".to_string();
            } else {
                label = name;
            }
            attached.push(Attachment { place, label });
        }
        push_metadata(&[("attachments", names.join(", "))], sink);
        Ok(attached)
    }

    fn is_message(&self, storage: &str) -> bool {
        self.file.exists(format!("{storage}/__properties_version1.0"))
    }

    /// Reads a stream of the compound file; returns `None` if it is missing or damaged.
    fn read_stream(&mut self, path: &str, sink: &mut Sink) -> ReadResult<Option<Vec<u8>>> {
        let Ok(mut stream) = self.file.open_stream(path) else { return Ok(None) };
        match sink.read_uncompressed(stream.by_ref()) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(failed) if failed.reason == Reason::Damaged => Ok(None),
            Err(failed) => Err(failed),
        }
    }

    /// Returns a text property, which is stored in UTF-16 or in the given encoding; empty if it is missing.
    fn text_property(
        &mut self,
        storage: &str,
        number: u16,
        encoding: &'static encoding_rs::Encoding,
        sink: &mut Sink,
    ) -> ReadResult<String> {
        if let Some(bytes) = self.read_stream(&format!("{storage}/__substg1.0_{number:04X}001F"), sink)? {
            return Ok(encoding_rs::UTF_16LE.decode_without_bom_handling(&bytes).0.trim_end_matches('\0').to_string());
        }
        let bytes = self.read_stream(&format!("{storage}/__substg1.0_{number:04X}001E"), sink)?.unwrap_or_default();
        Ok(encoding.decode_without_bom_handling(&bytes).0.trim_end_matches('\0').to_string())
    }

    /// Returns the fixed-size properties of a message: records of 16 bytes, without the header before them.
    fn fixed_properties(&mut self, storage: &str, depth: u32, sink: &mut Sink) -> ReadResult<Vec<u8>> {
        let bytes = self.read_stream(&format!("{storage}/__properties_version1.0"), sink)?.unwrap_or_default();
        let header = if depth == 0 { 32 } else { 24 };
        Ok(bytes.get(header..).unwrap_or_default().to_vec())
    }
}

/// The location and the name of an attachment.
struct Attachment {
    /// Path of the attachment's storage in the compound file.
    place: String,
    /// File name of the attachment, or a substitute if it has none.
    label: String,
}

/// Returns the storage path of an attached message, given the path of the attachment.
fn nested_message_path(place: &str) -> String {
    format!("{place}/__substg1.0_{ATTACHMENT_DATA:04X}000D")
}

/// Records that a part of a message could not be read; the other parts are still read.
fn record_unread_part(part: &str, failed: &ExtractFailure, sink: &mut Sink) {
    if failed.reason.state() == FileState::Failed {
        sink.record_problem(format!("{part}: {}", failed.detail));
    }
    if failed.reason == Reason::DecompressionLimit {
        sink.mark_truncated();
    }
}

/// Returns the value of a fixed-size property as eight little-endian bytes; `None` if the property is missing.
fn fixed_value(records: &[u8], number: u16) -> Option<u64> {
    let record = records.chunks_exact(16).find(|it| it[2..4] == number.to_le_bytes())?;
    Some(u64::from_le_bytes(record[8..16].try_into().ok()?))
}

fn code_page_encoding(code_page: Option<u64>) -> &'static encoding_rs::Encoding {
    // Uses only the lower 32 bits, which hold the code page; the upper bits of the field are undefined.
    rtf::encoding_of_code_page((code_page.unwrap_or(1252) & 0xFFFF_FFFF) as i32)
}

/// Converts a FILETIME (100 ns units since 1601) to seconds since 1970.
fn unix_seconds(ticks: u64) -> Option<i64> {
    const SECONDS_TO_1970: i64 = 11_644_473_600;
    Some(i64::try_from(ticks / 10_000_000).ok()? - SECONDS_TO_1970)
}

fn date_text(seconds: i64) -> Option<String> {
    let moment = chrono::DateTime::from_timestamp(seconds, 0)?;
    Some(moment.format("%Y-%m-%d %H:%M UTC").to_string())
}

#[cfg(test)]
mod tests;
