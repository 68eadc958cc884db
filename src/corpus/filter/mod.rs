//! Boolean filters over metadata: `content_type=academic AND (year>=2020 OR NOT has_abstract)`.
//!
//! A comparison with a missing value is neither true nor false, and neither is its negation (Kleene's logic). Such a
//! document does not match, and is counted as undecided. Conditions about meaning are rejected with an error of their own,
//! distinct from typos.

mod fields;
mod parse;

use globset::GlobMatcher;
use serde_json::{Value, json};

use crate::corpus::api::error::ApiResult;
use crate::corpus::text::dates;
use crate::filter::{Node, Operator, equals_ignoring_case};

pub(crate) use crate::corpus::filter::fields::{FILTER_FIELDS, FieldSource, FieldType, FilterField, field_by_name};

/// A value of a document.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FieldValue {
    Text(String),
    Number(f64),
    Flag(bool),
    Moment(i64),
}

impl FieldValue {
    /// The value as shown in an answer: a moment as its day.
    pub(crate) fn value(&self) -> Value {
        match self {
            FieldValue::Text(text) => json!(text),
            FieldValue::Number(number) => json!(*number as i64),
            FieldValue::Flag(flag) => json!(flag),
            FieldValue::Moment(moment) => json!(dates::day_of(*moment)),
        }
    }
}

#[derive(Clone, Debug)]
enum FilterOperand {
    Is(FieldValue),
    /// A text with `*`.
    Glob(GlobMatcher),
}

#[derive(Clone, Debug)]
struct FieldComparison {
    field: &'static FilterField,
    operator: Operator,
    wanted: FilterOperand,
}

/// A parsed filter.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    root: Node<FieldComparison>,
    fields: Vec<&'static FilterField>,
}

impl Filter {
    /// Parses a filter.
    pub(crate) fn parse(text: &str) -> ApiResult<Filter> {
        parse::parse_document_filter(text)
    }

    /// The fields that it reads.
    pub(crate) fn fields(&self) -> &[&'static FilterField] {
        &self.fields
    }

    /// Returns whether a document matches; `None` if a missing value leaves it undecided.
    pub(crate) fn evaluate(&self, value: &dyn Fn(&'static FilterField) -> Option<FieldValue>) -> Option<bool> {
        self.root.evaluate(&|it| value(it.field).map(|datum| compare(&datum, it.operator, &it.wanted)))
    }
}

fn compare(value: &FieldValue, operator: Operator, wanted: &FilterOperand) -> bool {
    match (value, wanted) {
        (FieldValue::Text(text), FilterOperand::Glob(glob)) => glob.is_match(text) == (operator == Operator::Equal),
        (FieldValue::Text(a), FilterOperand::Is(FieldValue::Text(b))) => {
            equals_ignoring_case(a, b) == (operator == Operator::Equal)
        }
        (FieldValue::Number(a), FilterOperand::Is(FieldValue::Number(b))) => operator.accepts(a.total_cmp(b)),
        (FieldValue::Moment(a), FilterOperand::Is(FieldValue::Moment(b))) => operator.accepts(a.cmp(b)),
        (FieldValue::Flag(a), FilterOperand::Is(FieldValue::Flag(b))) => operator.accepts(a.cmp(b)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::api::error::ApiErrorKind;

    fn holds(filter: &str) -> Option<bool> {
        let value = |field: &'static FilterField| match field.name {
            "content_type" => Some(FieldValue::Text("academic".into())),
            "domain_type" => Some(FieldValue::Text(".edu".into())),
            "citation_count" => Some(FieldValue::Number(51.0)),
            "word_count" => Some(FieldValue::Number(5_000.0)),
            "has_abstract" => Some(FieldValue::Flag(true)),
            "has_code_examples" => Some(FieldValue::Flag(false)),
            "modified" => Some(FieldValue::Moment(dates::parse_moment("2024-06-01").unwrap())),
            _ => None,
        };
        Filter::parse(filter).unwrap().evaluate(&value)
    }

    #[test]
    fn filters_are_evaluated_exactly() {
        for (filter, expected) in [
            ("has_abstract AND citations>50", true),
            ("content_type=academic AND has_code_examples", false),
            ("content_type=Academic AND NOT has_code_examples", true),
            ("domain_type=.edu AND word_count>5000", false),
            ("domain_type=.edu AND word_count>=5000", true),
            ("citations!=51 OR (citations<52 AND citations<=51)", true),
            ("NOT (content_type=academic OR has_abstract)", false),
            ("content_type=acad*", true),
            ("content_type!=acad*", false),
            ("has_abstract=false", false),
            ("modified>=2024-06-01 AND modified<2024-06-02", true),
            ("content_type=\"academic\" and citations == 51", true),
            ("NOT NOT has_abstract", true),
        ] {
            assert_eq!(holds(filter), Some(expected), "{filter}");
        }
    }

    #[test]
    fn missing_value_makes_dependent_conditions_undecided() {
        for (filter, expected) in [
            ("year>=2020", None),
            ("NOT year>=2020", None),
            ("year!=2020", None),
            ("has_abstract AND NOT year>=2020", None),
            ("has_code_examples AND year>=2020", Some(false)),
            ("has_abstract OR year>=2020", Some(true)),
            ("has_code_examples OR year>=2020", None),
            ("NOT (has_abstract OR year>=2020)", Some(false)),
            ("year=2020 OR citations!=51 OR (citations<52 AND citations<=51)", Some(true)),
        ] {
            assert_eq!(holds(filter), expected, "{filter}");
        }
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
