//! Translates a question in words, in English or German, into a table request, only where the meaning is certain.
//!
//! Each word of the question must be explained: by the intent (`most`, `sum`, `how many`), a column header, a value in a
//! column, a year or a month. If a word is unexplained, or two columns are possible, there is no request.

use std::collections::HashSet;

use crate::model::{TableAggregate, TableFunction, TablePeriod, TableRequest};
use crate::table::column::{Column, ColumnType};
use crate::table::grid::Table;
use crate::table::question_words::{WordMeaning, are_same_word, word_meaning};
use crate::table::{date, number, question_words};

/// A question with more words than this is not translated.
const MAX_QUESTION_WORDS: usize = 40;
/// A table with more cells than this is not used to answer a question in words.
const MAX_CELLS: usize = 500_000;
/// Maximum number of distinct values of a column that are searched in a question; further values are ignored.
const MAX_COLUMN_VALUES: usize = 5_000;

/// The operation that a question asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Intent {
    Most,
    Least,
    Sum,
    Mean,
    Count,
}

/// How the answer names the rows with the largest or smallest value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Label {
    /// Groups of rows, by the cells of this column.
    Column(usize),
    /// Groups of rows, by this period of this date column.
    Period(usize, TablePeriod),
    /// Single rows, without groups.
    Row,
}

/// The meaning of a question for one table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ParsedQuestion {
    pub(super) intent: Intent,
    pub(super) request: TableRequest,
    pub(super) label: Label,
    /// The column to sum or compare; `None` if rows are counted.
    pub(super) measure: Option<usize>,
    /// The conditions on the rows, in words for the answer: `Postage`, `March 2025`.
    pub(super) subject: Vec<String>,
    /// The date column, if the question names a month without a year, so that rows of any year match.
    pub(super) of_any_year: Option<usize>,
    pub(super) confidence: f32,
}

/// Returns the request that a question means, if that is certain; [`crate::table::answer`] also runs the request.
pub fn parse_request(question: &str, table: &Table) -> Option<TableRequest> {
    parse_question(question, table).map(|it| it.request)
}

/// Whether a question may ask for a sum, count, mean, maximum or minimum; otherwise no table need be read for it.
pub fn may_ask_table(question: &str) -> bool {
    let words = question_words::lowercase_words(question);
    words.len() <= MAX_QUESTION_WORDS && parse_intent(&words).is_some()
}

/// Finds the meaning of a question for a table; `None` if it is uncertain.
pub(super) fn parse_question(question: &str, table: &Table) -> Option<ParsedQuestion> {
    let words = question_words::lowercase_words(question);
    if words.len() > MAX_QUESTION_WORDS || !table.is_whole || table.is_empty() || table.head_rows == 0 {
        return None;
    }
    let intent = parse_intent(&words)?;
    if table.len().saturating_mul(table.width()) > MAX_CELLS {
        return None;
    }
    let columns: Vec<Column> = (0..table.width()).map(|it| Column::sample(table, it, None)).collect();
    let explained = words.iter().map(|it| word_meaning(it).is_some_and(|it| it != WordMeaning::Row)).collect();
    QuestionParser { table, words, columns, explained, intent, confidence: 0.9 }.parse()
}

/// Returns the operation that the words ask for; `None` if they ask for none or for several.
fn parse_intent(words: &[String]) -> Option<Intent> {
    let has = |wanted: &[WordMeaning]| words.iter().any(|it| word_meaning(it).is_some_and(|it| wanted.contains(&it)));
    let pair = |first: &str, second: &str| words.windows(2).any(|it| it[0] == first && it[1] == second);
    let most = has(&[WordMeaning::Most, WordMeaning::Dearest]);
    let least = has(&[WordMeaning::Least, WordMeaning::Cheapest]);
    let count = pair("how", "many")
        || pair("number", "of")
        || pair("wie", "viele")
        || has(&[WordMeaning::Count])
        || words.iter().any(|it| it == "wieviele");
    let much = pair("how", "much") || pair("wie", "viel") || words.iter().any(|it| it == "wieviel");
    match (most, least, has(&[WordMeaning::Mean]), count) {
        (true, false, false, false) if !much => Some(Intent::Most),
        (false, true, false, false) if !much => Some(Intent::Least),
        (false, false, true, false) => Some(Intent::Mean),
        (false, false, false, true) => Some(Intent::Count),
        (false, false, false, false) if much || has(&[WordMeaning::Sum]) => Some(Intent::Sum),
        _ => None,
    }
}

struct QuestionParser<'t> {
    table: &'t Table,
    words: Vec<String>,
    columns: Vec<Column>,
    /// For each word of the question, whether its meaning is known.
    explained: Vec<bool>,
    intent: Intent,
    confidence: f32,
}

/// A cell value that occurs in the question.
struct NamedValue {
    column: usize,
    value: String,
    words: std::ops::Range<usize>,
}

/// The year and month that the question names.
#[derive(Default)]
struct TimeFilter {
    /// The filter on the date column, and the time in words for the answer.
    filter: Option<(String, String)>,
    /// The date column, if the question names a month without a year, so that rows of any year match.
    of_any_year: Option<usize>,
}

impl QuestionParser<'_> {
    fn parse(mut self) -> Option<ParsedQuestion> {
        let label = self.parse_label()?;
        let values = self.named_values()?;
        let mut filters: Vec<String> =
            values.iter().map(|it| self.equality_filter(it.column, &quote_value(&it.value))).collect::<Option<_>>()?;
        let mut subject: Vec<String> = values.iter().map(|it| it.value.clone()).collect();
        let direct = self.named_numeric_column(&label);
        let TimeFilter { filter, of_any_year } = self.time_filter(direct)?;
        if let Some((filter, shown)) = filter {
            filters.push(filter);
            subject.push(shown);
        }
        let measure = self.measured_column(direct, !subject.is_empty() || label != Label::Row)?;
        self.explain_row_words();
        if !self.explained.iter().all(|it| *it) {
            return None;
        }
        let (aggregate, label) = self.build_aggregate(measure, label)?;
        let filter = (!filters.is_empty()).then(|| filters.join(" AND "));
        let request = self.build_request(filter, &aggregate, &label)?;
        Some(ParsedQuestion {
            intent: self.intent,
            request,
            label,
            measure,
            subject,
            of_any_year,
            confidence: self.confidence,
        })
    }

    /// Returns the words of a column header.
    fn head_words(&self, column: usize) -> Vec<String> {
        question_words::lowercase_words(&self.table.heads[column].replace('_', " "))
    }

    fn mark_explained(&mut self, range: std::ops::Range<usize>) {
        self.explained[range].fill(true);
    }

    /// Decides how to name the rows with the largest or smallest value, by the word after `which`.
    fn parse_label(&mut self) -> Option<Label> {
        if !matches!(self.intent, Intent::Most | Intent::Least) {
            return Some(Label::Row);
        }
        let asks =
            |it: &String| it == "which" || it == "what" || it.starts_with("welche") || it == "wann" || it == "when";
        let Some(at) = self.words.iter().position(asks) else { return Some(Label::Row) };
        if matches!(self.words[at].as_str(), "when" | "wann") {
            return Some(Label::Column(self.only_column(|it| it.kind == ColumnType::Date)?));
        }
        let next = self.words.get(at + 1)?.clone();
        let named: Vec<usize> = (0..self.columns.len())
            .filter(|it| self.columns[*it].kind != ColumnType::Number)
            .filter(|it| self.head_words(*it).first().is_some_and(|head| are_same_word(head, &next)))
            .collect();
        match (named[..].len(), question_words::period_of_word(&next)) {
            (1, _) => {
                let length = self
                    .head_words(named[0])
                    .iter()
                    .zip(&self.words[at + 1..])
                    .take_while(|it| are_same_word(it.0, it.1))
                    .count();
                self.mark_explained(at + 1..at + 1 + length);
                Some(Label::Column(named[0]))
            }
            (0, Some(period)) => {
                self.mark_explained(at + 1..at + 2);
                Some(Label::Period(self.only_column(|it| it.kind == ColumnType::Date)?, period))
            }
            (0, None) => Some(Label::Row),
            _ => None,
        }
    }

    /// Returns the only column for which `is` is true; `None` if there is no such column, or several.
    fn only_column(&self, is: impl Fn(&Column) -> bool) -> Option<usize> {
        let mut found = self.columns.iter().filter(|it| is(it)).map(|it| it.index);
        found.next().filter(|_| found.next().is_none())
    }

    /// Returns the cell values that occur in the question; `None` if one word could belong to two values.
    fn named_values(&mut self) -> Option<Vec<NamedValue>> {
        let mut found: Vec<NamedValue> = Vec::new();
        for column in (0..self.columns.len()).filter(|it| self.columns[*it].kind == ColumnType::Text) {
            let mut own: Vec<NamedValue> = self.named_values_of(column);
            let longest = own.iter().map(|it| it.words.len()).max().unwrap_or_default();
            own.retain(|it| it.words.len() == longest);
            match own.len() {
                0 => {}
                1 => found.extend(own),
                _ => return None,
            }
        }
        let overlap = |one: &NamedValue, other: &NamedValue| {
            one.words.start < other.words.end && other.words.start < one.words.end
        };
        for (index, one) in found.iter().enumerate() {
            if found[index + 1..].iter().any(|other| overlap(one, other)) {
                return None;
            }
        }
        for range in found.iter().map(|it| it.words.clone()).collect::<Vec<_>>() {
            self.mark_explained(range);
        }
        Some(found)
    }

    fn named_values_of(&self, column: usize) -> Vec<NamedValue> {
        let mut seen: HashSet<&str> = HashSet::new();
        let mut found = Vec::new();
        for row in 0..self.table.len() {
            let value = self.table.cell(row, column);
            // Skips very short values, and long ones: they are sentences, which no question contains.
            if value.len() < 3 || value.len() > 100 || seen.len() >= MAX_COLUMN_VALUES || !seen.insert(value) {
                continue;
            }
            let parts = question_words::lowercase_words(value);
            let is_here = |at: &usize| {
                self.words[*at..].len() >= parts.len()
                    && parts.iter().zip(&self.words[*at..]).all(|it| are_same_word(it.0, it.1))
            };
            let Some(at) = (0..self.words.len()).find(is_here) else { continue };
            let range = at..at + parts.len();
            // Ignores a value that consists only of words with another meaning, such as `total`.
            if !parts.is_empty() && !self.explained[range.clone()].iter().all(|it| *it) {
                found.push(NamedValue { column, value: value.to_string(), words: range });
            }
        }
        found
    }

    fn equality_filter(&self, column: usize, value: &str) -> Option<String> {
        Some(format!("{}={value}", quote_name(&self.table.heads[column])?))
    }

    /// Returns the numeric column whose header has the most words in the question; `None` if there is none, or on a tie.
    fn named_numeric_column(&mut self, label: &Label) -> Option<usize> {
        let own = |it: &usize| *label != Label::Column(*it) && self.columns[*it].kind == ColumnType::Number;
        let hits = |column: usize| -> Vec<usize> {
            let head = self.head_words(column);
            let is_named = |at: &usize| {
                let word = &self.words[*at];
                let is_filler =
                    matches!(word_meaning(word), Some(WordMeaning::Filler | WordMeaning::Most | WordMeaning::Least));
                !is_filler && head.iter().any(|it| are_same_word(it, word))
            };
            (0..self.words.len()).filter(is_named).collect()
        };
        let all: Vec<(usize, Vec<usize>)> =
            (0..self.columns.len()).filter(own).map(|it| (it, hits(it))).filter(|it| !it.1.is_empty()).collect();
        let most = all.iter().map(|it| it.1.len()).max()?;
        let mut best = all.iter().filter(|it| it.1.len() == most);
        let found = best.next().filter(|_| best.next().is_none())?.clone();
        found.1.into_iter().for_each(|it| self.explained[it] = true);
        Some(found.0)
    }

    /// Turns the year and month in the question into a filter; `None` if their meaning is uncertain.
    fn time_filter(&mut self, direct: Option<usize>) -> Option<TimeFilter> {
        let in_head = |word: &String| direct.is_some_and(|it| self.head_words(it).iter().any(|head| head == word));
        let years: Vec<usize> = (0..self.words.len())
            .filter(|it| number::is_year(&self.words[*it]) && !in_head(&self.words[*it]))
            .collect();
        let months: Vec<usize> =
            (0..self.words.len()).filter(|it| self.is_month(*it) && !in_head(&self.words[*it])).collect();
        if years.len() > 1 || months.len() > 1 {
            return None;
        }
        let (year, month) = (years.first().copied(), months.first().copied());
        if year.is_none() && month.is_none() {
            return Some(TimeFilter::default());
        }
        let number = month.and_then(|it| date::parse_month(&self.words[it]));
        years.iter().chain(&months).for_each(|it| self.explained[*it] = true);
        let dates = self.only_column(|it| it.kind == ColumnType::Date);
        let year_text = year.map(|it| self.words[it].clone());
        let Some(dates) = dates else {
            // Without a date column, accepts the year if it is in the name of the table: then all rows are of that year.
            let is_named =
                year_text.as_ref().is_some_and(|it| question_words::lowercase_words(&self.table.name).contains(it));
            let has_none = self.columns.iter().all(|it| it.kind != ColumnType::Date);
            return (is_named && has_none && month.is_none()).then(TimeFilter::default);
        };
        let Some((value, shown)) = self.date_value(dates, year_text, number)? else {
            return Some(TimeFilter::default());
        };
        let of_any_year = (year.is_none() && !self.has_months_only(dates)).then_some(dates);
        Some(TimeFilter { filter: Some((self.equality_filter(dates, &value)?, shown)), of_any_year })
    }

    /// Returns the value to compare a date column with, and the time in words. The inner `None` means that all rows match,
    /// the outer `None` that the meaning is uncertain.
    fn date_value(&self, dates: usize, year: Option<String>, number: Option<u32>) -> Option<Option<(String, String)>> {
        let name = number.and_then(|it| MONTHS.get(it as usize - 1)).copied();
        // A year in the name of the table is the year of all its months.
        let is_named = |year: &String| question_words::lowercase_words(&self.table.name).contains(year);
        let months_only = self.has_months_only(dates);
        Some(match (year, name, number) {
            (Some(year), Some(name), Some(number)) if !months_only => {
                Some((format!("{year}-{number:02}"), format!("{name} {year}")))
            }
            (Some(year), None, _) if !months_only => Some((year.clone(), year)),
            (None, Some(name), _) => Some((name.to_string(), name.to_string())),
            (Some(year), Some(name), _) if is_named(&year) => Some((name.to_string(), format!("{name} {year}"))),
            (Some(year), None, _) if is_named(&year) => None,
            _ => return None,
        })
    }

    /// Whether the first cells of a date column are months without a year.
    fn has_months_only(&self, dates: usize) -> bool {
        let date = |row: usize| self.columns[dates].parse_date(self.table.cell(row, dates)).ok();
        (0..self.table.len().min(20)).filter_map(date).all(|it| it.year.is_none())
    }

    /// Whether the word at `at` means a month: `in May`, `May 2025`, but not `may we`.
    fn is_month(&self, at: usize) -> bool {
        let follows = at.checked_sub(1).is_some_and(|it| question_words::may_precede_month(&self.words[it]));
        let is_dated = self.words.get(at + 1).is_some_and(|it| number::is_year(it));
        date::parse_month(&self.words[at]).is_some() && (follows || is_dated || self.words[at].chars().count() > 4)
    }

    /// Returns the column to sum or compare; the inner `None` counts rows, the outer `None` means that it is uncertain.
    fn measured_column(&mut self, direct: Option<usize>, is_told: bool) -> Option<Option<usize>> {
        if self.intent == Intent::Count || direct.is_some() {
            return Some(direct);
        }
        let means = |wanted: &[WordMeaning]| {
            self.words.iter().any(|it| word_meaning(it).is_some_and(|it| wanted.contains(&it)))
        };
        let wants_money = means(&[WordMeaning::Money, WordMeaning::Dearest, WordMeaning::Cheapest]);
        // Uncertain, because no word of the question says what to sum or compare.
        if !wants_money && !is_told && !means(&[WordMeaning::Row]) {
            return None;
        }
        let numbers: Vec<usize> = (0..self.columns.len())
            .filter(|it| self.columns[*it].kind == ColumnType::Number && !self.is_identifier(*it))
            .collect();
        // Uncertain, because the question names the header of a numeric column, but not of one column alone.
        if numbers.iter().any(|it| self.is_named(*it)) {
            return None;
        }
        let money = self.money_columns(&numbers);
        match (&numbers[..], &money[..]) {
            ([only], [_]) => Some(Some(*only)),
            ([only], []) if !wants_money => {
                self.confidence = 0.8;
                Some(Some(*only))
            }
            // Of net, tax and gross columns, `money_columns` returns only the gross column, because gross is what was paid.
            (_, [only]) => {
                self.confidence = 0.7;
                Some(Some(*only))
            }
            _ => None,
        }
    }

    /// Whether a column header has a word of the question that is not explained yet.
    fn is_named(&self, column: usize) -> bool {
        let head = self.head_words(column);
        let unknown = self.words.iter().zip(&self.explained).filter(|it| !it.1);
        unknown.into_iter().any(|(word, _)| head.iter().any(|it| are_same_word(it, word)))
    }

    /// Returns the columns with full amounts of money, not parts such as tax; only totals such as gross, if there are any.
    fn money_columns(&self, numbers: &[usize]) -> Vec<usize> {
        let has = |column: usize, is: fn(&str) -> bool| self.head_words(column).iter().any(|it| is(it));
        let money: Vec<usize> = numbers.iter().copied().filter(|it| self.is_money(*it)).collect();
        let whole: Vec<usize> = money.iter().copied().filter(|it| has(*it, question_words::is_whole_head)).collect();
        let parts = numbers.iter().filter(|it| has(**it, question_words::is_part_head)).count();
        match (whole.len(), money.len(), parts) {
            (1.., ..) => whole,
            // A net amount is the full amount if it is the only column of money.
            (0, 1, 1) if has(money[0], question_words::is_part_head) => money,
            _ => money.into_iter().filter(|it| !has(*it, question_words::is_part_head)).collect(),
        }
    }

    fn is_identifier(&self, column: usize) -> bool {
        self.head_words(column).iter().any(|it| question_words::is_identifier(it))
    }

    fn is_money(&self, column: usize) -> bool {
        let has_currency = self.columns[column].shown_unit.as_deref().is_some_and(number::is_currency);
        has_currency || self.head_words(column).iter().any(|it| question_words::is_money_head(it))
    }

    /// Marks nouns for any row (`invoice`, `entry`) and words in the name of the table as explained.
    fn explain_row_words(&mut self) {
        let name = question_words::lowercase_words(&self.table.name);
        for (word, is_known) in self.words.iter().zip(&mut self.explained) {
            *is_known |= word_meaning(word) == Some(WordMeaning::Row) || name.iter().any(|it| are_same_word(it, word));
        }
    }

    /// Returns the aggregate to compute, and how to name the rows; `None` if their values cannot be summed with certainty.
    fn build_aggregate(&self, measure: Option<usize>, label: Label) -> Option<(TableAggregate, Label)> {
        let of = |function| measure.map(|it| TableAggregate { function, column: Some(self.table.heads[it].clone()) });
        let aggregate = match self.intent {
            Intent::Sum => of(TableFunction::Sum)?,
            Intent::Mean => of(TableFunction::Avg)?,
            // Sums the column if `how many` is about a numeric column, such as the number of items.
            Intent::Count if measure.is_some() => of(TableFunction::Sum)?,
            Intent::Count => TableAggregate { function: TableFunction::Count, column: None },
            Intent::Most | Intent::Least if label == Label::Row => {
                of(if self.intent == Intent::Most { TableFunction::Max } else { TableFunction::Min })?
            }
            Intent::Most | Intent::Least => of(TableFunction::Sum)?,
        };
        let is_sum = self.words.iter().any(|it| {
            matches!(
                word_meaning(it),
                Some(WordMeaning::Sum | WordMeaning::Money | WordMeaning::Dearest | WordMeaning::Cheapest)
            ) || it == "most"
                || it == "meisten"
        });
        // Values such as water levels do not add up: unless the question asks for a sum, each group must have only one row.
        let adds_up = is_sum || measure.is_some_and(|it| self.is_money(it));
        match &label {
            Label::Column(column) if !adds_up => {
                let mut seen = HashSet::new();
                (0..self.table.len()).all(|it| seen.insert(self.table.cell(it, *column))).then_some((aggregate, label))
            }
            Label::Period(..) if !adds_up => None,
            _ => Some((aggregate, label)),
        }
    }

    fn build_request(&self, filter: Option<String>, aggregate: &TableAggregate, label: &Label) -> Option<TableRequest> {
        let mut request = TableRequest { filter, aggregates: vec![aggregate.clone()], ..TableRequest::default() };
        let (column, per) = match label {
            Label::Column(column) => (*column, None),
            Label::Period(column, period) => (*column, Some(*period)),
            Label::Row => return Some(request),
        };
        request.group_by = Some(self.table.heads.get(column)?.clone());
        request.per = per;
        // Requests three groups, although one is asked for, to detect ties.
        request.top = Some(3);
        request.ascending = self.intent == Intent::Least;
        Some(request)
    }
}

/// English names of the months, for filters on date columns and for answers.
pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Puts a value in quotes for a filter; a value with both kinds of quotes cannot be written there.
fn quote_value(value: &str) -> String {
    if value.contains('"') { format!("'{value}'") } else { format!("\"{value}\"") }
}

fn quote_name(name: &str) -> Option<String> {
    (!(name.contains('"') && name.contains('\''))).then(|| quote_value(name))
}
