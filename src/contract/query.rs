//! QUERY: exact boolean filters over metadata. The catalog is asked for the columns that the filter names and for nothing
//! else; only a filter over facts has documents read that nobody has read before.

use serde_json::{Map, Value, json};

use crate::catalog::Column;
use crate::contract::answer::{Answer, Unknown};
use crate::contract::dates;
use crate::contract::filter::{Datum, Filter, Origin};
use crate::contract::refusal::{Cause, Outcome, Refusal};
use crate::contract::select::{self, Sight, columns};
use crate::contract::validate::Request;
use crate::contract::{Contract, Done, SYNCHRONOUS, UNASKED, result_id, too_many};
use crate::index::blocking;
use crate::model::{FileId, FileRecord};

/// What a sieve found.
struct Found {
    ids: Vec<FileId>,
    /// Files of the view.
    seen: usize,
    /// Files of it that lack one of the fields.
    lacking: usize,
}

impl Contract {
    /// The verb.
    pub(crate) async fn query(&self, request: &Request, patient: bool) -> Outcome<Done> {
        if patient {
            return Ok(Done::Later(0));
        }
        let unread = self.unread(request).await?;
        match unread.len() {
            0 => self.sift(request).await,
            many if many > UNASKED => Err(too_many(many)),
            many if many > SYNCHRONOUS => Ok(Done::Later(many)),
            _ => self.read_and_sift(request, unread).await,
        }
    }

    /// As [`Contract::query`], in a job.
    pub(crate) async fn query_at_leisure(&self, request: &Request) -> Outcome<Done> {
        let unread = self.unread(request).await?;
        self.read_and_sift(request, unread).await
    }

    async fn read_and_sift(&self, request: &Request, unread: Vec<FileId>) -> Outcome<Done> {
        self.read_all(&unread).await?;
        self.sift(request).await
    }

    /// Files of the view whose facts a filter needs and nobody knows.
    async fn unread(&self, request: &Request) -> Outcome<Vec<FileId>> {
        let selection = self.selection(request).await?;
        let mut filters = selection.filters.clone();
        filters.push(Filter::parse(request.text("filter").unwrap_or_default())?);
        self.unknown(&selection, &filters).await
    }

    async fn sift(&self, request: &Request) -> Outcome<Done> {
        let selection = self.selection(request).await?;
        let filter = Filter::parse(request.text("filter").unwrap_or_default())?;
        let view = selection.shown.clone();
        let (reader, own) = (self.reader.clone(), filter.clone());
        let (most, offset) = request.page();
        let found = blocking(move || {
            let facts = reader.facts()?;
            let mut filters = selection.filters.clone();
            filters.push(own.clone());
            let wanted = columns(&filters);
            let (mut seen, mut lacking) = (0, 0);
            let ids = reader.parts.catalog.sieve(&selection.base, &wanted, |row| {
                if !select::selects(&selection, row, &wanted, &facts) {
                    return false;
                }
                seen += 1;
                let mut sight = Sight { row, columns: &wanted, facts: None };
                sight.facts = sight.hash().and_then(|it| facts.get(&it));
                lacking += usize::from(own.fields().iter().any(|it| sight.datum(it).is_none()));
                own.matches(&|field| sight.datum(field))
            })?;
            let page: Vec<FileId> = ids.iter().skip(offset).take(most).copied().collect();
            let records = reader.parts.catalog.records(&page)?;
            let shown =
                records.iter().map(|it| shown(it, &own, it.hash.and_then(|it| facts.get(&it)))).collect::<Vec<_>>();
            Ok((Found { ids, seen, lacking }, shown))
        });
        let (found, shown) = found.await?;
        if found.seen == 0 {
            return Err(Refusal::new(Cause::EmptyView, "the view holds no document")
                .field("view")
                .action("INGEST documents first"));
        }
        Ok(answered(request, view, &found, shown))
    }
}

fn answered(request: &Request, view: Value, found: &Found, shown: Vec<Value>) -> Done {
    let mut answer = Answer::new("exact boolean evaluation; a comparison with a missing value is false");
    let (most, offset) = request.page();
    let left = found.ids.len().saturating_sub(offset + shown.len());
    if left > 0 {
        answer.unknown(Unknown::new("more_objects", left).detail(format!("go on at offset {}", offset + most)));
    }
    if found.lacking > 0 {
        answer.unknown(Unknown::new("no_value", found.lacking).detail("documents without one of the fields"));
    }
    answer.coverage = Some((found.seen - found.lacking) as f64 / found.seen as f64);
    answer.data = json!({"count": found.ids.len(), "documents_in_view": found.seen, "documents": shown});
    let state = format!("{:?} {}", found.ids, answer.data);
    let id = result_id(&request.canonical(), &state);
    Done::Answer { id, view, coverage: 1.0, answer: Box::new(answer) }
}

/// A document with the fields that the filter asked about.
fn shown(record: &FileRecord, filter: &Filter, facts: Option<&crate::contract::facts::Facts>) -> Value {
    let mut row = Map::from_iter([
        ("file".to_string(), json!(record.id)),
        ("path".to_string(), json!(record.found.path.to_string_lossy())),
    ]);
    for field in filter.fields() {
        let value = match field.origin {
            Origin::Fact(name) => match facts.and_then(|it| it.datum(name)) {
                Some(Datum::Text(text)) => json!(text),
                Some(Datum::Number(number)) => json!(number as i64),
                Some(Datum::Flag(flag)) => json!(flag),
                Some(Datum::Moment(moment)) => json!(dates::day_of(moment)),
                None => Value::Null,
            },
            Origin::Catalog(column) => of_record(record, column),
        };
        row.insert(field.name.into(), value);
    }
    Value::Object(row)
}

fn of_record(record: &FileRecord, column: Column) -> Value {
    match column {
        Column::Path => json!(record.found.path.to_string_lossy()),
        Column::Name => json!(record.found.path.file_name().map(|it| it.to_string_lossy())),
        Column::Extension => json!(record.extension),
        Column::Size => json!(record.found.size),
        Column::Modified => json!(dates::day_of(record.found.modified_ns)),
        Column::Kind => json!(record.kind),
        Column::MediaType => json!(record.media_type),
        Column::State => json!(record.state),
        Column::Reason => json!(record.reason),
        Column::Owner => json!(record.owner),
        Column::Chunks => json!(record.chunks),
        Column::Hash => Value::Null,
    }
}
