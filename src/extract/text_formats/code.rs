//! Reader of source code: makes one block per function, type or method, labelled with its symbol; the text in between
//! becomes separate blocks.
//!
//! Blocks are exact slices of the file. Comments and attributes belong to the symbol below them. Code in languages without
//! a grammar is split at blank lines.

mod grammar;

use std::ops::Range;

use tree_sitter::{Node, Parser};

use crate::extract::encoding::decode;
use crate::extract::formats::extension;
use crate::extract::source_text::Source;
use crate::extract::text_formats::code::grammar::Grammar;
use crate::extract::text_formats::plain;
use crate::extract::{Input, ReadResult, Sink};
use crate::model::BlockKind;

/// Maximum bytes of a file that is parsed. Larger files are split at blank lines: they are generated, and parsing takes
/// seconds without better search results.
const MAX_PARSED_BYTES: usize = 2 << 20;
/// Maximum number of brackets open at once in a file that is parsed. A text with more is split at blank lines: it is not a
/// program, and a parser would need seconds and hundreds of MiB.
const MAX_OPEN_BRACKETS: usize = 500;
/// Containers (modules, classes) nested deeper than this become one block each.
const MAX_NESTING: usize = 8;
/// The header of a container (`impl Parser {`) is joined with the first symbol in the container if it has at most this many
/// bytes.
const MAX_JOINED_HEADER_BYTES: usize = 300;

/// Adds the blocks of a source code file to the sink.
pub(crate) fn read(input: Input<'_>, sink: &mut Sink) -> ReadResult {
    let decoded = decode(input.bytes, None);
    let source = Source::new(&decoded);
    let is_sane = source.text.len() <= MAX_PARSED_BYTES && deepest_brackets(source.text) <= MAX_OPEN_BRACKETS;
    let parsed = grammar::for_extension(&extension(input.name)).filter(|_| is_sane).and_then(|grammar| {
        let mut parser = Parser::new();
        parser.set_language(&(grammar.language)()).ok()?;
        Some((grammar, parser.parse(source.text, None)?))
    });
    match parsed {
        Some((grammar, tree)) => {
            let newlines = memchr::memchr_iter(b'\n', source.text.as_bytes()).collect();
            let mut cut = SymbolCutter { source: &source, grammar, sink, newlines, last: None };
            cut.cut_children(tree.root_node(), 0..source.text.len(), "", 0);
            cut.flush();
        }
        None => plain::push_paragraphs(&source, BlockKind::Code, sink),
    }
    Ok(())
}

/// Returns the maximum number of brackets open at once, including brackets in strings and comments.
fn deepest_brackets(text: &str) -> usize {
    let (mut open, mut most) = (0usize, 0);
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        most = most.max(open);
    }
    most
}

struct SymbolCutter<'a> {
    source: &'a Source<'a>,
    grammar: &'static Grammar,
    sink: &'a mut Sink,
    /// Offsets of the line breaks: to search them again for each symbol would take quadratic time on a long line.
    newlines: Vec<usize>,
    /// The last block and its symbol. It is added later, because the closing bracket of its container may still be appended
    /// to it.
    last: Option<(Range<usize>, String)>,
}

impl SymbolCutter<'_> {
    /// Splits `range`, the extent of `node`, at the symbols among its children. Text between symbols is labelled with
    /// `owner`, the symbol of the container around them; at the top level `owner` is empty.
    fn cut_children(&mut self, node: Node<'_>, range: Range<usize>, owner: &str, depth: usize) {
        let mut done = range.start;
        let mut comments: Option<Range<usize>> = None;
        let mut cursor = node.walk();
        for child in node.children(&mut cursor) {
            if is_comment(child) {
                let adjoins = comments.as_ref().is_some_and(|it| self.is_adjacent(it.end, child.start_byte()));
                let start = comments.filter(|_| adjoins).map_or(child.start_byte(), |it| it.start);
                comments = Some(start..child.end_byte());
                continue;
            }
            let before = comments.take().filter(|it| self.is_adjacent(it.end, child.start_byte()));
            let Some((symbol, body)) = self.symbol(child, owner) else { continue };
            let mut start = self.line_start(before.map_or(child.start_byte(), |it| it.start)).max(done);
            let end = self.line_end(child.end_byte()).clamp(start, range.end.max(start));
            let header = self.source.text[done..start].trim();
            if !owner.is_empty() && done == range.start && header.len() <= MAX_JOINED_HEADER_BYTES {
                start = done;
            } else {
                self.push_between_symbols(done..start, owner);
            }
            match body {
                Some(body) if depth < MAX_NESTING => self.cut_children(body, start..end, &symbol, depth + 1),
                _ => self.push(start..end, &symbol),
            }
            done = end;
            if self.sink.is_full() {
                return;
            }
        }
        self.push_between_symbols(done..range.end.max(done), owner);
    }

    /// Returns the name of the symbol that a node defines and, for a container, the node whose children are to be split;
    /// `None` if it defines no symbol.
    fn symbol<'t>(&self, node: Node<'t>, owner: &str) -> Option<(String, Option<Node<'t>>)> {
        let kind = node.kind();
        if self.grammar.wrappers.contains(&kind) {
            return self.wrapped_symbol(node, owner);
        }
        let join = |name: &str| match owner {
            "" => name.to_string(),
            _ => format!("{owner}{}{name}", self.grammar.separator),
        };
        if self.grammar.containers.contains(&kind) {
            if matches!(kind, "preproc_ifdef" | "preproc_if" | "linkage_specification") {
                let body = node.child_by_field_name("body").unwrap_or(node);
                return Some((owner.to_string(), Some(body)));
            }
            let body = node.child_by_field_name("body")?;
            return Some((join(&self.container_name(node)?), Some(body)));
        }
        if !self.grammar.symbols.contains(&kind) {
            return None;
        }
        Some((join(&self.symbol_name(node)?), None))
    }

    /// Returns the symbol inside a wrapper, as in `export class X {}`, `@decorated def f` or `const f = () => {}`.
    fn wrapped_symbol<'t>(&self, node: Node<'t>, owner: &str) -> Option<(String, Option<Node<'t>>)> {
        let mut cursor = node.walk();
        for inner in node.named_children(&mut cursor) {
            if inner.kind() == "variable_declarator" {
                let value = inner.child_by_field_name("value")?;
                let function = matches!(value.kind(), "arrow_function" | "function_expression" | "class" | "function");
                let name = self.slice(inner.child_by_field_name("name")?);
                return function.then(|| (name.to_string(), None));
            }
            if self.grammar.wrappers.contains(&inner.kind()) && inner.kind() != node.kind() {
                return self.wrapped_symbol(inner, owner);
            }
            if let Some(found) = self.symbol(inner, owner) {
                return Some(found);
            }
        }
        None
    }

    fn container_name(&self, node: Node<'_>) -> Option<String> {
        if node.kind() != "impl_item" {
            let name = node.child_by_field_name("name").map(|it| self.slice(it));
            return Some(name.unwrap_or("(anonymous)").to_string());
        }
        let target = self.slice(node.child_by_field_name("type")?);
        Some(match node.child_by_field_name("trait") {
            Some(of) => format!("impl {} for {target}", self.slice(of)),
            None => format!("impl {target}"),
        })
    }

    fn symbol_name(&self, node: Node<'_>) -> Option<String> {
        // A Go method has a receiver: prefixes the name of the method with the type of the receiver.
        if let Some(receiver) = node.child_by_field_name("receiver") {
            let target = self.slice(receiver).trim_matches(['(', ')']).rsplit([' ', '*']).next().unwrap_or_default();
            return Some(format!("{target}.{}", self.slice(node.child_by_field_name("name")?)));
        }
        if let Some(name) = node.child_by_field_name("name") {
            return Some(self.slice(name).to_string());
        }
        if node.kind() == "type_declaration" {
            return Some(self.slice(node.named_child(0)?.child_by_field_name("name")?).to_string());
        }
        // Descends to the innermost declarator, because in C it holds the name: `int *(*name)(void)`.
        let mut declarator = node.child_by_field_name("declarator")?;
        while let Some(inner) = declarator.child_by_field_name("declarator") {
            declarator = inner;
        }
        let name = self.slice(declarator).trim_start_matches(['*', '&', ' ']);
        Some(name.split('(').next().unwrap_or(name).trim().to_string())
    }

    fn slice(&self, node: Node<'_>) -> &str {
        self.source.text.get(node.byte_range()).unwrap_or_default()
    }

    /// Returns whether only white space with at most one line break is between the offsets `end` and `start`.
    fn is_adjacent(&self, end: usize, start: usize) -> bool {
        self.source.text.get(end..start).is_some_and(|gap| gap.trim().is_empty() && gap.matches('\n').count() <= 1)
    }

    fn line_start(&self, byte: usize) -> usize {
        let line = self.newlines.partition_point(|newline| *newline < byte);
        let start = line.checked_sub(1).map_or(0, |before| self.newlines[before] + 1);
        // Searches backwards, because on a line with many symbols the previous symbol is near, but the line start may be
        // far.
        let is_blank = self.source.text[start..byte].chars().rev().all(char::is_whitespace);
        if is_blank { start } else { byte }
    }

    /// Returns the end of the line if only a semicolon, comma, bracket or comment follows the symbol that ends at `byte`;
    /// otherwise `byte`.
    fn line_end(&self, byte: usize) -> usize {
        let newline = self.newlines.partition_point(|newline| *newline < byte);
        let line = &self.source.text[byte..self.newlines.get(newline).copied().unwrap_or(self.source.text.len())];
        let tail = line.trim_start().trim_start_matches([';', ',', ')', '}']).trim_start();
        if tail.is_empty() || tail.starts_with("//") || tail.starts_with('#') { byte + line.len() } else { byte }
    }

    /// Adds the text between symbols as a block. Text without letters or digits (e.g. a closing bracket) is appended to the
    /// previous block instead.
    fn push_between_symbols(&mut self, range: Range<usize>, owner: &str) {
        let text = &self.source.text[range.clone()];
        if text.contains(char::is_alphanumeric) {
            self.push(range, owner);
        } else if let (Some((last, _)), false) = (&mut self.last, text.trim().is_empty()) {
            last.end = last.end.max(range.start + text.trim_end().len());
        }
    }

    fn push(&mut self, range: Range<usize>, symbol: &str) {
        self.flush();
        self.last = Some((range, symbol.to_string()));
    }

    fn flush(&mut self) {
        if let Some((range, symbol)) = self.last.take() {
            let symbol = (!symbol.is_empty()).then_some(symbol.as_str());
            self.source.push_symbol(self.sink, BlockKind::Code, range, symbol);
        }
    }
}

fn is_comment(node: Node<'_>) -> bool {
    node.kind().contains("comment") || matches!(node.kind(), "attribute_item" | "decorator")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ExtractLimits;

    fn assert_symbols(name: &str, code: &str, expected: &[(&str, &str)]) {
        let mut sink = Sink::new(ExtractLimits::default());
        read(Input { bytes: code.as_bytes(), name }, &mut sink).unwrap();
        let document = sink.into_document();
        let found: Vec<_> = document
            .blocks
            .iter()
            .map(|it| (it.anchor.symbol.as_deref().unwrap_or(""), it.text.lines().next().unwrap().trim()))
            .collect();
        assert_eq!(found, expected);
        for block in &document.blocks {
            let range = block.anchor.byte_start.unwrap() as usize..block.anchor.byte_end.unwrap() as usize;
            assert_eq!(&code[range], block.text);
        }
        let kept: usize = document.blocks.iter().map(|it| it.text.matches(char::is_alphanumeric).count()).sum();
        assert_eq!(kept, code.matches(char::is_alphanumeric).count(), "every word is in some block");
    }

    #[test]
    fn rust_method_is_named_by_its_impl() {
        let code = "use a::b;\n\n/// Reads.\n#[must_use]\nfn read() {}\n\nimpl Parser {\n    /// Goes on.\n    fn next() {}\n\n    fn last() {}\n}\nimpl Drop for Parser {\n    fn drop(&mut self) {}\n}\n";
        assert_symbols(
            "a.rs",
            code,
            &[
                ("", "use a::b;"),
                ("read", "/// Reads."),
                ("impl Parser::next", "impl Parser {"),
                ("impl Parser::last", "fn last() {}"),
                ("impl Drop for Parser::drop", "impl Drop for Parser {"),
            ],
        );
    }

    #[test]
    fn closing_bracket_joins_last_symbol() {
        let code = "mod a {\n    impl B {\n        fn one() {}\n\n        fn two() {}\n    }\n}\n\nfn c() {}\n";
        let mut sink = Sink::new(ExtractLimits::default());
        read(Input { bytes: code.as_bytes(), name: "a.rs" }, &mut sink).unwrap();
        let blocks = sink.into_document().blocks;
        let texts: Vec<&str> = blocks.iter().map(|it| it.text.as_str()).collect();
        assert!(texts[1].ends_with("fn two() {}\n    }\n}"), "{texts:?}");
        assert_eq!((texts.len(), blocks[1].anchor.line_end), (3, Some(7)));
    }

    #[test]
    fn python_class_is_cut_at_methods() {
        let code = "import os\n\n@cached\ndef top():\n    pass\n\nclass A:\n    '''Doc.'''\n\n    def m(self):\n        return 1\n\n    @property\n    def p(self):\n        return 2\n";
        assert_symbols(
            "a.py",
            code,
            &[("", "import os"), ("top", "@cached"), ("A.m", "class A:"), ("A.p", "@property")],
        );
    }

    #[test]
    fn typescript_exports_are_symbols() {
        let code = "export const f = () => {\n  return 1;\n};\nconst n = 1;\nexport default class A {\n  m() {}\n}\nfunction g() {}\n";
        assert_symbols(
            "a.ts",
            code,
            &[
                ("f", "export const f = () => {"),
                ("", "const n = 1;"),
                ("A.m", "export default class A {"),
                ("g", "function g() {}"),
            ],
        );
    }

    #[test]
    fn go_method_is_named_by_its_receiver() {
        let code = "package p\n\n// T is.\ntype T struct{}\n\nfunc (t *T) Run() {}\n";
        assert_symbols("a.go", code, &[("", "package p"), ("T", "// T is."), ("T.Run", "func (t *T) Run() {}")]);
    }

    #[test]
    fn c_symbol_inside_include_guard_is_found() {
        let code = "#ifndef A_H\n#define A_H\nint n;\n\nstatic char *name(int a) { return 0; }\n#endif\n";
        assert_symbols(
            "a.c",
            code,
            &[("", "#ifndef A_H"), ("name", "static char *name(int a) { return 0; }"), ("", "#endif")],
        );
    }

    #[test]
    fn cpp_and_java_members_are_qualified() {
        assert_symbols("a.cpp", "namespace n {\nclass A {\n  void m() {}\n};\n}\n", &[("n::A::m", "namespace n {")]);
        assert_symbols("A.java", "class A {\n  int n;\n  void m() {}\n}\n", &[("A.m", "class A {")]);
    }

    #[test]
    fn symbols_on_one_line_are_separate_blocks() {
        assert_symbols("a.rs", "fn a() {} fn b() {}", &[("a", "fn a() {}"), ("b", "fn b() {}")]);
    }

    #[test]
    fn invalid_code_keeps_every_line() {
        let code = "fn ok() {}\n\nfn broken( {\n  let x = ;\n";
        let mut sink = Sink::new(ExtractLimits::default());
        read(Input { bytes: code.as_bytes(), name: "a.rs" }, &mut sink).unwrap();
        assert!(sink.into_document().text().contains("let x = ;"));
    }
}
