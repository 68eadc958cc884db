//! Tests that no files of a crate import each other, directly or through other files.
//!
//! A path through a `pub use` counts as an import of the file that defines the item. Test code does not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Attribute, ImplItemFn, Item, ItemUse, UseTree, Visibility};

/// A module, as the names on the path from the root of its crate.
type ModulePath = Vec<String>;

/// What one source file imports, exports and declares.
#[derive(Default)]
struct Imports {
    /// Paths as written in the file, in `use` and in code.
    paths: Vec<Vec<String>>,
    /// Names that the file re-exports, with the paths that they stand for.
    exports: BTreeMap<String, Vec<String>>,
    /// Modules that the file declares and that have their own files.
    children: Vec<String>,
}

impl<'ast> Visit<'ast> for Imports {
    fn visit_item(&mut self, item: &'ast Item) {
        if attributes(item).iter().any(is_for_tests) {
            return;
        }
        match item {
            Item::Use(found) => self.add_use(found),
            Item::Mod(module) if module.content.is_none() => self.children.push(module.ident.to_string()),
            other => visit::visit_item(self, other),
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        if !item.attrs.iter().any(is_for_tests) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    /// Ignores the path in `pub(in crate::x)`, because a visibility imports nothing.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        // Skips single names: each is a local name, or the `use` that imported it is counted.
        if path.segments.len() > 1 {
            self.paths.push(path.segments.iter().map(|it| it.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }
}

impl Imports {
    fn add_use(&mut self, found: &ItemUse) {
        let mut paths = Vec::new();
        flatten(&found.tree, &mut Vec::new(), &mut paths);
        for (name, path) in paths {
            match found.vis {
                Visibility::Inherited => self.paths.push(path),
                _ => drop(self.exports.insert(name, path)),
            }
        }
    }
}

/// Adds each path of a `use` tree, with the name that the path gets in the file.
fn flatten(tree: &UseTree, before: &mut Vec<String>, paths: &mut Vec<(String, Vec<String>)>) {
    let mut add = |name: String, last: &str| {
        let mut path = before.clone();
        if last != "self" {
            path.push(last.to_string());
        }
        paths.push((name, path));
    };
    match tree {
        UseTree::Name(it) if it.ident == "self" => add(before.last().cloned().unwrap_or_default(), "self"),
        UseTree::Name(it) => add(it.ident.to_string(), &it.ident.to_string()),
        UseTree::Rename(it) => add(it.rename.to_string(), &it.ident.to_string()),
        UseTree::Glob(_) => add("*".to_string(), "*"),
        UseTree::Group(group) => group.items.iter().for_each(|it| flatten(it, before, paths)),
        UseTree::Path(it) => {
            before.push(it.ident.to_string());
            flatten(&it.tree, before, paths);
            before.pop();
        }
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(it) => &it.attrs,
        Item::Enum(it) => &it.attrs,
        Item::Fn(it) => &it.attrs,
        Item::Impl(it) => &it.attrs,
        Item::Macro(it) => &it.attrs,
        Item::Mod(it) => &it.attrs,
        Item::Static(it) => &it.attrs,
        Item::Struct(it) => &it.attrs,
        Item::Trait(it) => &it.attrs,
        Item::Type(it) => &it.attrs,
        Item::Use(it) => &it.attrs,
        _ => &[],
    }
}

fn is_for_tests(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute.parse_args::<syn::Path>().is_ok_and(|condition| condition.is_ident("test"))
}

/// Parses the file of a module and the files of its child modules.
fn read(module: ModulePath, file: &Path, modules: &mut BTreeMap<ModulePath, Imports>) {
    let mut imports = Imports::default();
    imports.visit_file(&syn::parse_file(&fs::read_to_string(file).unwrap()).unwrap());
    let is_root = ["lib.rs", "main.rs", "mod.rs"].iter().any(|it| file.ends_with(it));
    let folder = if is_root { file.parent().unwrap().to_path_buf() } else { file.with_extension("") };
    for child in &imports.children {
        let places = [folder.join(format!("{child}.rs")), folder.join(child).join("mod.rs")];
        let path = module.iter().chain([child]).cloned().collect();
        read(path, places.iter().find(|it| it.is_file()).unwrap(), modules);
    }
    modules.insert(module, imports);
}

/// Returns the module that a path in module `from` leads to, or `None` if the path leads out of the crate.
fn resolve(path: &[String], from: &[String], modules: &BTreeMap<ModulePath, Imports>) -> Option<ModulePath> {
    let above = path.iter().take_while(|it| *it == "super").count();
    let start: ModulePath = match path.first()?.as_str() {
        "crate" => Vec::new(),
        "self" => from.to_vec(),
        "super" => from[..from.len().checked_sub(above)?].to_vec(),
        first if modules[from].children.iter().any(|it| it == first) => from.to_vec(),
        _ => return None,
    };
    let skipped = if ["crate", "self"].contains(&path[0].as_str()) { 1 } else { above };
    let absolute: ModulePath = start.into_iter().chain(path[skipped..].iter().cloned()).collect();
    let depth = (0..=absolute.len()).rev().find(|it| modules.contains_key(&absolute[..*it])).unwrap_or(0);
    let module = &absolute[..depth];
    let export = absolute.get(depth).and_then(|name| modules[module].exports.get(name));
    match export {
        Some(behind) if module != from || behind.as_slice() != path => {
            resolve(behind, module, modules).or_else(|| Some(module.to_vec()))
        }
        _ => Some(module.to_vec()),
    }
}

/// Returns all modules that each module imports, directly or through other modules.
fn reachable(modules: &BTreeMap<ModulePath, Imports>) -> BTreeMap<&ModulePath, BTreeSet<ModulePath>> {
    let edges: BTreeMap<&ModulePath, BTreeSet<ModulePath>> = modules
        .iter()
        .map(|(from, imports)| {
            let targets = imports.paths.iter().filter_map(|path| resolve(path, from, modules));
            (from, targets.filter(|it| it != from).collect())
        })
        .collect();
    let reach = |start: &ModulePath| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![start]);
        while let Some(module) = next.pop() {
            for target in &edges[module] {
                if seen.insert(target.clone()) {
                    next.push(target);
                }
            }
        }
        seen
    };
    modules.keys().map(|it| (it, reach(it))).collect()
}

/// Returns the import circles of a crate, each as the names of its modules.
fn circles(root: &Path) -> BTreeSet<Vec<String>> {
    let mut modules = BTreeMap::new();
    read(Vec::new(), root, &mut modules);
    let reach = reachable(&modules);
    let in_circles = reach.iter().filter(|(module, targets)| targets.contains(**module));
    in_circles
        .map(|(module, targets)| {
            targets.iter().filter(|it| reach[it].contains(*module)).map(|it| it.join("::")).collect()
        })
        .collect()
}

#[test]
fn files_of_a_crate_have_no_import_circle() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    for root in [
        "src/lib.rs",
        "crates/cli/src/lib.rs",
        "crates/kernels/src/lib.rs",
        "crates/milvus/src/lib.rs",
        "crates/protocol/src/lib.rs",
        "crates/system/src/lib.rs",
    ] {
        let found = circles(&project.join(root));
        assert!(found.is_empty(), "{root}: {found:#?}");
    }
}

#[test]
fn circle_through_re_export_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| -> PathBuf {
        fs::write(dir.path().join(name), text).unwrap();
        dir.path().join(name)
    };
    let root = write("lib.rs", "mod one; mod two; mod three; pub use one::One;");
    write("one.rs", "use crate::two::Two; pub struct One(Two);");
    write(
        "two.rs",
        "pub struct Two; fn circle() { crate::One; let one = 1; one; } #[cfg(test)] mod tests { use crate::three::Three; }",
    );
    write("three.rs", "use crate::One; pub struct Three;");
    assert_eq!(circles(&root), BTreeSet::from([vec!["one".to_string(), "two".to_string()]]));
}
