//! Parses the comparisons of a filter over metadata.

use globset::GlobBuilder;

use crate::corpus::api::error::{Cause, Outcome, Refusal};
use crate::corpus::filter::{Compare, Datum, FIELDS, Filter, Known, Type, Wanted, known};
use crate::corpus::text::dates;
use crate::filter::{Comparison, Mistake, Operator, parse, words};
use crate::model::MAX_GLOB;

/// Words that ask for meaning.
const SEMANTIC: &[&str] = &[
    "about",
    "argues",
    "believes",
    "claims",
    "conceptually",
    "contains",
    "contradicts",
    "criticises",
    "criticizes",
    "describes",
    "discusses",
    "explains",
    "introduces",
    "like",
    "means",
    "mentions",
    "opposes",
    "recommends",
    "related",
    "resembles",
    "similar",
    "suggests",
    "supports",
];

/// Parses a filter.
pub(super) fn filter(text: &str) -> Outcome<Filter> {
    let mut fields = Vec::new();
    let parsed = parse(text, &mut |comparison| compare(comparison, &mut fields));
    match parsed {
        Ok(root) => Ok(Filter { root, fields }),
        Err(_) if text.contains('~') || words(text).iter().any(|it| is_semantic(it)) => Err(meaning()),
        Err(refusal) => Err(refusal),
    }
}

fn compare(comparison: Comparison, fields: &mut Vec<&'static Known>) -> Outcome<Compare> {
    let Comparison { field: name, is_quoted, wanted: given } = comparison;
    if is_quoted {
        return Err(wrong(format!("a field is missing before `{}`", name.chars().take(40).collect::<String>())));
    }
    let field = known(&name).ok_or_else(|| {
        let names: Vec<&str> = FIELDS.iter().map(|it| it.name).collect();
        Refusal::unknown(Cause::UnknownField, "metadata field", &name, &names).field("filter")
    })?;
    if !fields.contains(&field) {
        fields.push(field);
    }
    match given {
        Some((operator, value)) => Ok(Compare { field, operator, wanted: wanted(field, operator, &value)? }),
        None if field.kind == Type::Flag => {
            Ok(Compare { field, operator: Operator::Equal, wanted: Wanted::Is(Datum::Flag(true)) })
        }
        None => Err(wrong(format!("`{name}` needs an operator and a value"))),
    }
}

impl From<Mistake> for Refusal {
    fn from(mistake: Mistake) -> Refusal {
        wrong(mistake.0)
    }
}

/// Also matches names such as `argues_against`.
fn is_semantic(word: &str) -> bool {
    word.to_lowercase().split('_').any(|it| SEMANTIC.contains(&it))
}

fn meaning() -> Refusal {
    Refusal::new(Cause::SemanticFilter, "a filter reads metadata only; conditions about meaning are reserved for 2.0")
        .field("filter")
        .action("filter by metadata, e.g. title=*tides*, then use EXTRACT or COMPARE on the view")
        .action("for meaning use `vic ask`")
}

fn wrong(message: impl Into<String>) -> Refusal {
    Refusal::new(Cause::InvalidFilter, message)
        .field("filter")
        .action("write e.g. content_type=academic AND (year>=2020 OR NOT has_abstract)")
}

fn wanted(field: &Known, operator: Operator, value: &str) -> Outcome<Wanted> {
    let mistyped = |what: &str| {
        Refusal::new(Cause::TypeError, format!("`{}` is compared with {what}, not `{value}`", field.name))
            .field("filter")
            .action(format!("compare `{}` with {what}", field.name))
    };
    let datum = match field.kind {
        Type::Text | Type::Flag if !operator.is_equality() => {
            let refusal = Refusal::new(Cause::TypeError, format!("`{}` has no order", field.name));
            return Err(refusal.field("filter").action("use = or !="));
        }
        // A longer glob would make the matcher panic.
        Type::Text if value.contains('*') && value.len() > MAX_GLOB => {
            return Err(wrong(format!("a value with `*` has {} bytes, and may have {MAX_GLOB}", value.len())));
        }
        Type::Text if value.contains('*') => {
            let glob = GlobBuilder::new(value).case_insensitive(true).build();
            return glob.map(|it| Wanted::Glob(it.compile_matcher())).map_err(|error| wrong(error.to_string()));
        }
        Type::Text => Datum::Text(value.to_string()),
        Type::Number => {
            let number = value.parse().ok().filter(|it: &f64| it.is_finite());
            Datum::Number(number.ok_or_else(|| mistyped("a number"))?)
        }
        Type::Moment => Datum::Moment(dates::moment(value).ok_or_else(|| mistyped("a date such as 2024-01-31"))?),
        Type::Flag => match value.to_lowercase().as_str() {
            "true" | "yes" | "1" => Datum::Flag(true),
            "false" | "no" | "0" => Datum::Flag(false),
            _ => return Err(mistyped("true or false")),
        },
    };
    Ok(Wanted::Is(datum))
}
