//! Conversions of directory entries, catalog records, filters and extracted text between model and wire types.

use crate::error::{Error, Result};
use crate::model;
use crate::proto::convert::{WireEnum, decode_path, encode_path, into_all, missing_field_error, try_into_all};
use crate::proto::wire;

impl From<model::FoundFile> for wire::FoundFile {
    fn from(it: model::FoundFile) -> wire::FoundFile {
        let (path, path_bytes) = encode_path(&it.path);
        wire::FoundFile {
            path,
            path_bytes,
            size: it.size,
            modified_ns: it.modified_ns,
            changed_ns: it.changed_ns,
            created_ns: it.created_ns,
            inode: it.inode,
            device: it.device,
            mode: it.mode,
            uid: it.uid,
            skip: it.skip.map_or(0, WireEnum::encode),
        }
    }
}

impl TryFrom<wire::FoundFile> for model::FoundFile {
    type Error = Error;

    fn try_from(it: wire::FoundFile) -> Result<model::FoundFile> {
        Ok(model::FoundFile {
            path: decode_path(it.path, it.path_bytes),
            size: it.size,
            modified_ns: it.modified_ns,
            changed_ns: it.changed_ns,
            created_ns: it.created_ns,
            inode: it.inode,
            device: it.device,
            mode: it.mode,
            uid: it.uid,
            skip: WireEnum::decode(it.skip)?,
        })
    }
}

impl From<model::FileRecord> for wire::FileRecord {
    fn from(it: model::FileRecord) -> wire::FileRecord {
        let (root, root_bytes) = encode_path(&it.root);
        wire::FileRecord {
            id: it.id,
            root_id: it.root_id,
            root,
            root_bytes,
            found: Some(it.found.into()),
            extension: it.extension,
            kind: it.kind.encode(),
            media_type: it.media_type,
            owner: it.owner,
            hash: it.hash.map(|hash| hash.0.to_vec()).unwrap_or_default(),
            state: it.state.encode(),
            reason: it.reason.map_or(0, WireEnum::encode),
            detail: it.detail,
            chunks: it.chunks,
            tries: it.tries,
            mail: it.mail.map(Into::into),
        }
    }
}

impl TryFrom<wire::FileRecord> for model::FileRecord {
    type Error = Error;

    fn try_from(it: wire::FileRecord) -> Result<model::FileRecord> {
        let hash = match it.hash.len() {
            0 => None,
            _ => Some(model::ContentHash(it.hash.try_into().map_err(|_| Error::invalid("hash is not 32 bytes long"))?)),
        };
        Ok(model::FileRecord {
            id: it.id,
            root_id: it.root_id,
            root: decode_path(it.root, it.root_bytes),
            found: it.found.ok_or_else(|| missing_field_error("found"))?.try_into()?,
            extension: it.extension,
            kind: WireEnum::require(it.kind)?,
            media_type: it.media_type,
            owner: it.owner,
            hash,
            state: WireEnum::require(it.state)?,
            reason: WireEnum::decode(it.reason)?,
            detail: it.detail,
            chunks: it.chunks,
            tries: it.tries,
            mail: it.mail.map(Into::into),
        })
    }
}

impl From<model::MailFacts> for wire::MailFacts {
    fn from(it: model::MailFacts) -> wire::MailFacts {
        let (first_sent_ns, last_sent_ns) = it.sent_ns.unzip();
        wire::MailFacts { subject: it.subject, senders: it.senders, first_sent_ns, last_sent_ns }
    }
}

impl From<wire::MailFacts> for model::MailFacts {
    fn from(it: wire::MailFacts) -> model::MailFacts {
        let sent_ns = it.first_sent_ns.zip(it.last_sent_ns);
        model::MailFacts { subject: it.subject, senders: it.senders, sent_ns }
    }
}

impl From<model::FileFilter> for wire::FileFilter {
    fn from(it: model::FileFilter) -> wire::FileFilter {
        let (under, under_bytes) = it.under.as_deref().map(encode_path).unwrap_or_default();
        wire::FileFilter {
            under,
            under_bytes,
            extensions: it.extensions,
            path_glob: it.path_glob,
            name_words: it.name_words,
            modified_after_ns: it.modified_after_ns,
            modified_before_ns: it.modified_before_ns,
            min_size: it.min_size,
            max_size: it.max_size,
            owner: it.owner,
            language: it.language,
            author: it.author,
            state: it.state.map_or(0, WireEnum::encode),
            reason: it.reason.map_or(0, WireEnum::encode),
        }
    }
}

impl TryFrom<wire::FileFilter> for model::FileFilter {
    type Error = Error;

    fn try_from(it: wire::FileFilter) -> Result<model::FileFilter> {
        Ok(model::FileFilter {
            under: Some(decode_path(it.under, it.under_bytes)).filter(|path| !path.as_os_str().is_empty()),
            extensions: it.extensions,
            path_glob: it.path_glob,
            name_words: it.name_words,
            modified_after_ns: it.modified_after_ns,
            modified_before_ns: it.modified_before_ns,
            min_size: it.min_size,
            max_size: it.max_size,
            owner: it.owner,
            language: it.language,
            author: it.author,
            state: WireEnum::decode(it.state)?,
            reason: WireEnum::decode(it.reason)?,
            // Leave the other conditions unset: only questions use them, so the wire message has no fields for them.
            ..model::FileFilter::default()
        })
    }
}

impl From<model::Anchor> for wire::Anchor {
    fn from(it: model::Anchor) -> wire::Anchor {
        wire::Anchor {
            page: it.page,
            line_start: it.line_start,
            line_end: it.line_end,
            byte_start: it.byte_start,
            byte_end: it.byte_end,
            sheet: it.sheet,
            cell: it.cell,
            part: it.part,
            member: it.member,
            symbol: it.symbol,
            region: it.region.map(Into::into),
            verbatim: it.verbatim,
        }
    }
}

impl From<wire::Anchor> for model::Anchor {
    fn from(it: wire::Anchor) -> model::Anchor {
        model::Anchor {
            page: it.page,
            line_start: it.line_start,
            line_end: it.line_end,
            byte_start: it.byte_start,
            byte_end: it.byte_end,
            sheet: it.sheet,
            cell: it.cell,
            part: it.part,
            member: it.member,
            symbol: it.symbol,
            region: it.region.map(Into::into),
            verbatim: it.verbatim,
            gaps: Vec::new(),
        }
    }
}

impl From<model::Block> for wire::Block {
    fn from(it: model::Block) -> wire::Block {
        let (kind, heading_level) = match it.kind {
            model::BlockKind::Heading(level) => (wire::BlockKind::Heading, level.into()),
            model::BlockKind::Paragraph => (wire::BlockKind::Paragraph, 0),
            model::BlockKind::ListItem => (wire::BlockKind::ListItem, 0),
            model::BlockKind::Table => (wire::BlockKind::Table, 0),
            model::BlockKind::Code => (wire::BlockKind::Code, 0),
            model::BlockKind::Metadata => (wire::BlockKind::Metadata, 0),
        };
        wire::Block { kind: kind as i32, heading_level, text: it.text, anchor: Some(it.anchor.into()), rows: it.rows }
    }
}

impl TryFrom<wire::Block> for model::Block {
    type Error = Error;

    fn try_from(it: wire::Block) -> Result<model::Block> {
        let kind = match wire::BlockKind::try_from(it.kind) {
            // Do not reject a heading with an invalid level: its text is still useful.
            Ok(wire::BlockKind::Heading) => model::BlockKind::Heading(u8::try_from(it.heading_level).unwrap_or(6)),
            Ok(wire::BlockKind::ListItem) => model::BlockKind::ListItem,
            Ok(wire::BlockKind::Table) => model::BlockKind::Table,
            Ok(wire::BlockKind::Code) => model::BlockKind::Code,
            Ok(wire::BlockKind::Metadata) => model::BlockKind::Metadata,
            Ok(wire::BlockKind::Paragraph | wire::BlockKind::Unspecified) | Err(_) => model::BlockKind::Paragraph,
        };
        let anchor = it.anchor.map(Into::into).unwrap_or_default();
        Ok(model::Block { kind, text: it.text, anchor, rows: it.rows })
    }
}

impl From<model::Document> for wire::Document {
    fn from(it: model::Document) -> wire::Document {
        wire::Document {
            title: it.title,
            media_type: it.media_type,
            blocks: into_all(it.blocks),
            problems: it.problems,
            truncated: it.truncated,
            pages: it.pages,
            pages_without_text: it.pages_without_text,
        }
    }
}

impl TryFrom<wire::Document> for model::Document {
    type Error = Error;

    fn try_from(it: wire::Document) -> Result<model::Document> {
        Ok(model::Document {
            title: it.title,
            media_type: it.media_type,
            blocks: try_into_all(it.blocks)?,
            problems: it.problems,
            truncated: it.truncated,
            pages: it.pages,
            pages_without_text: it.pages_without_text,
            // Links and names are not sent: only the graph and the catalog, inside the daemon, use them.
            ..model::Document::default()
        })
    }
}
