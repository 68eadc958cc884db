//! Evaluates parsed filters on the metadata of documents.

use globset::GlobMatcher;
use serde_json::{Value, json};

use crate::corpus::filter::fields::FilterField;
use crate::corpus::text::dates;
use crate::filter::{Node, Operator, equals_ignoring_case};

/// The value of a field of a document.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FieldValue {
    Text(String),
    Number(f64),
    Flag(bool),
    Moment(i64),
}

impl FieldValue {
    /// Returns the value as JSON for an answer; a time is shown as its day.
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
pub(super) enum FilterOperand {
    Is(FieldValue),
    /// A pattern: a text with `*`.
    Glob(GlobMatcher),
}

#[derive(Clone, Debug)]
pub(super) struct FieldComparison {
    pub(super) field: &'static FilterField,
    pub(super) operator: Operator,
    pub(super) wanted: FilterOperand,
}

/// A parsed filter.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub(super) root: Node<FieldComparison>,
    pub(super) fields: Vec<&'static FilterField>,
}

impl Filter {
    /// Returns the fields that the filter compares.
    pub(crate) fn fields(&self) -> &[&'static FilterField] {
        &self.fields
    }

    /// Returns whether a document matches the filter; `None` if a missing value leaves that undecided.
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
}
