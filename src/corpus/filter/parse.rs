//! Parses filters over metadata, e.g. `year>=2020 AND has_abstract`.

use globset::GlobBuilder;

use crate::corpus::api::error::{ApiError, ApiErrorKind, ApiResult};
use crate::corpus::filter::evaluate::{FieldComparison, FieldValue, Filter, FilterOperand};
use crate::corpus::filter::fields::{FILTER_FIELDS, FieldType, FilterField, field_by_name};
use crate::corpus::text::dates;
use crate::corpus::text::words::truncate_to_line;
use crate::filter::{Comparison, FilterError, Operator, parse_filter, unquoted_words};
use crate::model::MAX_GLOB;

/// Words in conditions about the meaning of a text, which filters do not support.
const SEMANTIC_WORDS: &[&str] = &[
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

impl Filter {
    /// Parses a filter.
    pub(crate) fn parse(text: &str) -> ApiResult<Filter> {
        let mut fields = Vec::new();
        let parsed = parse_filter(text, &mut |comparison| parse_comparison(comparison, &mut fields));
        match parsed {
            Ok(root) => Ok(Filter { root, fields }),
            Err(_) if text.contains('~') || unquoted_words(text).iter().any(|it| is_semantic(it)) => {
                Err(semantic_filter_error())
            }
            Err(refusal) if refusal.message.starts_with("unexpected") => {
                Err(refusal.action("put a value of several words in quotes, e.g. title=\"Tide gauges\""))
            }
            Err(refusal) => Err(refusal),
        }
    }
}

fn parse_comparison(comparison: Comparison, fields: &mut Vec<&'static FilterField>) -> ApiResult<FieldComparison> {
    let Comparison { field: name, is_quoted, condition: given } = comparison;
    if is_quoted {
        return Err(invalid_filter(format!("a field is missing before `{}`", truncate_to_line(&name, 40))));
    }
    let field = field_by_name(&name).ok_or_else(|| {
        let names: Vec<&str> = FILTER_FIELDS.iter().map(|it| it.name).collect();
        ApiError::unknown_name(ApiErrorKind::UnknownField, "metadata field", &name, &names).field("filter")
    })?;
    if !fields.contains(&field) {
        fields.push(field);
    }
    match given {
        Some((operator, value)) => {
            Ok(FieldComparison { field, operator, wanted: parse_operand(field, operator, &value)? })
        }
        None if field.kind == FieldType::Flag => {
            Ok(FieldComparison { field, operator: Operator::Equal, wanted: FilterOperand::Is(FieldValue::Flag(true)) })
        }
        None => Err(invalid_filter(format!("`{name}` needs an operator and a value"))),
    }
}

impl From<FilterError> for ApiError {
    fn from(mistake: FilterError) -> ApiError {
        invalid_filter(mistake.0)
    }
}

/// Returns whether a word asks for meaning; also matches names such as `argues_against`.
fn is_semantic(word: &str) -> bool {
    word.to_lowercase().split('_').any(|it| SEMANTIC_WORDS.contains(&it))
}

fn semantic_filter_error() -> ApiError {
    ApiError::new(ApiErrorKind::SemanticFilter, "a filter compares metadata only, not the meaning of texts")
        .field("filter")
        .action("filter by metadata, e.g. title=*tides*, then use EXTRACT or COMPARE on the view")
        .action("to search by meaning, use `vic ask`")
}

fn invalid_filter(message: impl Into<String>) -> ApiError {
    ApiError::new(ApiErrorKind::InvalidFilter, message)
        .field("filter")
        .action("write e.g. content_type=academic AND (year>=2020 OR NOT has_abstract)")
}

fn parse_operand(field: &FilterField, operator: Operator, value: &str) -> ApiResult<FilterOperand> {
    let mistyped = |what: &str| {
        ApiError::new(ApiErrorKind::TypeError, format!("`{}` must be compared with {what}, not `{value}`", field.name))
            .field("filter")
            .action(format!("compare `{}` with {what}", field.name))
    };
    let datum = match field.kind {
        FieldType::Text | FieldType::Flag if !operator.is_equality() => {
            let refusal = ApiError::new(
                ApiErrorKind::TypeError,
                format!("`{}` has no order, so `<` and `>` do not apply", field.name),
            );
            return Err(refusal.field("filter").action("use = or !="));
        }
        // Reject a long pattern with `*`, because it would make the matcher panic.
        FieldType::Text if value.contains('*') && value.len() > MAX_GLOB => {
            return Err(invalid_filter(format!(
                "a value with `*` has {} bytes, but at most {MAX_GLOB} are allowed",
                value.len()
            )));
        }
        FieldType::Text if value.contains('*') => {
            let glob = GlobBuilder::new(value).case_insensitive(true).build();
            return glob
                .map(|it| FilterOperand::Glob(it.compile_matcher()))
                .map_err(|error| invalid_filter(error.to_string()));
        }
        FieldType::Text if field.name == "extension" => FieldValue::Text(value.trim_start_matches('.').to_string()),
        FieldType::Text => FieldValue::Text(value.to_string()),
        FieldType::Number => {
            let number = value.parse().ok().filter(|it: &f64| it.is_finite());
            FieldValue::Number(number.ok_or_else(|| mistyped("a number"))?)
        }
        FieldType::Moment => {
            let moment = dates::parse_since(value, dates::now_ns());
            FieldValue::Moment(moment.ok_or_else(|| mistyped("a date such as 2024-01-31, or \"7 days\""))?)
        }
        FieldType::Flag => match value.to_lowercase().as_str() {
            "true" | "yes" | "1" => FieldValue::Flag(true),
            "false" | "no" | "0" => FieldValue::Flag(false),
            _ => return Err(mistyped("true or false")),
        },
    };
    Ok(FilterOperand::Is(datum))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_ago_is_a_moment() {
        for filter in ["modified>=yesterday", "modified>7d", "published_at < \"2 weeks\" AND size>0"] {
            assert!(Filter::parse(filter).is_ok(), "{filter}");
        }
        assert_eq!(format!("{:?}", Filter::parse("extension=.md")), format!("{:?}", Filter::parse("extension=md")));
        let split = Filter::parse("modified>=7 days").unwrap_err();
        assert!(split.kind == ApiErrorKind::TypeError && split.message.contains("\"7 days\""), "{split:?}");
        let split = Filter::parse("title=Tide gauges").unwrap_err();
        assert!(split.kind == ApiErrorKind::InvalidFilter && split.actions[1].contains("quotes"), "{split:?}");
    }

    #[test]
    fn invalid_filter_is_rejected_with_reason() {
        for (filter, cause) in [
            ("", ApiErrorKind::InvalidFilter),
            ("citations >", ApiErrorKind::InvalidFilter),
            ("citations", ApiErrorKind::InvalidFilter),
            ("(citations>5", ApiErrorKind::InvalidFilter),
            ("citations>5)", ApiErrorKind::InvalidFilter),
            ("citations>5 year>3", ApiErrorKind::InvalidFilter),
            ("AND citations>5", ApiErrorKind::UnknownField),
            ("title=\"open", ApiErrorKind::InvalidFilter),
            ("citation_cont>5", ApiErrorKind::UnknownField),
            ("citations>many", ApiErrorKind::TypeError),
            ("has_abstract=maybe", ApiErrorKind::TypeError),
            ("content_type>academic", ApiErrorKind::TypeError),
            ("modified>soon", ApiErrorKind::TypeError),
            ("text argues against regulation", ApiErrorKind::SemanticFilter),
            ("introduces transformers", ApiErrorKind::SemanticFilter),
            ("content ~ transformers", ApiErrorKind::SemanticFilter),
            ("argues_against=tax", ApiErrorKind::SemanticFilter),
            ("similar_to(\"x\")", ApiErrorKind::SemanticFilter),
            ("has_abstract>3", ApiErrorKind::TypeError),
            ("year>=abc", ApiErrorKind::TypeError),
            ("year>=NaN", ApiErrorKind::TypeError),
            (&"(".repeat(200), ApiErrorKind::InvalidFilter),
        ] {
            assert_eq!(Filter::parse(filter).unwrap_err().kind, cause, "{filter}");
        }
        let long = format!("title=*{}", "?".repeat(500_000));
        assert_eq!(Filter::parse(&long).unwrap_err().kind, ApiErrorKind::InvalidFilter);
    }
}
