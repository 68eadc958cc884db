//! Extracts the symbols that source code defines, and the modules that it imports.

use std::sync::LazyLock;

use regex::Regex;

use crate::graph::extract::part::{PartBuilder, shared_node};
use crate::graph::extract::relation;
use crate::graph::extract::source_text::SourceText;

/// Patterns of import statements by file extension. The first group is the imported module.
static IMPORTS: LazyLock<Vec<(&[&str], Regex)>> = LazyLock::new(|| {
    const JAVASCRIPT: &[&str] = &["js", "jsx", "mjs", "cjs", "ts", "mts", "cts", "tsx"];
    const C: &[&str] = &["c", "h", "cc", "cpp", "cxx", "hpp", "hh", "hxx", "inl"];
    let patterns: [(&[&str], &str); 9] = [
        (&["rs"], r"(?m)^[ \t]*(?:pub(?:\([a-z]+\))?[ \t]+)?use[ \t]+([\w:]*\w)"),
        (&["py", "pyi", "pyw"], r"(?m)^[ \t]*import[ \t]+([\w.]+)"),
        (&["py", "pyi", "pyw"], r"(?m)^[ \t]*from[ \t]+([\w.]+)[ \t]+import\b"),
        (JAVASCRIPT, r#"(?m)^[ \t]*(?:import|export)\b[^'"\n;]*?from[ \t]*['"]([^'"\n]+)['"]"#),
        (JAVASCRIPT, r#"(?:\brequire\(|\bimport\(|(?m:^[ \t]*)import)[ \t]*['"]([^'"\n]+)['"]"#),
        (&["go"], r#"(?m)^[ \t]*(?:import[ \t]+)?(?:[\w.]+[ \t]+)?"([\w./-]+)"[ \t]*$"#),
        (&["java"], r"(?m)^[ \t]*import[ \t]+(?:static[ \t]+)?([\w.]+\w)"),
        (C, r#"(?m)^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]"#),
        (&["proto"], r#"(?m)^[ \t]*import[ \t]+(?:public[ \t]+|weak[ \t]+)?"([^"\n]+)""#),
    ];
    let compiled = |(extensions, pattern)| (extensions, Regex::new(pattern).expect("a constant that a test compiles"));
    patterns.into_iter().map(compiled).collect()
});

/// Extracts the symbols and imports in a text.
pub(super) fn read_code(text: &SourceText<'_>, maker: &mut PartBuilder<'_>) {
    let record = maker.reading.record;
    if let Some(symbol) = text.anchor.symbol.as_deref().filter(|it| !it.is_empty()) {
        let key = format!("symbol:{}#{symbol}", record.id);
        maker.add_node_and_edge(
            shared_node("CodeSymbol", key, symbol),
            relation::DEFINES,
            1.0,
            text.evidence_at(0..first_line(text.text)),
        );
    }
    for (extensions, pattern) in IMPORTS.iter() {
        if !extensions.contains(&record.extension.as_str()) {
            continue;
        }
        for found in pattern.captures_iter(text.text) {
            let (Some(whole), Some(module)) = (found.get(0), found.get(1)) else { continue };
            add_import(module.as_str(), text, whole.range(), maker);
        }
    }
}

fn first_line(text: &str) -> usize {
    text.find('\n').unwrap_or(text.len())
}

/// Adds the imported module, and the imported file if the import may be a path.
fn add_import(module: &str, text: &SourceText<'_>, range: std::ops::Range<usize>, maker: &mut PartBuilder<'_>) {
    let extension = maker.reading.record.extension.clone();
    let evidence = text.evidence_at(range);
    let named = [module.to_string(), format!("{module}.{extension}"), format!("{}.py", module.replace('.', "/"))];
    for path in named.iter().filter(|it| it.contains('/') || it.contains('.')) {
        if let Some(alias) = maker.relative_path_alias(path) {
            maker.add_edge_to_alias(&alias, relation::IMPORTS, 0.9, evidence.clone());
        }
    }
    maker.add_node_and_edge(
        shared_node("Module", format!("module:{module}"), module),
        relation::IMPORTS,
        0.95,
        evidence,
    );
}
