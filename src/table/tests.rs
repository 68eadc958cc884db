//! Tests of requests on whole tables: exact sums, number formats, ragged rows, header rows, totals, size, and questions.

use std::time::Instant;

use proptest::prelude::*;

use super::*;
use crate::error::{ErrorCode, Result};
use crate::model::{
    Anchor, Block, BlockKind, Document, TableAggregate, TableFunction, TablePeriod, TableRequest, TableResponse,
    TableValue,
};

fn block(text: &str, anchor: Anchor) -> Block {
    Block { kind: BlockKind::Table, text: text.into(), anchor, rows: Vec::new() }
}

fn lines(first: u32, last: u32) -> Anchor {
    Anchor { line_start: Some(first), line_end: Some(last), ..Anchor::default() }
}

fn cells(sheet: &str, range: &str) -> Anchor {
    Anchor { sheet: Some(sheet.into()), cell: Some(range.into()), ..Anchor::default() }
}

fn document(blocks: Vec<Block>) -> Document {
    Document { blocks, ..Document::default() }
}

/// Returns a table of these rows, in blocks of 30 as the parser of delimited text makes them.
fn table(rows: &[String]) -> Table {
    let blocks = rows.chunks(30).zip(0_u32..).map(|(rows, at)| {
        let first = at * 30 + 1;
        block(rows.join("\n").trim(), lines(first, first + rows.len() as u32 - 1))
    });
    let mut tables = tables_of_document(&document(blocks.collect()));
    assert_eq!(tables.len(), 1);
    tables.remove(0)
}

fn of(text: &str) -> Table {
    table(&text.lines().map(str::to_string).collect::<Vec<_>>())
}

fn aggregate(function: TableFunction, column: &str) -> Vec<TableAggregate> {
    vec![TableAggregate { function, column: Some(column.into()) }]
}

fn asked(table: &Table, request: TableRequest) -> Result<TableResponse> {
    run_request(std::slice::from_ref(table), &request)
}

fn value(table: &Table, function: TableFunction, column: &str) -> TableValue {
    let request = TableRequest { aggregates: aggregate(function, column), ..TableRequest::default() };
    asked(table, request).unwrap().result.remove(0)
}

fn rows(table: &Table, filter: &str) -> Vec<String> {
    let request = TableRequest { filter: Some(filter.into()), limit: Some(1_000), ..TableRequest::default() };
    asked(table, request).unwrap().rows.into_iter().map(|it| it.cells[0].clone()).collect()
}

/// The oracle: formats a sum of cents as a decimal number, with integers only.
fn on_paper(cents: i128) -> String {
    let sign = if cents < 0 { "-" } else { "" };
    format!("{sign}{}.{:02}", cents.abs() / 100, cents.abs() % 100)
}

/// Formats an amount of cents in one of several number formats, chosen by `way`.
fn written(cents: i64, way: usize) -> String {
    let (whole, part) = ((cents.abs() / 100).to_string(), format!("{:02}", cents.abs() % 100));
    let groups = |sign: &str| {
        let digits: Vec<&str> = whole.as_bytes().rchunks(3).rev().map(|it| std::str::from_utf8(it).unwrap()).collect();
        digits.join(sign)
    };
    let (plain, minus) = match way % 6 {
        0 => (format!("{whole}.{part}"), "-"),
        1 => (format!("{}.{part}", groups(",")), "-"),
        2 => (format!("{},{part}", groups(".")), "\u{2212}"),
        3 => (format!("{},{part}", groups("\u{a0}")), "-"),
        4 => (format!("{}.{part}", groups("'")), "-"),
        _ => (format!("{},{part} €", groups("\u{202f}")), "-"),
    };
    match (cents < 0, way.is_multiple_of(7)) {
        (true, true) => format!("({plain})"),
        (true, false) => format!("{minus}{plain}"),
        _ => plain,
    }
}

proptest! {
    #[test]
    fn sum_matches_integer_oracle_in_all_formats(
        amounts in prop::collection::vec((-1_000_000_000_i64..1_000_000_000, 0_usize..42), 1..80),
    ) {
        let mut rows = vec!["what | amount".to_string()];
        rows.extend(amounts.iter().map(|(cents, way)| format!("x | {}", written(*cents, *way))));
        let found = value(&table(&rows), TableFunction::Sum, "amount");
        let sum: i128 = amounts.iter().map(|it| i128::from(it.0)).sum();
        prop_assert_eq!(found.value.unwrap(), on_paper(sum));
        prop_assert_eq!((found.rows, found.left_out.len(), found.exact), (amounts.len() as u64, 0, true));
    }

    #[test]
    fn arbitrary_cells_are_all_counted_or_left_out(
        texts in prop::collection::vec("[0-9.,'()€%$ eE|a-cµ\u{2212}\u{a0}-]{0,14}", 2..40),
        filter in "[a-b0-9 =<>!()\"AND]{0,20}",
    ) {
        let rows: Vec<String> = texts.chunks(2).map(|it| it.join(" | ")).collect();
        let blocks = vec![block(&rows.join("\n"), lines(1, rows.len() as u32))];
        for table in tables_of_document(&document(blocks)) {
            for function in TableFunction::ALL {
                let column = table.heads[0].clone();
                let aggregates = aggregate(function, &column);
                let request = TableRequest { aggregates, filter: Some(filter.clone()), ..TableRequest::default() };
                let Ok(response) = asked(&table, request) else { continue };
                let value = &response.result[0];
                let left_out: u64 = value.left_out.iter().map(|it| it.cells).sum();
                prop_assert!(response.matched_rows <= table.len() as u64);
                prop_assert_eq!(value.rows + left_out, response.matched_rows, "{:?}", response);
            }
            let answer = answer::answer_question("which month cost most in 2025", std::slice::from_ref(&table));
            prop_assert!(answer.is_none_or(|it| (0.0..=1.0).contains(&it.confidence) && !it.value.is_empty()));
        }
    }
}

#[test]
fn decimal_sum_is_exact() {
    let found = value(&of("what | x\na | 0.1\nb | 0.2"), TableFunction::Sum, "x");
    assert_eq!(found.value.as_deref(), Some("0.3"));
}

#[test]
fn non_number_cell_is_counted_and_reported() {
    let table = of(
        "what | amount\na | 1.50 EUR\nb | soon\nc |\nd | 1,234\ne | 3.50 USD\nf | 2.50 EUR\ng | 1.00 EUR\nh | 1.234,5",
    );
    let request = TableRequest { aggregates: aggregate(TableFunction::Sum, "amount"), ..TableRequest::default() };
    let found = asked(&table, request).unwrap();
    let value = &found.result[0];
    assert_eq!((value.value.as_deref(), value.unit.as_deref(), value.rows), (Some("1239.50"), Some("EUR"), 4));
    let left: Vec<_> =
        value.left_out.iter().map(|it| (it.reason.as_str(), it.cells, it.examples[0].text.as_str())).collect();
    assert_eq!(left, [("empty", 1, ""), ("no number", 1, "soon"), ("ambiguous", 1, "1,234"), ("unit", 1, "3.50 USD")]);
    assert_eq!(value.left_out[1].examples[0].place, "line 3");
    assert!(
        found.warnings.iter().any(|it| it.contains("`1,234` (line 5)") && it.contains("decimal separator")),
        "{:?}",
        found.warnings
    );
    assert!(found.warnings.iter().any(|it| it.contains("without a unit are taken as EUR")), "{:?}", found.warnings);
}

#[test]
fn unit_follows_majority_and_currency_follows_few() {
    let sum = |rows: &str| {
        let found = value(&of(&format!("what | x\n{rows}")), TableFunction::Sum, "x");
        (found.value.unwrap(), found.unit, found.rows)
    };
    assert_eq!(sum("a | $ 5\nb | 6\nc | 7\nd | $ 18"), ("36".into(), Some("$".into()), 4));
    assert_eq!(sum("a | 5 €\nb | EUR 6\nc | 7 euros"), ("18".into(), Some("EUR".into()), 3));
    assert_eq!(sum("a | 5\nb | 6\nc | 7 apples"), ("11".into(), None, 2));
    assert_eq!(sum("a | 5 kWh\nb | 6 kWh\nc | 7 MWh"), ("11".into(), Some("kWh".into()), 2));
}

#[test]
fn caller_decimal_sign_resolves_ambiguity() {
    let table = of("what | x\na | 1,234\nb | 2,500");
    let sum = |decimal: Option<&str>| {
        let aggregates = aggregate(TableFunction::Sum, "x");
        let request = TableRequest { aggregates, decimal: decimal.map(String::from), ..TableRequest::default() };
        asked(&table, request).map(|it| it.result[0].value.clone())
    };
    assert_eq!(sum(None).unwrap(), None);
    assert_eq!(sum(Some(",")).unwrap().as_deref(), Some("3.734"));
    assert_eq!(sum(Some(".")).unwrap().as_deref(), Some("3734"));
    assert_eq!(sum(Some(";")).unwrap_err().field.as_deref(), Some("decimal"));
}

#[test]
fn every_function_reports_proving_rows() {
    let table = of("date | x\n2025-01-05 | 4\n2025-03-01 | 1\n2024-12-31 | 4\n | 2");
    let all = |function, column| {
        let found = value(&table, function, column);
        (found.value.unwrap_or_default(), found.rows, found.evidence)
    };
    let places = |numbers: &[u32]| numbers.iter().map(|it| format!("line {it}")).collect::<Vec<_>>();
    assert_eq!(all(TableFunction::Sum, "x"), ("11".into(), 4, places(&[2, 3, 4, 5])));
    assert_eq!(all(TableFunction::Avg, "x"), ("2.75".into(), 4, places(&[2, 3, 4, 5])));
    assert_eq!(all(TableFunction::Max, "x"), ("4".into(), 4, places(&[2, 4])));
    assert_eq!(all(TableFunction::Min, "x"), ("1".into(), 4, places(&[3])));
    assert_eq!(all(TableFunction::Count, "date"), ("3".into(), 3, places(&[2, 3, 4])));
    assert_eq!(all(TableFunction::Max, "date"), ("2025-03-01".into(), 3, places(&[3])));
    let refused =
        asked(&table, TableRequest { aggregates: aggregate(TableFunction::Sum, "date"), ..TableRequest::default() });
    assert!(refused.unwrap_err().message.contains("numbers"));
}

#[test]
fn filter_compares_by_column_type() {
    let table = of(
        "id | amount | date | who | paid\n1 | 1.234,50 | 05.01.2025 | Ada | yes\n2 | 99,00 | 14.03.2025 | Bram | no\n3 |  | 31.03.2025 |  | yes\n4 | 7,5 | 01.04.2024 | ada | no",
    );
    for (filter, expected) in [
        ("amount>100", vec!["1"]),
        ("amount>=7,5 AND amount<1000", vec!["2", "4"]),
        ("amount=\"1.234,50\"", vec!["1"]),
        ("date=2025-03", vec!["2", "3"]),
        ("date=2025", vec!["1", "2", "3"]),
        ("date<2025", vec!["4"]),
        ("date<=2025-03-14", vec!["1", "2", "4"]),
        ("date>2025-03-14", vec!["3"]),
        ("date=March", vec!["2", "3"]),
        ("date!=2025-03", vec!["1", "4"]),
        ("who=ADA", vec!["1", "4"]),
        ("who=*r*", vec!["2"]),
        ("who=\"\"", vec!["3"]),
        ("paid", vec!["1", "3"]),
        ("NOT paid AND (who=bram OR amount<8)", vec!["2", "4"]),
        ("\"who\"=Ada", vec!["1", "4"]),
        ("am>100", vec!["1"]),
        ("AMOUNT>100", vec!["1"]),
        ("amount!=99", vec!["1", "4"]),
    ] {
        assert_eq!(rows(&table, filter), expected, "{filter}");
    }
}

#[test]
fn invalid_request_is_rejected_with_hint() {
    let table = of("id | amount | date | a b\n1 | 5 | 2025-01-01 | x\n2 | 6 | 2025-01-02 | y");
    let filter = |it: &str| TableRequest { filter: Some(it.into()), ..TableRequest::default() };
    for (request, said) in [
        (filter("cost>5"), "its columns are: id, amount, date, a b"),
        (filter("a>5"), "amount, a b"),
        (filter("amount>"), "a value is missing"),
        (filter("amount>many"), "a number"),
        (filter("date>soon"), "a date such as"),
        (filter("\"a b\">x"), "no order"),
        (filter("amount"), "needs an operator"),
        (filter(&"(".repeat(200)), "nested too deep"),
        (filter(&vec!["id=1"; 101].join(" OR ")), "more than 100"),
        (TableRequest { table: Some(2), ..TableRequest::default() }, "no table 2"),
        (TableRequest { table: Some(0), ..TableRequest::default() }, "no table 0"),
        (TableRequest { sheet: Some("Q1".into()), ..TableRequest::default() }, "no sheets"),
        (TableRequest { group_by: Some("zz".into()), ..TableRequest::default() }, "no column `zz`"),
        (TableRequest { top: Some(3), ..TableRequest::default() }, "`top` needs `by`"),
        (TableRequest { limit: Some(0), ..TableRequest::default() }, "`limit` 0"),
        (TableRequest { per: Some(TablePeriod::Day), ..TableRequest::default() }, "`per` needs"),
        (TableRequest { head_rows: Some(3), ..TableRequest::default() }, "`head_rows`"),
    ] {
        let error = asked(&table, request).unwrap_err();
        let told = error.message_with_hint();
        assert!(told.contains(said), "{told}");
        assert!(matches!(error.code, ErrorCode::InvalidArgument | ErrorCode::NotFound), "{told}");
    }
}

#[test]
fn groups_have_values_and_top_sorts_them() {
    let table = of(
        "date | who | x\n2025-01-05 | Ada | 1.5\n2025-01-07 | Bram | 2\n2025-02-01 | Ada | 3\n2025-02-03 | Cleo | 0.5\nsoon | Ada | 9",
    );
    let groups = |request: TableRequest| {
        let found = asked(&table, TableRequest { aggregates: aggregate(TableFunction::Sum, "x"), ..request }).unwrap();
        let groups: Vec<String> = found
            .groups
            .iter()
            .map(|it| format!("{} {} {}", it.key, it.rows, it.result[0].value.as_deref().unwrap()))
            .collect();
        (groups, found)
    };
    let by = |name: &str| TableRequest { group_by: Some(name.into()), ..TableRequest::default() };
    assert_eq!(groups(by("who")).0, ["Ada 3 13.5", "Bram 1 2", "Cleo 1 0.5"]);
    let (top, found) = groups(TableRequest { top: Some(2), ..by("who") });
    assert_eq!(top, ["Ada 3 13.5", "Bram 1 2"]);
    assert!(found.truncated && found.total_groups == 3 && found.rows.len() == 3);
    assert_eq!(groups(TableRequest { top: Some(1), ascending: true, ..by("who") }).0, ["Cleo 1 0.5"]);
    let (months, found) = groups(TableRequest { per: Some(TablePeriod::Month), ..by("date") });
    assert_eq!(months, ["2025-01 2 3.5", "2025-02 2 3.5"]);
    assert!(found.warnings.iter().any(|it| it.contains("1 rows have no date")), "{:?}", found.warnings);
    assert_eq!(found.groups[0].result[0].evidence, ["line 2", "line 3"]);
}

#[test]
fn top_lists_rows_with_largest_values() {
    let table = of("what | x\na | 5\nb | 9,5\nc | no\nd | 7");
    let top = |ascending| {
        let request = TableRequest { top: Some(2), by: Some("x".into()), ascending, ..TableRequest::default() };
        let found = asked(&table, request).unwrap();
        (found.rows.iter().map(|it| it.cells[0].clone()).collect::<Vec<_>>(), found.warnings)
    };
    assert_eq!(top(false).0, ["b", "d"]);
    assert_eq!(top(true).0, ["a", "d"]);
    assert!(top(true).1[0].contains("1 rows have no comparable value"));
}

#[test]
fn total_rows_are_not_counted_twice() {
    let table = of("what | x\na | 5\nb | 6\nTotal: | 11");
    let request = TableRequest { aggregates: aggregate(TableFunction::Sum, "x"), ..TableRequest::default() };
    let found = asked(&table, request).unwrap();
    assert_eq!((found.result[0].value.as_deref(), found.result[0].left_out[0].reason.as_str()), (Some("11"), "total"));
    assert!(found.warnings.iter().any(|it| it.contains("totals")));
    let only = TableRequest {
        filter: Some("what=Total*".into()),
        aggregates: aggregate(TableFunction::Sum, "x"),
        ..TableRequest::default()
    };
    assert_eq!(asked(&table, only).unwrap().result[0].value.as_deref(), Some("11"));
}

#[test]
fn ragged_rows_warn_and_keep_cell_positions() {
    let table = of("a | b | c\n1 | 2 | 3\n4\n5 | 6 | 7 | 8\n9 | 10 | 11");
    let found = asked(&table, TableRequest::default()).unwrap();
    assert_eq!(table.heads, ["a", "b", "c", "D"]);
    assert_eq!(found.rows[1].cells, ["4", "", "", ""]);
    assert_eq!(found.rows[2].cells, ["5", "6", "7", "8"]);
    assert!(found.warnings[0].contains("2 rows have fewer or more cells"), "{:?}", found.warnings);
    assert_eq!(value(&table, TableFunction::Sum, "b").value.as_deref(), Some("18"));
}

#[test]
fn head_rows_are_two_none_or_as_requested() {
    let two = of("Region | 2025 |  | 2026 |\n| Q1 | Q2 | Q1 | Q2\nNorth | 1 | 2 | 3 | 4\nSouth | 5 | 6 | 7 | 8");
    assert_eq!((two.head_rows, value(&two, TableFunction::Sum, "2026 / q1").value), (2, Some("10".into())));
    let none = of("a | 5\nb | 6");
    let found =
        asked(&none, TableRequest { aggregates: aggregate(TableFunction::Sum, "B"), ..TableRequest::default() })
            .unwrap();
    assert_eq!((found.head_rows, found.result[0].value.as_deref()), (0, Some("11")));
    assert!(found.warnings[0].contains("named by letters"));
    let forced = asked(&none, TableRequest { head_rows: Some(1), ..TableRequest::default() }).unwrap();
    assert_eq!((forced.total_rows, forced.columns[1].name.as_str()), (1, "5"));
}

#[test]
fn sheet_has_cell_places_and_several_tables() {
    let mut rows = block(
        "Report\nwhat | x | y\na | 1.234 | 5\nb | 2 | 6\nc | 3\nwho | n\nAda | 1\nBram | 2",
        cells("Q1", "B2:D11"),
    );
    rows.rows = vec![2, 4, 5, 6, 7, 9, 10, 11];
    let tables = tables_of_document(&document(vec![rows, block("k | v\nz | 9", cells("Q2", "A1:B2"))]));
    let shapes: Vec<_> = tables.iter().map(|it| (it.name.as_str(), it.number, it.len(), it.heads.join(","))).collect();
    assert_eq!(shapes, [("Q1", 1, 3, "what,x,y".into()), ("Q1", 2, 2, "who,n".into()), ("Q2", 3, 1, "k,v".into())]);
    assert_eq!(tables[0].place(0), "sheet Q1, B5:D5");
    assert_eq!(value(&tables[0], TableFunction::Sum, "x").value.as_deref(), Some("6.234"));
    let of_sheet = |sheet: &str, table| {
        run_request(&tables, &TableRequest { sheet: Some(sheet.into()), table, ..TableRequest::default() })
    };
    assert_eq!(of_sheet("q1", Some(2)).unwrap().columns[0].name, "who");
    let second = of_sheet("Q2", None).unwrap();
    assert_eq!((second.tables, second.sheets), (1, vec!["Q1".to_string(), "Q2".to_string()]));
    assert!(of_sheet("Q3", None).unwrap_err().message_with_hint().contains("Q1, Q2"));
}

#[test]
fn opendocument_number_format_is_learned_from_column() {
    let blocks = |rows: &str| vec![block(rows, cells("S", "A1:B3"))];
    let media_type = "application/vnd.oasis.opendocument.spreadsheet".to_string();
    let sum = |rows: &str| {
        let open = Document { media_type: media_type.clone(), ..document(blocks(rows)) };
        value(&tables_of_document(&open)[0], TableFunction::Sum, "x").value
    };
    assert_eq!(sum("what | x\na | 1.640\nb | 2.000"), None);
    assert_eq!(sum("what | x\na | 1.640\nb | 2.000,5").as_deref(), Some("3640.5"));
}

#[test]
fn headless_rows_below_blank_rows_continue_table() {
    let mut rows = block("what | x\na | 1\nb | 2\nTotal | 3", cells("S", "A1:B5"));
    rows.rows = vec![1, 2, 3, 5];
    let tables = tables_of_document(&document(vec![rows]));
    assert_eq!((tables.len(), tables[0].len()), (1, 3));
    assert_eq!(tables[0].place(2), "sheet S, A5:B5");
}

#[test]
fn table_without_lines_numbers_its_rows() {
    let tables = tables_of_document(&document(vec![block("a | b\nc | 1\nd | 2", Anchor::default())]));
    assert_eq!(tables[0].place(1), "table 1, row 2");
}

#[test]
fn offset_skips_rows_of_the_list() {
    let table = of("a | b\nc | 1\nd | 2\ne | 3");
    let listed = |offset: u32| {
        let request = TableRequest { offset, limit: Some(2), ..TableRequest::default() };
        let found = asked(&table, request).unwrap();
        assert_eq!(found.matched_rows, 3);
        (found.rows.iter().map(|it| it.cells[0].clone()).collect::<Vec<_>>(), found.truncated)
    };
    assert_eq!(listed(0), (vec!["c".to_string(), "d".into()], true));
    assert_eq!(listed(1), (vec!["d".to_string(), "e".into()], false));
    assert_eq!(listed(9), (vec![], false));
}

#[test]
fn truncated_document_warns() {
    let cut = Document { truncated: true, ..document(vec![block("a | b\nc | 1\nd | 2", lines(1, 3))]) };
    let tables = tables_of_document(&cut);
    let found = run_request(&tables, &TableRequest::default()).unwrap();
    assert!(found.truncated && found.warnings[0].contains("was cut at a limit"));
    assert_eq!(answer::answer_question("what is the sum of b", &tables), None);
}

#[test]
fn hundred_thousand_rows_are_answered_in_time() {
    let mut rows = vec!["date | who | amount | note".to_string()];
    rows.extend((0..100_000).map(|it| {
        format!("2025-{:02}-{:02} | p{} | {}.{:02} | n", it % 12 + 1, it % 28 + 1, it % 5_000, it, it % 100)
    }));
    let begun = Instant::now();
    let table = table(&rows);
    let request = TableRequest {
        filter: Some("amount>=10 AND note=n".into()),
        group_by: Some("who".into()),
        aggregates: aggregate(TableFunction::Sum, "amount"),
        top: Some(3),
        ..TableRequest::default()
    };
    let found = asked(&table, request).unwrap();
    assert_eq!(
        (found.total_rows, found.matched_rows, found.total_groups, found.groups.len()),
        (100_000, 99_990, 5_000, 3)
    );
    let cents: i128 = (10..100_000_i128).map(|it| it * 100 + it % 100).sum();
    assert_eq!(found.result[0].value.as_deref(), Some(on_paper(cents).as_str()));
    assert_eq!(found.result[0].evidence.len(), 20);
    assert_eq!(table.place(99_999), "line 100001");
    // A generous limit, for unoptimised builds and busy machines; a release build takes a fraction of a second.
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}

/// A table of expenses with typical column headers.
fn expenses() -> Table {
    of(
        "Date | Category | Payee | Amount (EUR)\n2025-01-14 | Travel | Coastal Rail | 44.00\n2025-03-03 | Postage | Mail Office | 12.50\n2025-03-20 | Paper | Reed & Sons | 400.00\n2025-05-11 | Postage | Mail Office | 7.30\n2025-05-19 | Paper | Reed & Sons | 60.20\n2024-05-02 | Postage | Mail Office | 99.00",
    )
}

#[test]
fn certain_questions_are_answered_in_two_languages() {
    for (question, text) in [
        ("Which month cost most?", "March 2025: 412.50 EUR (sum of Amount (EUR) over 2 rows)"),
        ("Welcher Monat war am teuersten?", "March 2025: 412.50 EUR (sum of Amount (EUR) over 2 rows)"),
        ("What is the sum of postage in 2025?", "Postage, 2025: 19.80 EUR (sum of Amount (EUR) over 2 rows)"),
        (
            "What did we spend in total on postage in March 2025?",
            "Postage, March 2025: 12.50 EUR (sum of Amount (EUR) over 1 row)",
        ),
        (
            "How much did we spend on paper in March 2025?",
            "Paper, March 2025: 400.00 EUR (sum of Amount (EUR) over 1 row)",
        ),
        ("Wie viel haben wir 2025 für Paper ausgegeben?", "Paper, 2025: 460.20 EUR (sum of Amount (EUR) over 2 rows)"),
        ("How many invoices in May 2025?", "May 2025: 2 rows"),
        ("Wie viele Rechnungen im März 2025?", "March 2025: 2 rows"),
        ("Which payee cost the most?", "Reed & Sons: 460.20 EUR (sum of Amount (EUR) over 2 rows)"),
        ("Which category cost least in 2025?", "Postage: 19.80 EUR (sum of Amount (EUR) in 2025 over 2 rows)"),
        (
            "What was the most expensive purchase?",
            "2025-03-20, Paper, Reed & Sons: 400.00 EUR (largest of Amount (EUR), line 4)",
        ),
        ("What is the average amount for Postage?", "Postage: 39.60 EUR (mean of Amount (EUR) over 3 rows)"),
    ] {
        let found = answer::answer_question(question, &[expenses()]);
        assert_eq!(found.as_ref().map(|it| it.text.as_str()), Some(text), "{question}");
        let found = found.unwrap();
        assert!(!found.rows.is_empty() && found.confidence > 0.5, "{question}");
        assert!(parse_request(question, &expenses()).is_some());
    }
}

#[test]
fn uncertain_questions_are_not_answered() {
    for question in [
        "Which month?",
        "Who signed the lease?",
        "What did we spend on sails in 2025?",
        "How much did we spend on postage and paper?",
        "How many invoices in May?",
        "Which month cost most in 2023?",
        "The sum of postage in 2024 and 2025",
        "Is the average payee most expensive?",
        "How much did Ada spend on postage?",
        "Which boat cost most?",
        "most",
        "",
    ] {
        assert_eq!(answer::answer_question(question, &[expenses()]).map(|it| it.text), None, "{question}");
    }
    let double = of("date | net | vat\n2025-01-01 | 5 | 1\n2025-02-01 | 6 | 2");
    assert_eq!(answer::answer_question("what is the sum in 2025", &[double]).map(|it| it.text), None);
}

#[test]
fn paid_amount_is_gross() {
    let table = of(
        "date | what | net_eur | vat_eur | gross_eur\n2025-01-01 | Tools | 5.00 | 1.00 | 6.00\n2025-02-01 | Boat | 6.00 | 2.00 | 8.00",
    );
    let found = answer::answer_question("which month cost most?", std::slice::from_ref(&table)).unwrap();
    assert_eq!(found.text, "February 2025: 8.00 EUR (sum of gross_eur over 1 row)");
    assert!(found.confidence < 0.8);
    let vat = answer::answer_question("what is the sum of vat in 2025", &[table]).unwrap();
    assert_eq!((vat.text.as_str(), vat.confidence), ("2025: 3.00 EUR (sum of vat_eur over 2 rows)", 0.9));
}

#[test]
fn months_without_year_are_labelled_as_months() {
    let table =
        of("Month | Electricity kWh | Cost EUR\nJanuary | 212 | 318.40\nFebruary | 198 | 297.15\nMarch | 187 | 241.80");
    let told = |question: &str| answer::answer_question(question, std::slice::from_ref(&table)).map(|it| it.text);
    assert_eq!(told("which month cost most?").as_deref(), Some("January: 318.40 EUR (sum of Cost EUR over 1 row)"));
    assert_eq!(
        told("which month had the lowest electricity use?").as_deref(),
        Some("March: 187 kWh (sum of Electricity kWh over 1 row)")
    );
    assert_eq!(
        told("how much electricity did we use in February?").as_deref(),
        Some("February: 198 kWh (sum of Electricity kWh over 1 row)")
    );
}

#[test]
fn conflicting_tables_give_no_answer_but_copies_do() {
    let other = of(
        "Date | Category | Payee | Amount (EUR)\n2025-01-14 | Travel | Coastal Rail | 44.00\n2025-03-03 | Postage | Mail Office | 13.50",
    );
    let question = "what is the sum of postage in 2025?";
    assert!(answer::answer_question(question, &[expenses(), expenses()]).is_some());
    assert_eq!(answer::answer_question(question, &[expenses(), other]), None);
}
