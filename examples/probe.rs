use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Int64Type, UInt64Type};
use futures::TryStreamExt;
use lancedb::expr::{col, lit};
use lancedb::index::scalar::{FullTextSearchQuery, MatchQuery, Operator};
use lancedb::query::{ExecutableQuery, QueryBase, Select};
use std::time::Instant;
fn med(mut v: Vec<f64>) -> f64 {
    v.sort_by(|a, b| a.total_cmp(b));
    v[v.len() / 2]
}
#[tokio::main]
async fn main() {
    let dir = std::env::args().nth(1).unwrap();
    let file = std::env::args().nth(2).unwrap();
    let texts: Vec<String> = std::fs::read_to_string(file)
        .unwrap()
        .lines()
        .map(|l| {
            let v: serde_json::Value = serde_json::from_str(l).unwrap();
            v["text"].as_str().or(v["question"].as_str()).unwrap().to_string()
        })
        .take(100)
        .collect();
    let db = lancedb::connect(&dir).execute().await.unwrap();
    let name = db.table_names().execute().await.unwrap().remove(0);
    let table = db.open_table(&name).execute().await.unwrap();
    println!("rows {}", table.count_rows(None).await.unwrap());
    let fts = |t: &str, cols: Option<&[&str]>, ids: bool, n: usize| {
        let words = MatchQuery::new(t.to_owned()).with_column(Some("text".to_owned())).with_operator(Operator::Or);
        let mut q = table.query().full_text_search(FullTextSearchQuery::new_query(words.into())).limit(n);
        if let Some(c) = cols {
            q = q.select(Select::columns(c));
        }
        if ids {
            q = q.with_row_id();
        }
        async move { q.execute().await.unwrap().try_collect::<Vec<RecordBatch>>().await.unwrap() }
    };
    for round in 0..2 {
        let (mut a, mut b, mut c, mut d, mut e) = (vec![], vec![], vec![], vec![], vec![]);
        for t in &texts {
            let s = Instant::now();
            let out = fts(t, Some(&["chunk_id", "file_id", "_score"]), false, 200).await;
            a.push(s.elapsed().as_secs_f64() * 1e3);
            let s = Instant::now();
            let out2 = fts(t, Some(&["_score"]), true, 200).await;
            b.push(s.elapsed().as_secs_f64() * 1e3);
            let mut ids: Vec<u64> = vec![];
            let mut keys: Vec<(i64, String)> = vec![];
            for x in &out2 {
                ids.extend(x.column_by_name("_rowid").unwrap().as_primitive::<UInt64Type>().values());
            }
            for x in &out {
                let f = x.column_by_name("file_id").unwrap().as_primitive::<Int64Type>();
                let c = x.column_by_name("chunk_id").unwrap().as_string::<i32>();
                for i in 0..x.num_rows() {
                    keys.push((f.value(i), c.value(i).to_string()));
                }
            }
            ids.truncate(60);
            keys.truncate(60);
            if keys.is_empty() {
                continue;
            }
            let cols =
                ["chunk_id", "file_id", "ordinal", "text", "body_start", "anchor", "heading_path", "tokens", "tier"];
            let s = Instant::now();
            let r = table
                .take_row_ids(ids.clone())
                .select(Select::columns(&cols))
                .execute()
                .await
                .unwrap()
                .try_collect::<Vec<RecordBatch>>()
                .await
                .unwrap();
            c.push(s.elapsed().as_secs_f64() * 1e3);
            assert_eq!(r.iter().map(|x| x.num_rows()).sum::<usize>(), ids.len());
            let s = Instant::now();
            let mut files: Vec<i64> = keys.iter().map(|k| k.0).collect();
            files.sort();
            files.dedup();
            let filter = col("file_id")
                .in_list(files.iter().map(|f| lit(*f)).collect(), false)
                .and(col("chunk_id").in_list(keys.iter().map(|k| lit(k.1.as_str())).collect(), false));
            let r = table
                .query()
                .only_if_expr(filter)
                .select(Select::columns(&cols))
                .execute()
                .await
                .unwrap()
                .try_collect::<Vec<RecordBatch>>()
                .await
                .unwrap();
            d.push(s.elapsed().as_secs_f64() * 1e3);
            assert!(r.iter().map(|x| x.num_rows()).sum::<usize>() >= keys.len());
            let s = Instant::now();
            let filter = col("file_id").in_list(files.iter().map(|f| lit(*f)).collect(), false);
            let _ = table
                .query()
                .only_if_expr(filter)
                .select(Select::columns(&["file_id", "ordinal"]))
                .execute()
                .await
                .unwrap()
                .try_collect::<Vec<RecordBatch>>()
                .await
                .unwrap();
            e.push(s.elapsed().as_secs_f64() * 1e3);
        }
        println!(
            "round {round}: fts cols {:.2}  fts rowid {:.2}  take60 {:.2}  filter60 {:.2} filter-files {:.2}",
            med(a),
            med(b),
            med(c),
            med(d),
            med(e)
        );
    }
}
