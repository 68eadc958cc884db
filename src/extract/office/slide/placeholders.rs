//! Placeholders: shapes that take their place and style from a shape of the layout and of the master.

use crate::extract::xml_tree::Node;

/// The layout and the master of a slide, where its placeholders are defined.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placeholders<'t> {
    pub(super) layout: Option<Node<'t>>,
    pub(super) master: Option<Node<'t>>,
}

/// Returns the element of a shape that makes it a placeholder.
pub(super) fn placeholder(shape: Node<'_>) -> Option<Node<'_>> {
    let head = shape.children().find(|it| matches!(it.name(), "nvSpPr" | "nvPicPr" | "nvGraphicFramePr"))?;
    head.path(&["nvPr", "ph"])
}

/// Returns the kind of a placeholder, as a master names it.
fn kind_in_master(placeholder: Node<'_>) -> String {
    let kind = placeholder.attr("type").unwrap_or_default();
    match kind.as_str() {
        "title" | "ctrTitle" => "title".into(),
        "dt" | "ftr" | "sldNum" => kind,
        _ => "body".into(),
    }
}

impl<'t> Placeholders<'t> {
    /// Returns a shape, then the shapes of the layout and of the master that define what it does not state.
    pub(super) fn definitions(&self, shape: Node<'t>) -> Vec<Node<'t>> {
        let mut found = vec![shape];
        let Some(own) = placeholder(shape) else { return found };
        let index = own.attr("idx").filter(|it| it != "0");
        let is_in_layout = |it: Node<'_>| match &index {
            Some(index) => it.attr("idx").as_ref() == Some(index),
            None => kind_in_master(it) == kind_in_master(own),
        };
        let is_in_master = |it: Node<'_>| kind_in_master(it) == kind_in_master(own);
        found.extend(find(self.layout, is_in_layout));
        found.extend(find(self.master, is_in_master));
        found
    }

    /// Returns the paragraph styles of the master for a shape.
    pub(super) fn text_styles(&self, shape: Node<'t>) -> Option<Node<'t>> {
        let name = match placeholder(shape).map(kind_in_master).as_deref() {
            Some("title") => "titleStyle",
            Some("body") => "bodyStyle",
            _ => "otherStyle",
        };
        self.master?.find("txStyles")?.child(name)
    }
}

/// Returns the first placeholder of a layout or master that satisfies a condition.
fn find<'t>(top: Option<Node<'t>>, is_it: impl Fn(Node<'t>) -> bool) -> Option<Node<'t>> {
    let shapes = top?.find("spTree")?;
    shapes.descendants().filter(|it| matches!(it.name(), "sp" | "pic" | "graphicFrame")).find(|it| {
        let own = placeholder(*it);
        own.is_some_and(&is_it)
    })
}
