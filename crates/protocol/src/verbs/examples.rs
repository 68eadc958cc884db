//! A sample request and answer for every form of every verb. Tests run them on the documents in `tests/data/examples`,
//! which have the ids 1 to 3.

/// A sample request and its answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Example {
    /// Name of the verb.
    pub verb: &'static str,
    /// Name of the form; empty if the verb has only one.
    pub form: &'static str,
    /// Fields of the request as JSON, without `form`.
    pub request: &'static str,
    /// `data` of the answer as JSON, shortened: everything in it is also in the full answer.
    pub response: &'static str,
}

const fn example(verb: &'static str, form: &'static str, request: &'static str, response: &'static str) -> Example {
    Example { verb, form, request, response }
}

/// One example for every form.
pub const EXAMPLES: &[Example] = &[
    example("INGEST", "", r#"{"paths":["/home/me/gauges"]}"#, r#"{"session":1,"files":3,"indexed":3,"failed":0}"#),
    example(
        "EXTRACT",
        "",
        r#"{"schema":"Code","filters":{"language":"python"}}"#,
        r#"{"count":1,"objects":[{"file":1,"lines":[21,21],"text":"level = read(3)"}]}"#,
    ),
    example(
        "NORMALIZE",
        "entities",
        r#"{"concept":"tide gauge"}"#,
        r#"{"mapping":[{"original":"Tide gauges","canonical":"tide gauge","count":2,"files":[1,2]}]}"#,
    ),
    example(
        "NORMALIZE",
        "dates",
        "{}",
        r#"{"mapping":[{"original":"2 March 2024","canonical":"2024-03-02","count":1,"files":[2]}]}"#,
    ),
    example(
        "NORMALIZE",
        "versions",
        r#"{"package":"numpy"}"#,
        r#"{"mapping":[{"original":"numpy 1.24","canonical":"numpy 1.24.0","count":1,"files":[3]}]}"#,
    ),
    example(
        "NORMALIZE",
        "code",
        r#"{"language":"python"}"#,
        r#"{"mapping":[{"file":1,"canonical":"level = read(3)","changed":false}]}"#,
    ),
    example(
        "COMPARE",
        "versions",
        r#"{"doc_a":1,"doc_b":2}"#,
        r#"{"doc_a":1,"doc_b":2,"identical":false,"changes":[{"op":"modified","part":"heading"}]}"#,
    ),
    example(
        "COMPARE",
        "consensus",
        r#"{"field":"recommendation","threshold":0.5}"#,
        r#"{"consensus_points":1,"points":[{"agree":2,"disagree":1,"files":[1,3]}]}"#,
    ),
    example(
        "COMPARE",
        "contradictions",
        r#"{"field":"recommendation"}"#,
        r#"{"contradictions":[{"why":"one negates the other","a":{"file":1},"b":{"file":2}}]}"#,
    ),
    example(
        "COMPARE",
        "approaches",
        "{}",
        r#"{"approaches":1,"list":[{"approach":"radar","pros":[{"file":2,"text":"no float to clean"}]}]}"#,
    ),
    example(
        "DETECT",
        "clusters",
        r#"{"objective":"group by topical similarity","constraints":{"max_clusters":2}}"#,
        r#"{"count":2,"clusters":[{"size":2,"files":[1,2]}]}"#,
    ),
    example(
        "DETECT",
        "warnings",
        r#"{"constraints":{"min_strength":"high"}}"#,
        r#"{"count":1,"warnings":[{"file":2,"strength":"high","text":"Never open the well at sea."}]}"#,
    ),
    example(
        "DETECT",
        "gaps",
        r#"{"constraints":{"expected_topics":["methods"]}}"#,
        r#"{"count":1,"gaps":[{"topic":"methods","missing_from":[3]}]}"#,
    ),
    example(
        "DETECT",
        "anomalies",
        r#"{"constraints":{"field":"table_count","threshold":1}}"#,
        r#"{"fields":["table_count"],"count":1,"anomalies":[{"file":1,"value":1.0,"median":0.0}]}"#,
    ),
    example(
        "DETECT",
        "trends",
        r#"{"constraints":{"field":"table_count"}}"#,
        r#"{"direction":"falling","periods":[{"period":"2023","value":1.0}]}"#,
    ),
    example(
        "TRACE",
        "citations",
        r#"{"format":"graph"}"#,
        r#"{"nodes":[{"id":"f1","date":"2023-04-12"}],"edges":[{"from":"f2","to":"f1","kind":"link"}]}"#,
    ),
    example("TRACE", "authority", "{}", r#"{"nodes":[{"file":1,"cited_by":1}],"edges":[{"from":"f2","to":"f1"}]}"#),
    example("TRACE", "influence", r#"{"source":1}"#, r#"{"source":1,"reached":1,"nodes":[{"file":2,"distance":1}]}"#),
    example(
        "TRACE",
        "freshness",
        r#"{"baseline_date":"2024-01-01"}"#,
        r#"{"nodes":[{"file":1,"date":"2023-04-12","stale":true}]}"#,
    ),
    example(
        "SCORE",
        "authority",
        "{}",
        r#"{"scores":[{"file":1,"score":1.0,"reasons":{"cited_by":1.0}}],"distribution":{"count":3}}"#,
    ),
    example(
        "SCORE",
        "freshness",
        r#"{"baseline_date":"2024-03-02"}"#,
        r#"{"scores":[{"file":2,"score":1.0,"reasons":{"date":"2024-03-02","age_days":0,"from":"stated"}}]}"#,
    ),
    example(
        "SCORE",
        "coverage",
        r#"{"topic":"radar"}"#,
        r#"{"scores":[{"file":2,"reasons":{"matched_words":1}},{"file":3,"score":0.0}]}"#,
    ),
    example(
        "SCORE",
        "confidence",
        r#"{"extraction":"r-41c0ffee0badcafe"}"#,
        r#"{"verb":"EXTRACT","score":0.97,"reasons":{"objects":1,"below_0.8":0}}"#,
    ),
    example(
        "QUERY",
        "",
        r#"{"filter":"code_count>0 AND year>=2020"}"#,
        r#"{"count":1,"documents_in_view":3,"documents":[{"file":1,"code_count":1,"year":2023}]}"#,
    ),
    example("DELTA", "", r#"{"baseline":1}"#, r#"{"counts":{"added":0,"removed":0,"modified":1}}"#),
    example(
        "SUMMARIZE",
        "coverage",
        r#"{"topic":"radar"}"#,
        r#"{"documents_covering":1,"documents":3,"rows":[{"file":2}]}"#,
    ),
    example(
        "SUMMARIZE",
        "decision-inputs",
        r#"{"question":"Is radar better than a float?"}"#,
        r#"{"options":["radar"],"evidence_against":{"radar":[{"file":2,"text":"costs more"}]}}"#,
    ),
    example(
        "SUMMARIZE",
        "timeline",
        "{}",
        r#"{"count":2,"first":"2023-04-12","events":[{"file":1,"date":"2023-04-12"}]}"#,
    ),
    example(
        "SUMMARIZE",
        "comparison-matrix",
        r#"{"items":[1,2],"schema":["year"]}"#,
        r#"{"columns":["file","path","year"],"rows":[[1,"gauges-2023.md",2023],[2,"gauges-2024.md",2024]]}"#,
    ),
    example(
        "EXPLAIN_FAILURE",
        "",
        r#"{"extraction_id":"r-41c0ffee0badcafe"}"#,
        r#"{"issues":[{"type":"incomplete_coverage","missing_from":[2,3]}],"fixable":true}"#,
    ),
];
