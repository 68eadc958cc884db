//! For each file extension, the tree-sitter grammar and the node kinds at which [`super`] splits source code into blocks.

use tree_sitter::Language;

/// The grammar of one language, and the node kinds at which its code is split into blocks.
pub(super) struct Grammar {
    /// File extensions of the language, in lowercase.
    extensions: &'static [&'static str],
    pub(super) language: fn() -> Language,
    /// Kinds of nodes that become one block each, e.g. functions.
    pub(super) symbols: &'static [&'static str],
    /// Kinds of nodes that are split at the symbols in their body, e.g. classes.
    pub(super) containers: &'static [&'static str],
    /// Kinds of nodes that wrap a symbol to decorate or export it.
    pub(super) wrappers: &'static [&'static str],
    /// Separator between the names of a container and its member, e.g. `::`.
    pub(super) separator: &'static str,
}

/// Returns the grammar for a file extension in lowercase; `None` if there is none.
pub(super) fn for_extension(extension: &str) -> Option<&'static Grammar> {
    GRAMMARS.iter().find(|it| it.extensions.contains(&extension))
}

static GRAMMARS: &[Grammar] = &[
    Grammar {
        extensions: &["rs"],
        language: || tree_sitter_rust::LANGUAGE.into(),
        symbols: &["function_item", "struct_item", "enum_item", "union_item", "macro_definition", "type_item"],
        containers: &["impl_item", "trait_item", "mod_item"],
        wrappers: &[],
        separator: "::",
    },
    Grammar {
        extensions: &["py", "pyi", "pyw"],
        language: || tree_sitter_python::LANGUAGE.into(),
        symbols: &["function_definition"],
        containers: &["class_definition"],
        wrappers: &["decorated_definition"],
        separator: ".",
    },
    javascript_grammar(&["js", "jsx", "mjs", "cjs"], || tree_sitter_javascript::LANGUAGE.into()),
    javascript_grammar(&["ts", "mts", "cts"], || tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into()),
    javascript_grammar(&["tsx"], || tree_sitter_typescript::LANGUAGE_TSX.into()),
    Grammar {
        extensions: &["go"],
        language: || tree_sitter_go::LANGUAGE.into(),
        symbols: &["function_declaration", "method_declaration", "type_declaration"],
        containers: &[],
        wrappers: &[],
        separator: ".",
    },
    Grammar {
        extensions: &["java"],
        language: || tree_sitter_java::LANGUAGE.into(),
        symbols: &["method_declaration", "constructor_declaration", "annotation_type_declaration"],
        containers: &["class_declaration", "interface_declaration", "enum_declaration", "record_declaration"],
        wrappers: &[],
        separator: ".",
    },
    Grammar {
        extensions: &["c"],
        language: || tree_sitter_c::LANGUAGE.into(),
        symbols: &["function_definition", "struct_specifier", "enum_specifier", "union_specifier", "type_definition"],
        containers: &["preproc_ifdef", "preproc_if"],
        wrappers: &[],
        separator: "::",
    },
    Grammar {
        extensions: &["h", "cc", "cpp", "cxx", "hpp", "hh", "hxx", "inl"],
        language: || tree_sitter_cpp::LANGUAGE.into(),
        symbols: &["function_definition", "enum_specifier", "union_specifier", "type_definition"],
        containers: &[
            "class_specifier",
            "struct_specifier",
            "namespace_definition",
            "linkage_specification",
            "preproc_ifdef",
            "preproc_if",
        ],
        wrappers: &["template_declaration"],
        separator: "::",
    },
];

/// Makes the grammar of JavaScript and TypeScript.
const fn javascript_grammar(extensions: &'static [&'static str], language: fn() -> Language) -> Grammar {
    Grammar {
        extensions,
        language,
        symbols: &[
            "function_declaration",
            "generator_function_declaration",
            "method_definition",
            "interface_declaration",
            "type_alias_declaration",
            "enum_declaration",
        ],
        containers: &["class_declaration", "abstract_class_declaration", "internal_module", "module"],
        wrappers: &["export_statement", "expression_statement", "lexical_declaration", "variable_declaration"],
        separator: ".",
    }
}

#[cfg(test)]
mod tests {
    use tree_sitter::Parser;

    use super::*;
    use crate::model::CODE_EXTENSIONS;

    #[test]
    fn grammars_load_and_share_no_extension() {
        for grammar in GRAMMARS {
            Parser::new().set_language(&(grammar.language)()).unwrap();
            for extension in grammar.extensions {
                assert!(CODE_EXTENSIONS.contains(extension), "{extension}");
                assert!(for_extension(extension).is_some_and(|it| std::ptr::eq(it, grammar)), "{extension}");
            }
        }
    }
}
