//! Parses XML into a compact tree, for the readers of office formats.
//!
//! The parser is lenient, because a damaged file should yield the text before the damage. Wrong end tags are repaired,
//! unknown entities are kept, and nothing external or recursive is expanded. Elements are found by local names, because
//! strict and transitional OOXML differ only in namespaces. Validity is not checked.

use std::borrow::Cow;

use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;

use crate::extract::xml_entities;

/// Maximum depth of nested elements. Deeper elements are dropped, because they are an attack on recursive readers.
pub(crate) const MAX_DEPTH: usize = 256;

/// Maximum number of elements and texts per XML part (one XML file in the container); further ones are dropped. At about 50
/// bytes each, they fit into the memory of a worker.
const MAX_NODES: usize = 3_000_000;

/// Index that stands for an absent node.
const NO_NODE: u32 = u32::MAX;

#[derive(Debug)]
enum Content<'a> {
    Element(BytesStart<'a>),
    Text(Cow<'a, str>),
}

#[derive(Debug)]
struct NodeData<'a> {
    content: Content<'a>,
    first_child: u32,
    next_sibling: u32,
}

/// Why a tree does not hold the complete XML part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// Elements are nested deeper than [`MAX_DEPTH`]; the deeper ones are missing.
    TooDeep,
    /// There are more nodes than the maximum per part; the nodes beyond it are missing.
    TooMany,
    /// The XML is not well-formed: the error and its position.
    Malformed(String),
}

/// The parsed tree of one XML part: its elements and texts.
#[derive(Debug)]
pub(crate) struct Tree<'a> {
    nodes: Vec<NodeData<'a>>,
    /// The first flaw that was found while parsing; `None` if the tree is complete.
    pub(crate) flaw: Option<Flaw>,
}

/// Decodes an XML part by its byte order mark, by the encoding in its XML declaration, or else as UTF-8.
pub(crate) fn decode_xml(bytes: &[u8]) -> Cow<'_, str> {
    if let Some((encoding, _)) = encoding_rs::Encoding::for_bom(bytes) {
        return encoding.decode(bytes).0;
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    // Reads the XML declaration as ASCII, which it is in every encoding that works without a byte order mark.
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]);
    let label = head.split("encoding=").nth(1).and_then(|rest| rest.get(1..)).unwrap_or_default();
    let label = label.split(['"', '\'']).next().unwrap_or_default();
    let encoding = encoding_rs::Encoding::for_label(label.as_bytes()).unwrap_or(encoding_rs::UTF_8);
    encoding.decode_without_bom_handling(bytes).0
}

impl<'a> Tree<'a> {
    /// Parses an XML part to its end, or to the first error that cannot be repaired.
    pub(crate) fn parse(text: &'a str) -> Tree<'a> {
        let mut builder = Builder::new();
        let mut reader = Reader::from_str(text);
        let config = reader.config_mut();
        config.check_end_names = false;
        config.allow_unmatched_ends = true;
        config.allow_dangling_amp = true;
        config.expand_empty_elements = false;
        loop {
            match reader.read_event() {
                Ok(Event::Eof) => break,
                Ok(event) => builder.handle_event(event),
                Err(error) => {
                    builder.record_flaw(Flaw::Malformed(format!("{error} at byte {}", reader.error_position())));
                    break;
                }
            }
            if builder.tree.nodes.len() > MAX_NODES {
                builder.record_flaw(Flaw::TooMany);
                break;
            }
        }
        if builder.open.len() > 1 {
            builder.record_flaw(Flaw::Malformed("the XML ends inside an open element".to_string()));
        }
        builder.tree
    }

    /// Returns the document node, the parent of the root element.
    pub(crate) fn top(&self) -> Node<'_> {
        Node { tree: self, index: 0 }
    }
}

struct Builder<'a> {
    tree: Tree<'a>,
    /// Indexes of the open elements, each with the index of its last child so far.
    open: Vec<(u32, u32)>,
    /// Number of open elements beyond the depth limit, which are dropped.
    beyond: usize,
}

impl<'a> Builder<'a> {
    fn new() -> Builder<'a> {
        let top = NodeData { content: Content::Text(Cow::Borrowed("")), first_child: NO_NODE, next_sibling: NO_NODE };
        Builder { tree: Tree { nodes: vec![top], flaw: None }, open: vec![(0, NO_NODE)], beyond: 0 }
    }

    fn record_flaw(&mut self, flaw: Flaw) {
        self.tree.flaw.get_or_insert(flaw);
    }

    fn handle_event(&mut self, event: Event<'a>) {
        match event {
            Event::Start(_) if self.beyond > 0 || self.open.len() > MAX_DEPTH => {
                self.beyond += 1;
                self.record_flaw(Flaw::TooDeep);
            }
            Event::Start(start) => {
                let index = self.add_node(Content::Element(start));
                self.open.push((index, NO_NODE));
            }
            Event::End(_) if self.beyond > 0 => self.beyond -= 1,
            Event::End(end) => self.close_element(end.name().into_inner()),
            _ if self.beyond > 0 => {}
            Event::Empty(start) => {
                self.add_node(Content::Element(start));
            }
            Event::Text(text) => {
                self.add_node(Content::Text(text.into_inner()));
            }
            Event::CData(text) => {
                self.add_node(Content::Text(text.into_inner()));
            }
            Event::GeneralRef(name) => {
                let text = xml_entities::entity_character(&name).map_or_else(|| format!("&{};", &*name), String::from);
                self.add_node(Content::Text(Cow::Owned(text)));
            }
            _ => {}
        }
    }

    fn add_node(&mut self, content: Content<'a>) -> u32 {
        let index = self.tree.nodes.len() as u32;
        self.tree.nodes.push(NodeData { content, first_child: NO_NODE, next_sibling: NO_NODE });
        if let Some((parent, last)) = self.open.last_mut() {
            match *last {
                NO_NODE => self.tree.nodes[*parent as usize].first_child = index,
                last => self.tree.nodes[last as usize].next_sibling = index,
            }
            *last = index;
        }
        index
    }

    /// Closes the innermost open element of that name and all elements inside it. Ignores an end tag without a start tag.
    fn close_element(&mut self, name: &str) {
        let is_it = |&(index, _): &(u32, u32)| match &self.tree.nodes[index as usize].content {
            Content::Element(start) => start.name().into_inner() == name,
            Content::Text(_) => false,
        };
        match self.open.iter().rposition(is_it) {
            Some(place) => {
                if place + 1 != self.open.len() {
                    self.record_flaw(Flaw::Malformed(format!("`{name}` ends before the elements inside it")));
                }
                self.open.truncate(place);
            }
            None => self.record_flaw(Flaw::Malformed(format!("the end tag of `{name}` has no start tag"))),
        }
    }
}

/// An element or text of a [`Tree`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node<'t> {
    tree: &'t Tree<'t>,
    index: u32,
}

impl<'t> Node<'t> {
    fn data(self) -> &'t NodeData<'t> {
        &self.tree.nodes[self.index as usize]
    }

    /// Returns the local name of an element; empty for a text node.
    pub(crate) fn name(self) -> &'t str {
        match &self.data().content {
            Content::Element(start) => start.local_name().into_inner(),
            Content::Text(_) => "",
        }
    }

    /// Returns the text of a text node; `None` for an element.
    pub(crate) fn as_text(self) -> Option<&'t str> {
        match &self.data().content {
            Content::Text(text) => Some(text),
            Content::Element(_) => None,
        }
    }

    /// Returns the value of an attribute by local name; an attribute without prefix takes precedence over a prefixed one.
    pub(crate) fn attr(self, name: &str) -> Option<String> {
        self.find_attr(|prefix, local| prefix.is_none() && local == name)
            .or_else(|| self.find_attr(|_, local| local == name))
    }

    /// Returns the value of a prefixed attribute by local name, e.g. of `r:id` but not of `id`.
    pub(crate) fn prefixed_attr(self, name: &str) -> Option<String> {
        self.find_attr(|prefix, local| prefix.is_some() && local == name)
    }

    fn find_attr(self, is_it: impl Fn(Option<&str>, &str) -> bool) -> Option<String> {
        let Content::Element(start) = &self.data().content else { return None };
        let mut attributes = start.attributes();
        attributes.with_checks(false);
        for attribute in attributes.flatten() {
            let (local, prefix) = attribute.key.decompose();
            if is_it(prefix.map(|it| it.into_inner()), local.into_inner()) {
                return Some(xml_entities::replace_entities(&attribute.value));
            }
        }
        None
    }

    /// Returns the children of the node in order, including text nodes.
    pub(crate) fn children(self) -> impl Iterator<Item = Node<'t>> {
        let tree = self.tree;
        let node = move |index: u32| (index != NO_NODE).then_some(Node { tree, index });
        std::iter::successors(node(self.data().first_child), move |it| node(it.data().next_sibling))
    }

    /// Returns the child elements with that local name.
    pub(crate) fn children_named(self, name: &'t str) -> impl Iterator<Item = Node<'t>> {
        self.children().filter(move |it| it.name() == name)
    }

    /// Returns the first child element with that local name.
    pub(crate) fn child(self, name: &str) -> Option<Node<'t>> {
        self.children().find(|it| it.name() == name)
    }

    /// Follows a path of names from this node: the first child of the first name, its first child of the second, and so on.
    pub(crate) fn path(self, names: &[&str]) -> Option<Node<'t>> {
        names.iter().try_fold(self, |node, name| node.child(name))
    }

    /// Returns all nodes below this node, in document order.
    pub(crate) fn descendants(self) -> impl Iterator<Item = Node<'t>> {
        let mut pending: Vec<Node<'t>> = Vec::new();
        let mut next = self.children().next();
        std::iter::from_fn(move || {
            let node = next.take().or_else(|| pending.pop())?;
            // The sibling waits on the stack until all descendants of this node are visited.
            let NodeData { first_child, next_sibling, .. } = *node.data();
            if next_sibling != NO_NODE {
                pending.push(Node { tree: node.tree, index: next_sibling });
            }
            if first_child != NO_NODE {
                next = Some(Node { tree: node.tree, index: first_child });
            }
            Some(node)
        })
    }

    /// Returns the first descendant element with that local name.
    pub(crate) fn find(self, name: &str) -> Option<Node<'t>> {
        self.descendants().find(|it| it.name() == name)
    }

    /// Returns the text of all descendants, concatenated.
    pub(crate) fn text(self) -> String {
        self.descendants().filter_map(Node::as_text).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_text(xml: &str, text: &str, flawed: bool) {
        let tree = Tree::parse(xml);
        assert_eq!(tree.top().text(), text);
        assert_eq!(tree.flaw.is_some(), flawed, "{:?}", tree.flaw);
    }

    #[test]
    fn entities_resolve_once_and_unknown_ones_stay() {
        assert_text("<a>x &lt;&amp;&#65;&#x42;&nbsp;&b; &amp;lt;</a>", "x <&AB\u{a0}&b; &lt;", false);
    }

    #[test]
    fn declared_entities_are_never_expanded() {
        assert_text(r#"<!DOCTYPE a [<!ENTITY l "lol"><!ENTITY m "&l;&l;">]><a>&m;</a>"#, "&m;", false);
    }

    #[test]
    fn corrupt_xml_keeps_text_before_damage() {
        assert_text("<a><b>one</b><c>two", "onetwo", true);
        assert_text("<a><b>one</a>", "one", true);
        assert_text("<a>one</b>two</a>", "onetwo", true);
        assert_text("<a>one<b attr=", "one", true);
    }

    #[test]
    fn nesting_over_limit_is_cut() {
        let xml = format!("{}deep{}<b>after</b>", "<a>".repeat(5000), "</a>".repeat(5000));
        let tree = Tree::parse(&xml);
        assert_eq!(tree.flaw, Some(Flaw::TooDeep));
        assert_eq!(tree.top().text(), "after");
    }

    #[test]
    fn declared_encodings_are_decoded() {
        let xml = b"<?xml version=\"1.0\" encoding=\"windows-1251\"?><a>\xcf\xf0\xe8</a>";
        assert!(decode_xml(xml).ends_with("<a>При</a>"));
        assert_eq!(decode_xml(b"\xff\xfe<\0a\0/\0>\0"), "<a/>");
    }

    #[test]
    fn prefixed_and_plain_attributes_are_distinct() {
        let tree = Tree::parse(r#"<s r:id="rId2" id="256"/>"#);
        let node = tree.top().child("s").unwrap();
        assert_eq!(node.attr("id").as_deref(), Some("256"));
        assert_eq!(node.prefixed_attr("id").as_deref(), Some("rId2"));
    }
}
