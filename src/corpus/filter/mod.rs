//! Boolean filters over metadata: `content_type=academic AND (year>=2020 OR NOT has_abstract)`.
//!
//! A comparison with a missing value is neither true nor false, and neither is its negation (Kleene's logic). Such a
//! document does not match, and is counted as undecided. Conditions about meaning are rejected with an error of their own,
//! distinct from typos.

mod fields;
mod parse;

use globset::GlobMatcher;
use serde_json::{Value, json};

use crate::corpus::api::error::Outcome;
use crate::corpus::text::dates;
use crate::filter::{Node, Operator, same_text};

pub(crate) use crate::corpus::filter::fields::{FIELDS, Known, Origin, Type, known};

/// A value of a document.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Datum {
    Text(String),
    Number(f64),
    Flag(bool),
    Moment(i64),
}

impl Datum {
    /// The value as shown in an answer: a moment as its day.
    pub(crate) fn value(&self) -> Value {
        match self {
            Datum::Text(text) => json!(text),
            Datum::Number(number) => json!(*number as i64),
            Datum::Flag(flag) => json!(flag),
            Datum::Moment(moment) => json!(dates::day_of(*moment)),
        }
    }
}

#[derive(Clone, Debug)]
enum Wanted {
    Is(Datum),
    /// A text with `*`.
    Glob(GlobMatcher),
}

#[derive(Clone, Debug)]
struct Compare {
    field: &'static Known,
    operator: Operator,
    wanted: Wanted,
}

/// A parsed filter.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    root: Node<Compare>,
    fields: Vec<&'static Known>,
}

impl Filter {
    /// Parses a filter.
    pub(crate) fn parse(text: &str) -> Outcome<Filter> {
        parse::filter(text)
    }

    /// The fields that it reads.
    pub(crate) fn fields(&self) -> &[&'static Known] {
        &self.fields
    }

    /// Returns whether a document matches; `None` if a missing value leaves it undecided.
    pub(crate) fn evaluate(&self, value: &dyn Fn(&'static Known) -> Option<Datum>) -> Option<bool> {
        self.root.evaluate(&|it| value(it.field).map(|datum| compare(&datum, it.operator, &it.wanted)))
    }
}

fn compare(value: &Datum, operator: Operator, wanted: &Wanted) -> bool {
    match (value, wanted) {
        (Datum::Text(text), Wanted::Glob(glob)) => glob.is_match(text) == (operator == Operator::Equal),
        (Datum::Text(a), Wanted::Is(Datum::Text(b))) => same_text(a, b) == (operator == Operator::Equal),
        (Datum::Number(a), Wanted::Is(Datum::Number(b))) => operator.holds(a.total_cmp(b)),
        (Datum::Moment(a), Wanted::Is(Datum::Moment(b))) => operator.holds(a.cmp(b)),
        (Datum::Flag(a), Wanted::Is(Datum::Flag(b))) => operator.holds(a.cmp(b)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::api::error::Cause;

    fn holds(filter: &str) -> Option<bool> {
        let value = |field: &'static Known| match field.name {
            "content_type" => Some(Datum::Text("academic".into())),
            "domain_type" => Some(Datum::Text(".edu".into())),
            "citation_count" => Some(Datum::Number(51.0)),
            "word_count" => Some(Datum::Number(5_000.0)),
            "has_abstract" => Some(Datum::Flag(true)),
            "has_code_examples" => Some(Datum::Flag(false)),
            "modified" => Some(Datum::Moment(dates::moment("2024-06-01").unwrap())),
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
            ("", Cause::InvalidFilter),
            ("citations >", Cause::InvalidFilter),
            ("citations", Cause::InvalidFilter),
            ("(citations>5", Cause::InvalidFilter),
            ("citations>5)", Cause::InvalidFilter),
            ("citations>5 year>3", Cause::InvalidFilter),
            ("AND citations>5", Cause::UnknownField),
            ("title=\"open", Cause::InvalidFilter),
            ("citation_cont>5", Cause::UnknownField),
            ("citations>many", Cause::TypeError),
            ("has_abstract=maybe", Cause::TypeError),
            ("content_type>academic", Cause::TypeError),
            ("modified>soon", Cause::TypeError),
            ("text argues against regulation", Cause::SemanticFilter),
            ("introduces transformers", Cause::SemanticFilter),
            ("content ~ transformers", Cause::SemanticFilter),
            ("argues_against=tax", Cause::SemanticFilter),
            ("similar_to(\"x\")", Cause::SemanticFilter),
            ("has_abstract>3", Cause::TypeError),
            ("year>=abc", Cause::TypeError),
            ("year>=NaN", Cause::TypeError),
            (&"(".repeat(200), Cause::InvalidFilter),
        ] {
            assert_eq!(Filter::parse(filter).unwrap_err().cause, cause, "{filter}");
        }
        let long = format!("title=*{}", "?".repeat(500_000));
        assert_eq!(Filter::parse(&long).unwrap_err().cause, Cause::InvalidFilter);
    }
}
