//! Tests `vic table` with real programs: every format, every protocol, and a key whose scope is a single folder.

use std::io::Write;

use serde_json::{Value, json};

use crate::support::grpc_client;
use crate::support::harness::World;
use crate::support::harness::sample_dir;
use crate::support::http_client::key;
use crate::support::http_client::mcp;
use crate::support::http_client::post;
use crate::support::http_client::send;

const CSV: &str = "Date,Category,Amount\n2025-01-14,Travel,\"1.044,00 €\"\n2025-03-03,\"Post\nand parcels\",\"12,50 €\"\n2025-03-20,Paper,\"400,00 €\"\n2025-04-01,Paper,soon\n";

fn world() -> World {
    World::new().with("VIC_BRIDGE_RATE_LIMIT_PER_MIN", "0").start()
}

/// Returns a Word document with one table.
fn docx() -> Vec<u8> {
    let cell = |it: &&str| format!("<w:tc><w:p><w:r><w:t>{it}</w:t></w:r></w:p></w:tc>");
    let row = |cells: &[&str]| format!("<w:tr>{}</w:tr>", cells.iter().map(cell).collect::<String>());
    let rows = [row(&["What", "Amount"]), row(&["Paper | lined", "0.1"]), row(&["Ink", "0.2"])].concat();
    let body = format!(
        r#"<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body><w:tbl>{rows}</w:tbl></w:body></w:document>"#
    );
    let types = r#"<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>"#;
    let relations = r#"<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/></Relationships>"#;
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, text) in [("[Content_Types].xml", types), ("_rels/.rels", relations), ("word/document.xml", &body)] {
        zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

#[test]
fn every_format_gives_exact_values_with_locations() {
    let world = world();
    let finance = sample_dir().join("Finance");
    for name in ["expenses-2025.csv", "budget-2025.xlsx", "household-meters.ods"] {
        world.write(name, std::fs::read(finance.join(name)).unwrap());
    }
    world.write("storm.tsv", std::fs::read(sample_dir().join("Data/gullpoint-storm.tsv")).unwrap());
    world.write("costs.csv", CSV);
    world.write("costs.docx", docx());
    world.write("costs.md", "# Costs\n\n| What | Amount |\n|---|--:|\n| a \\| b | 0.1 |\n| c | 0.2 |\n");
    let page = "<html><body><h1>Costs</h1><table><tr><th>What<th>Amount<tr><td>a | b<td>0.1<tr><td>c<td>0.2</table></body></html>";
    world.write("costs.html", page);
    world.index();
    for (file, arguments, value, unit, place) in [
        ("expenses-2025.csv", &["--sum", "gross_eur"][..], "7357.05", Some("EUR"), "line 2"),
        ("budget-2025.xlsx", &["--sum", "Q1"], "59880", None, "sheet Budget, A2:G2"),
        ("budget-2025.xlsx", &["--sheet", "orders", "--sum", "value"], "80790", None, "sheet Orders, A2:F2"),
        ("household-meters.ods", &["--max", "cost"], "318.4", Some("EUR"), "sheet Household, A2:E2"),
        ("storm.tsv", &["--count", "--where", "level_mm>=2000 AND station=gp1"], "", None, "line 9"),
        ("costs.csv", &["--sum", "amount", "--where", "date=2025-03"], "412.50", Some("EUR"), "line 3"),
        ("costs.docx", &["--sum", "amount"], "0.3", None, "table 1, row 1"),
        ("costs.md", &["--sum", "amount"], "0.3", None, "line 5"),
        ("costs.html", &["--sum", "amount"], "0.3", None, "table 1, row 1"),
    ] {
        let path = world.files().join(file);
        let mut words = vec!["table", path.to_str().unwrap()];
        words.extend(arguments);
        let answer = world.json(&words);
        let result = &answer["result"][0];
        if !value.is_empty() {
            assert_eq!(result["value"], value, "{file}: {answer}");
        }
        assert_eq!((result["unit"].as_str(), result["evidence"][0].as_str()), (unit, Some(place)), "{file}: {answer}");
        assert_eq!((&answer["head_rows"], &answer["rows"][0]["place"]), (&json!(1), &json!(place)), "{file}");
    }
    let costs = world.files().join("costs.csv");
    let costs = costs.to_str().unwrap();
    let all = world.json(&["table", costs, "--sum", "amount"]);
    assert_eq!(all["result"][0]["value"], "1456.50");
    let left = &all["result"][0]["left_out"][0];
    assert_eq!((&left["reason"], &left["examples"][0]["text"]), (&json!("no number"), &json!("soon")));
    // The record is in line 6, not 5, because the record before it has a line break in a cell.
    assert_eq!(left["examples"][0]["place"], "line 6");
    let shown = world.ok(&["table", costs, "--group-by", "date", "--per", "month", "--sum", "amount", "--top", "1"]);
    assert!(shown.contains("2025-01") && shown.contains("1044.00 EUR"), "{shown}");
    let (code, told) = world.fails(&["table", costs, "--sum", "cost"]);
    assert!(code == 2 && told.contains("its columns are: Date, Category, Amount"), "{told}");
    assert_eq!(world.fails(&["table", costs, "--where", "amount >"]).0, 2);
    assert_eq!(world.fails(&["table", costs, "--table", "2"]).0, 3);
}

#[test]
fn every_protocol_gives_the_same_table_answer() {
    let world = world();
    let path = world.write("costs.csv", CSV);
    world.index();
    let path = path.canonicalize().unwrap();
    let path = path.to_str().unwrap();
    let by_hand = world.json(&["table", path, "--sum", "amount", "--where", "category=Paper"]);
    let asked = json!({
        "path": path, "filter": "category=Paper", "aggregates": [{"function": "sum", "column": "amount"}], "limit": 20,
    });
    assert_eq!(post(&world, "/v1/table", &asked).json(), by_hand);
    let mut arguments = asked.clone();
    arguments["structured"] = json!(true);
    arguments["max_chars"] = json!(20_000);
    let told = mcp(&world, &key(&world), "tools/call", &json!({"name": "table", "arguments": arguments}));
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["result"]["structuredContent"], by_hand, "{told}");
    let message = [grpc_client::string_field(1, path), grpc_client::string_field(4, "category=Paper")].concat();
    let bearer = format!("Bearer {}", key(&world));
    let called =
        grpc_client::call(&world, "localhost", "/vic.v1.Vic/Table", &[("authorization", bearer.as_str())], &message);
    assert_eq!(called.code, Some(0));
    assert!(String::from_utf8_lossy(&called.body).contains("400,00"));
    for (wrong, field) in [
        (json!({"path": path, "filter": "colour=red"}), "filter"),
        (json!({"path": path, "aggregates": [{"function": "sum", "column": "x"}]}), "aggregates"),
        (json!({"path": path, "limit": 5000}), "limit"),
        (json!({"path": ""}), "path"),
    ] {
        let refused = post(&world, "/v1/table", &wrong);
        assert_eq!((refused.status, &refused.json()["error"]["field"]), (400, &json!(field)), "{wrong}");
    }
}

#[test]
fn table_is_limited_to_key_scope_and_redacted() {
    let world = world();
    let mine =
        world.write("mine/bots.csv", "name,token,uses\nada,Zk3vQ9mX2pLr8TnB5wYs,5\nbram,q8Rt2LmZx7Vb4NcK9wPd,6\n");
    let theirs = world.write("theirs/costs.csv", CSV);
    world.index();
    let folder = world.files().join("mine");
    let made = world.json(&["keys", "add", "ada", "--root", folder.to_str().unwrap(), "--allow", "read"]);
    let bearer = format!("Bearer {}", made["key"].as_str().unwrap());
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let ask = |path: &std::path::Path| {
        let body = json!({"path": path.canonicalize().unwrap(), "aggregates": [{"function": "count"}]}).to_string();
        send(&world, "POST", "/v1/table", &headers, &body)
    };
    let own = ask(&mine);
    assert_eq!((own.status, &own.json()["result"][0]["value"]), (200, &json!("2")), "{}", own.body);
    assert!(own.body.contains("[redacted]") && !own.body.contains("Zk3vQ9mX2pLr8TnB5wYs"), "{}", own.body);
    let foreign = ask(&theirs);
    assert_eq!(foreign.status, 404);
    assert!(!foreign.body.contains("Category") && !foreign.body.contains("400"), "{}", foreign.body);
}

#[test]
fn large_table_is_aggregated_and_truncated() {
    let world = world();
    let mut text = String::from("day,who,amount\n");
    for number in 0..100_000 {
        text.push_str(&format!("2025-{:02}-01,p{},{number}.25\n", number % 12 + 1, number % 100));
    }
    let path = world.write("large.csv", text);
    world.ok(&["index", world.files().to_str().unwrap(), "--metadata-only"]);
    let answer = world.json(&["table", path.to_str().unwrap(), "--group-by", "who", "--sum", "amount", "--top", "2"]);
    assert_eq!((&answer["total_rows"], &answer["truncated"]), (&json!(100_000), &json!(true)));
    assert_eq!(answer["result"][0]["value"], "4999975000.00");
    assert_eq!((&answer["groups"][0]["key"], answer["groups"].as_array().unwrap().len()), (&json!("p99"), 2));
}
